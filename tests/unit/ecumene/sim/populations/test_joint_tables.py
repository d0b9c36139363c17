"""Rows of a sample by their weights, fitted to marginals, shared out evenly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ecumene.sim.populations.errors import PopulationError
from ecumene.sim.populations.joint_tables import make_table, round_evenly
from ecumene.sim.specs.attributes import TableSpec

SAMPLE = "sex,age,often\nf,1,2\nf,2,1\nm,1,1\nm,2,4\n"


def make(folder: Path, text: str = SAMPLE, **fields: Any) -> Any:
    """A table of a file."""
    path = folder / "sample.csv"
    path.write_text(text, encoding="utf-8")
    columns = {"sex": "sex", "age": "age"}
    return make_table(TableSpec.model_validate({"file": str(path), "columns": columns, **fields}), "tables[0]")


def test_weights_are_those_of_the_file(tmp_path: Path) -> None:
    assert make(tmp_path).shares.tolist() == [0.25] * 4
    assert make(tmp_path, weight="often").shares.tolist() == [0.25, 0.125, 0.125, 0.5]


def test_fitted_weights_fulfil_the_marginals_and_keep_the_odds_ratio(tmp_path: Path) -> None:
    marginals = {"sex": {"f": "0.6", "m": "0.4"}, "age": {"1": "0.3", "2": "0.7"}}
    shares = make(tmp_path, weight="often", marginals=marginals).shares
    assert shares[0] + shares[1] == pytest.approx(0.6, abs=1e-8)
    assert shares[0] + shares[2] == pytest.approx(0.3, abs=1e-8)
    assert shares[0] * shares[3] / (shares[1] * shares[2]) == pytest.approx(2 * 4 / (1 * 1), rel=1e-6)


@pytest.mark.parametrize(
    ("text", "fields", "told"),
    [
        (SAMPLE, {"marginals": {"sex": {"f": "0.5", "x": "0.5"}}}, "no row with a weight has 'x'"),
        (SAMPLE, {"marginals": {"sex": {"f": 1}}}, "'m' stands in the file and has no share; 0 leaves it out"),
        (SAMPLE, {"weight": "sex"}, "weights must be"),
        (SAMPLE, {"weight": "none"}, "no column is called 'none'"),
        (SAMPLE.replace("2\n", "-2\n"), {"weight": "often"}, "weights must be numbers of 0 or more"),
        (
            "sex,age\nf,1\nm,2\n",
            {"marginals": {"sex": {"f": "0.5", "m": "0.5"}, "age": {"1": "0.1", "2": "0.9"}}},
            "no weights of the rows fulfil all of them",
        ),
    ],
)
def test_tables_that_cannot_be_drawn_are_refused(text: str, fields: dict[str, Any], told: str, tmp_path: Path) -> None:
    with pytest.raises(PopulationError, match=told):
        make(tmp_path, text, **fields)


def test_a_value_of_share_zero_is_left_out(tmp_path: Path) -> None:
    shares = make(tmp_path, marginals={"sex": {"f": 1, "m": 0}}).shares
    assert shares.tolist() == [0.5, 0.5, 0, 0]


@pytest.mark.parametrize("size", [1, 7, 1_000, 10_007])
def test_rows_are_exact_to_one_and_values_near_it(size: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    values = [random.integers(0, 7, 500), random.integers(0, 20, 500), random.integers(0, 3, 500)]
    weights = random.random(500) * (random.random(500) < 0.9)
    exact = weights / weights.sum() * size
    counts = round_evenly(exact, size, values)
    assert counts.sum() == size
    assert (np.abs(counts - exact) < 1 + 1e-9).all()
    assert (counts[weights == 0] == 0).all()
    for coding in values:
        assert np.abs(np.bincount(coding, counts - exact)).max() < 1.5
