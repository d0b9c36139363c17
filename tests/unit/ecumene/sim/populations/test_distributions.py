"""Each distribution is inverted right, stays in its bounds, and says what its file lacks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from ecumene.sim.populations.distributions import Choice, Continuum, apportion_many, make_source
from ecumene.sim.populations.errors import PopulationError
from ecumene.sim.specs.attributes import DistributionSpec
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

EVEN = (np.arange(20_000) + 0.5) / 20_000
EDGES = np.array([0.0, 2.0**-53, 0.5, 1 - 2.0**-53])


def source(**fields: Any) -> Any:
    """What a distribution draws from."""
    return make_source(DistributionSpec.model_validate(fields), "attributes.x")


@pytest.mark.parametrize(
    ("fields", "known"),
    [
        ({"uniform": {"low": -2, "high": 3}}, stats.uniform(-2, 5)),
        ({"normal": {"mean": 5, "deviation": 2}}, stats.norm(5, 2)),
        ({"normal": {"mean": 0, "deviation": 1, "at_least": 9, "at_most": 10}}, stats.truncnorm(9, 10)),
        ({"normal": {"mean": 0, "deviation": 1, "at_most": -9}}, stats.truncnorm(-np.inf, -9)),
        ({"lognormal": {"median": 30, "sigma": 0.5}}, stats.lognorm(0.5, scale=30)),
    ],
)
def test_numbers_follow_what_scipy_knows(fields: dict[str, Any], known: Any) -> None:
    made = source(**fields)
    numbers = made.draw(EVEN).data
    assert np.allclose(numbers, known.ppf(EVEN), rtol=1e-6)
    assert np.allclose(made.accumulate(numbers), EVEN, atol=1e-6)
    assert np.isfinite(made.draw(EDGES[1:]).data).all()


def test_bounds_are_never_left() -> None:
    made = source(lognormal={"median": 10, "sigma": 3, "at_least": 1, "at_most": 100})
    assert 1 <= made.draw(EDGES).data.min() <= made.draw(EDGES).data.max() <= 100
    assert set(source(integers={"low": -1, "high": 1}).draw(EVEN).data.tolist()) == {-1, 0, 1}
    assert source(integers={"low": 0, "high": 2**53}).draw(EDGES).data.max() <= 2**53


def test_bins_hold_their_shares_and_gaps_hold_nobody() -> None:
    bins = [{"low": 10, "high": 20, "share": "0.25"}, {"low": 50, "high": 60, "share": "0.75"}]
    numbers = source(bins=bins).draw(EVEN).data
    assert ((numbers >= 10) & (numbers < 20)).mean() == 0.25
    assert ((numbers >= 50) & (numbers < 60)).mean() == 0.75
    assert source(bins=bins, whole=True).draw(EVEN).data.max() == 59


@pytest.mark.parametrize("name", ["age", "gender", "education", "occupation", "nationality"])
def test_templates_are_whole(name: str) -> None:
    made = source(template=name)
    assert isinstance(made, Choice | Continuum)
    assert len(made.draw(EVEN)) == 20_000
    if isinstance(made, Choice):
        assert made.values.texts
        assert made.shares.sum() == pytest.approx(1)


def test_categories_that_are_whole_numbers_are_numbers() -> None:
    assert source(categories={"1": "0.5", "2": "0.5"}).draw(EDGES).kind == "number"
    assert source(categories={"01": "0.5", "2": "0.5"}).draw(EDGES).texts == ("01", "2")


@pytest.mark.parametrize("name", ["names.txt", "names.csv", "names.parquet"])
def test_names_of_any_script_come_from_files(name: str, tmp_path: Path) -> None:
    names = ["Zoë", "München", "東京", "Łódź", "יְרוּשָׁלַיִם"]
    path = tmp_path / name
    if name.endswith(".parquet"):
        pq.write_table(pa.table({"name": names}), path)
    else:
        path.write_text(("name\n" if name.endswith(".csv") else "\ufeff") + "\n".join(names) + "\n", encoding="utf-8")
    column = {} if name.endswith(".txt") else {"column": "name"}
    drawn = source(file=str(path), **column).draw(EVEN)
    assert sorted(drawn.texts) == sorted(names)
    assert set(np.bincount(drawn.data)) == {4_000}


@pytest.mark.parametrize(
    ("content", "column", "told"),
    [
        (None, None, "cannot be read: No such file"),
        (b"", None, "holds no value"),
        (b"\xff\xfe\x00", None, "is not UTF-8 text"),
        (b"a,b\n1,2\n", "c", "no column is called 'c'; there are a, b"),
        (b"a,b\n1,2\n,3\n", "a", "column 'a' has gaps"),
        (b"a,b\n1\n", "a", "cannot be read"),
        (b"a,b\n", "a", "has 0 rows"),
    ],
)
def test_files_that_are_none_are_refused(content: bytes | None, column: str | None, told: str, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(PopulationError, match=told) as caught:
        source(file=str(path), column=column)
    assert str(caught.value).startswith("population.attributes.x.")
    assert "\n" not in str(caught.value)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40).filter(lambda some: sum(some) > 1e-3), st.integers(0, 10_000))
def test_apportioned_counts_are_within_one(weights: list[float], size: int) -> None:
    shares = np.array(weights) / sum(weights)
    counts = apportion_many(shares, size)
    assert counts.sum() == size
    assert (np.abs(counts - shares * size) < 1 + 1e-6).all()
    assert (counts[shares == 0] == 0).all()
