"""Every wrong spec gives one readable message with its line; several mistakes give as many."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ecumene.cli import app
from ecumene.sim.checks.check import check_spec

EXAMPLES = Path(__file__).resolve().parents[5] / "examples"
GROUP = "population:\n  groups:\n    - {name: a, agent: random, count: 4}\n"  # lines 2 to 4 behind a name
ASKING = "population:\n  groups:\n    - {name: a, agent: prompted, count: 4}\n"
HEAD, HEAD_ASKING = f"name: x\n{GROUP}", f"name: x\n{ASKING}"

# What is wrong, its line, and a part of what is said.
WRONG: list[tuple[str, int | None, str]] = [
    # no YAML
    (f"name: x\n\tseed: 1\n{GROUP}", 2, "indent by spaces"),
    (f"name: x: y\n{GROUP}", 1, "a second ': '"),
    (f"name: x\n  seed: 1\n{GROUP}", 2, "a wrong indentation"),
    (HEAD + "game:\n  rounds: 5\n ratio: 1\n", 7, "begin in one column"),
    (HEAD + "game: {rounds: 5\n", 6, "is not closed"),
    (HEAD + 'world: "main\n', 6, "open to the end"),
    (f"name: x\nname: y\n{GROUP}", 2, "'name' stands twice"),
    (f"name: *x\n{GROUP}", 1, "an alias (*) of no anchor"),
    (f"name: @x\n{GROUP}", 1, "YAML keeps for itself"),
    (f"name: !x y\n{GROUP}", 1, "a tag (!)"),
    (f"name: x\nseed\n{GROUP}", 3, "wrong indentation"),
    (HEAD + "---\nname: y\n", 5, "a spec is one"),
    ("- name: x\n", None, "not a mapping of fields"),
    ("", None, "not a mapping of fields"),
    # fields
    (f"nmae: x\n{GROUP}", 1, "did you mean name?"),
    ("name: x\n", None, "population: is missing"),
    (f"name: Mein Spiel\n{GROUP}", 1, "a-z, 0-9 and -"),
    (f"name: 2026\n{GROUP}", 1, 'put it in quotes: "2026"'),
    (f"name: true\n{GROUP}", 1, 'put it in quotes: "true"'),
    (f"name:\n{GROUP}", 1, "must be text"),
    (HEAD + "seed: -1\n", 5, "at least 0"),
    (HEAD + "seed: 1.5\n", 5, "a whole number"),
    (HEAD + "seed: 99999999999999999999\n", 5, "less than"),
    (HEAD + "seed: " + "9" * 5000 + "\n", 5, "too many digits"),
    (HEAD + "world: Main World\n", 5, "a-z, 0-9 and -"),
    (HEAD + "game: 5\n", 5, "must be a mapping"),
    (HEAD + "game:\n  round: 5\n", 6, "did you mean rounds?"),
    (HEAD + "game:\n  rounds: five\n", 6, "a whole number, not 'five'"),
    (HEAD + "game:\n  rounds: 0\n", 6, "at least 1"),
    (HEAD + "game:\n  deadline_s: 1:30\n", 6, "must be a number, not '1:30'"),
    (HEAD + "game:\n  deadline_s: .inf\n", 6, "finite"),
    (HEAD + "game:\n  ratio: .nan\n", 6, "finite"),
    (HEAD + "game:\n  ratio: no\n", 6, "no fraction"),
    (HEAD + "game:\n  ratio: 2/0\n", 6, "no fraction"),
    (HEAD + "game:\n  ratio: 1e999\n", 6, "finite"),
    (HEAD + "recording:\n  bodies: maybe\n", 6, "true or false"),
    (HEAD.replace("random", "randm"), 4, "did you mean random?"),
    (HEAD.replace("random", "level-k"), 4, "level: is missing"),
    (HEAD.replace("count: 4", "count: 4, parameters: {level: 1}"), 4, "unknown parameter"),
    (HEAD.replace("count: 4", "count: 4, share: 1"), 4, "either count or share"),
    (HEAD.replace("count: 4", "share: 1"), 2, "shares need a size"),
    (HEAD.replace("count: 4", "count: four"), 4, "a whole number"),
    (HEAD + "    - {name: a, agent: random, count: 4}\n", 2, "share the name a"),
    (HEAD.replace("count: 4", "count: 0"), 2, "sum to 0"),
    (
        "name: x\npopulation:\n  size: 4\n  groups:\n    - {name: a, agent: random, share: 1.2}\n",
        5,
        "at most 1",
    ),
    ("name: x\npopulation:\n  size: 4\n  groups:\n    - {name: a, agent: random, share: 0.5}\n", 2, "sum to 0.5"),
    ("name: x\npopulation:\n  groups: []\n", 2, "there are no groups"),
    (HEAD_ASKING + "model: {provider: opnai}\n", 5, "did you mean openai?"),
    (HEAD_ASKING + "model: {provider: openai}\n", 5, "endpoint is for provider openai"),
    (HEAD_ASKING + 'model: {provider: openai, endpoint: "ftp://x"}\n', 5, "http://host:port/v1"),
    (HEAD_ASKING + "model: {temperature: hot}\n", 5, "a number, not 'hot'"),
    (HEAD_ASKING + "model: {microdollars_max: 5}\n", 5, "needs a price"),
    (HEAD_ASKING + "models: {a: {}, b: {}}\n", 4, "there are several models"),
    (HEAD_ASKING.replace("count: 4", "count: 4, model: b") + "models: {a: {}}\n", 4, "no model is called 'b'"),
    (HEAD + "budget: {microdollars_max: 5}\n", 5, "needs a model with a price"),
    # what is around it
    (HEAD_ASKING + 'model: {provider: openai, endpoint: "http://x/v1", api_key_file: no.key}\n', 5, "does not exist"),
    (HEAD_ASKING + "model: {cache: none/here/answers}\n", 5, "does not exist"),
    (HEAD_ASKING + "model: {provider: replay, replay_from: none}\n", 5, "not the directory of a run"),
    (HEAD + "recording: {directory: spec.yaml/runs}\n", 5, "is a file, no folder"),
]


@pytest.mark.parametrize(("text", "line", "said"), WRONG, ids=[said for _, _, said in WRONG])
def test_a_wrong_spec_gives_one_message_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], text: str, line: int, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("spec.yaml").write_text(text, encoding="utf-8")
    assert app.main(["check", "spec.yaml", "--fields-only"]) == 2
    (shown,) = capsys.readouterr().out.splitlines()
    assert said in shown
    assert shown.startswith("spec.yaml: " if line is None else f"spec.yaml: line {line}: ")
    assert len(shown) < 300 or "random" in shown


def test_all_mistakes_are_told_at_once_also_those_behind_others(tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(
        "name: X\nseed: -1\npopulation:\n  groups:\n    - {name: a, agent: prompted, count: 4, model: b}\n"
        f"models:\n  a: {{cache: {tmp_path}/none/x}}\ngame: {{rounds: 0}}\nbudget: {{microdollars_max: 1}}\n",
        encoding="utf-8",
    )
    report = check_spec(path, loads_classes=False)
    assert [(problem.line, problem.path) for problem in report.problems] == [
        (1, "name"),
        (2, "seed"),
        (5, "population.groups[0].model"),
        (7, "models.a.cache"),
        (8, "game.rounds"),
        (9, "budget.microdollars_max"),
    ]


def test_what_is_not_installed_and_what_does_not_pay_is_told_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text("print('noise')\nimport none_such\n", encoding="utf-8")
    Path("spec.yaml").write_text(
        "name: x\n"
        "population:\n"
        "  groups:\n"
        "    - {name: a, agent: prompted, count: 100, parameters: {prompt: guess-p99}}\n"
        "    - {name: b, agent: 'mine:Agent', count: 1}\n"
        "    - {name: c, agent: 'json:loads', count: 1}\n"
        "    - {name: d, agent: prompted, count: 100}\n"
        "model:\n"
        "  latency_ms: 90000\n"
        "  in_flight_max: 8\n"
        "  tokens_max: 1000\n"
        "  answers: 'json:nothing'\n",
        encoding="utf-8",
    )
    assert app.main(["check", "spec.yaml", "--json"]) == 2
    (told,) = json.loads(capsys.readouterr().out)
    assert not told["ok"]
    assert [(one["line"], one["path"]) for one in told["problems"]] == [
        (4, "population.groups[0].parameters"),
        (5, "population.groups[1].agent"),
        (6, "population.groups[2].agent"),
        (11, "model.tokens_max"),
        (12, "model.answers"),
    ]
    assert "guess-p1" in told["problems"][0]["message"]
    assert [(one["path"], "missing" in one["message"]) for one in told["warnings"]] == [("game.deadline_s", True)]


def test_a_key_that_is_not_set_here_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(
        HEAD_ASKING + 'model: {provider: openai, endpoint: "http://x/v1", api_key_variable: A_KEY}\n', encoding="utf-8"
    )
    monkeypatch.delenv("A_KEY", raising=False)
    report = check_spec(path, loads_classes=False)
    assert report.spec is not None
    assert [str(one) for one in report.warnings] == [
        "line 5: model.api_key_variable: the variable A_KEY is not set here"
    ]
    monkeypatch.setenv("A_KEY", "secret")
    assert check_spec(path, loads_classes=False).warnings == ()


def test_the_examples_can_be_run_from_their_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(EXAMPLES)
    assert app.main(["check", *(str(path) for path in sorted(Path().glob("guess_*.yaml")))]) == 0
