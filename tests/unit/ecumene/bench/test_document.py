"""The page of benchmarks: what it says of a figure, and a plot only when something has a limit."""

from __future__ import annotations

from pathlib import Path

from ecumene.bench.document import render_page, show_figure, write_page
from ecumene.bench.results import Goal, Report, Reported, Result

FAST = Result(
    "ops", 250_000.0, "ops/s", 500_000.0, Goal(at_least=200_000), {}, [240_000.0, 250_000.0], {"cpu_us": 2.25}
)
SLOW = Result("wall_s", 20.0, "s", goal=Goal(at_most=15), samples=[20.0])


def test_a_row_tells_value_limit_share_goal_and_samples() -> None:
    page = render_page([Report("env", {"cores": 2, "uvloop": None}, [FAST, SLOW])])
    assert "| `ops` | 250,000 | ops/s | 500,000 | 50% |  | ≥ 200,000 | yes | 240,000, 250,000 |" in page
    assert "| `wall_s` | 20 | s |  |  |  | ≤ 15 | **no** | 20 |" in page
    assert "| `ops` | cpu_us 2.25 |" in page
    assert "cores 2." in page
    assert "uvloop" not in page


BESIDE = Result(
    "ops",
    30.0,
    "ops/s",
    goal=Goal(at_least=10, peers_at_least={"etcd": 20, "redis": 1}),
    peers={"redis": 40.0},
    samples=[30.0],
    absent_peers={"etcd": "etcd is not installed"},
)


def test_every_goal_is_told_with_what_was_missed() -> None:
    page = render_page([Report("env", {}, [FAST, SLOW, BESIDE])])
    assert "1 of 3 were reached" in page
    assert "| `env` | `ops` | ≥ 200,000 | 250,000 ops/s | yes |" in page
    assert "| `env` | `wall_s` | ≤ 15 | 20 s | **no**: ≤ 15 |" in page
    assert "| ≥ 10, ≥ 20 × etcd, ≥ 1 × redis, etcd absent | 30 ops/s | **no**: ≥ 1 × redis |" in page


def test_peers_stand_in_the_row_and_those_that_are_absent_with_their_reason(tmp_path: Path) -> None:
    write_page([Report("env", {}, [BESIDE])], tmp_path / "benchmarks.md")
    assert "| redis 40, etcd absent: etcd is not installed |" in (tmp_path / "benchmarks.md").read_text(
        encoding="utf-8"
    )
    plot = (tmp_path / "benchmarks-peers.svg").read_text(encoding="utf-8")
    assert "redis" in plot and "etcd" not in plot


def test_what_others_reported_stands_in_the_table_under_its_mark_and_in_no_goal() -> None:
    theirs = Reported("wall_s", 40.0, "s", "a paper", "4 machines of 64 cores")
    report = Report("round", {}, [SLOW], reported=[theirs])
    page = render_page([report])
    ours = page.index("| `wall_s` | 20 | s |  |  |  | ≤ 15 | **no** | 20 |")
    told = page.index("| `wall_s`, reported in the paper, other machines | 40 | s |  |  | 4 machines of 64 cores |")
    assert page[ours:told].count("\n") == 1
    assert "0 of 1 were reached" in page
    assert report.to_document()["reported"] == [
        {"name": "wall_s", "value": 40.0, "unit": "s", "source": "a paper", "setting": "4 machines of 64 cores"}
    ]


def test_a_quick_run_says_so() -> None:
    assert "quick" in render_page([Report("env", {}, [FAST], is_quick=True)])
    assert "quick" not in render_page([Report("env", {}, [FAST])])


def test_the_same_figures_give_the_same_files(tmp_path: Path) -> None:
    texts = []
    for name in ("a", "b"):
        write_page([Report("env", {}, [FAST])], tmp_path / name / "benchmarks.md")
        texts.append([path.read_bytes() for path in sorted((tmp_path / name).iterdir())])
    assert texts[0] == texts[1]
    assert len(texts[0]) == 2


def test_without_limits_there_is_no_plot(tmp_path: Path) -> None:
    write_page([Report("round", {}, [SLOW])], tmp_path / "benchmarks.md")
    assert [path.name for path in tmp_path.iterdir()] == ["benchmarks.md"]
    assert ".svg" not in (tmp_path / "benchmarks.md").read_text(encoding="utf-8")


def test_figures_have_as_many_digits_as_they_are_worth() -> None:
    assert [show_figure(value) for value in (1234567.8, 999.94, 1.23456)] == ["1,234,568", "999.9", "1.235"]
