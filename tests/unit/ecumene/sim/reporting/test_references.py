"""References are what theory and the published figures say."""

from __future__ import annotations

import pytest
from ecumene.sim.reporting import list_references


def means(kind: str, **game: float) -> list[dict[int, float]]:
    """The lines of a kind."""
    return [dict(line.means) for line in list_references(**game) if line.kind == kind]  # type: ignore[arg-type]


def test_theory_is_fifty_times_ratio_to_the_k_and_the_equilibrium() -> None:
    best, equilibrium = means("theory", ratio=2 / 3, offset=0.0, rounds=5)
    assert [best[k] for k in range(1, 6)] == pytest.approx([50 * (2 / 3) ** k for k in range(1, 6)], abs=1e-12)
    assert set(equilibrium.values()) == {0.0}


def test_the_shifted_target_has_its_own_theory_and_no_people() -> None:
    best, equilibrium = means("theory", ratio=0.5, offset=5.0, rounds=4)
    assert list(best.values()) == [30, 20, 15, 12.5]
    assert set(equilibrium.values()) == {10.0}
    assert means("people", ratio=0.5, offset=5.0, rounds=4) == []


def test_people_are_shown_for_the_ratios_that_they_played() -> None:
    assert means("people", ratio=2 / 3, offset=0.0, rounds=2) == [{1: 36.73}, {1: 39.7, 2: 28.6}]
    assert means("people", ratio=0.5, offset=0.0, rounds=9)[1] == {1: 23.7, 2: 10.9, 3: 5.3, 4: 8.1}
    assert means("people", ratio=4 / 3, offset=0.0, rounds=3) == [{1: 60.12}]
    assert means("people", ratio=0.51, offset=0.0, rounds=3) == []


@pytest.mark.parametrize(("ratio", "offset", "limit"), [(4 / 3, 0.0, 100.0), (1.0, 0.0, 50.0), (2.0, -80.0, 0.0)])
def test_an_equilibrium_at_an_end_is_where_best_responses_lead(ratio: float, offset: float, limit: float) -> None:
    best, equilibrium = means("theory", ratio=ratio, offset=offset, rounds=60)
    assert best[60] == equilibrium[60] == limit


def test_every_people_line_names_its_source() -> None:
    for line in list_references(ratio=2 / 3, offset=0.0, rounds=3):
        assert line.source
        if line.kind == "people":
            assert "Nagel 1995" in line.name
            assert "publicly" in line.source
