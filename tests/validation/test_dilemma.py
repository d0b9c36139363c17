"""The round robin of the prisoner's dilemma has the scores of the package axelrod."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

import dilemma
import pytest
from dilemma import STRATEGIES, Dilemma
from stage import Stage

from tests.validation.axelrod_scores import CERTAIN_TURNS, score
from tests.validation.both_ways import SEEDS, play_both_ways
from tests.validation.margins import list_wrong

pytestmark = pytest.mark.asyncio(loop_scope="module")

CERTAIN = tuple(name for name in STRATEGIES if name != "Random")
EXACT = Dilemma(turns=CERTAIN_TURNS[0], strategies=CERTAIN)
CHANCE = Dilemma(turns=30, name="dilemma-chance")
MODELS = [EXACT, CHANCE]


async def test_strategies_without_chance_score_exactly_as_in_axelrod(stage: Stage, seed: int) -> None:
    known = EXACT.list_known()
    assert list(known) == list(CERTAIN) and {of.deviation for of in known.values()} == {0.0}
    played = await stage.play(EXACT, [seed])
    assert list_wrong(played, known) == []


async def test_another_pay_is_noticed(stage: Stage, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(dilemma.PAY, "DD", 2)
    assert list_wrong(await stage.play(EXACT, [seed]), EXACT.list_known()) != []


async def test_with_one_who_draws_scores_are_as_in_axelrod_on_average(stage: Stage, first_seed: int) -> None:
    known = CHANCE.list_known()
    assert all(known[name].deviation > 0 for name in ("Random", "Grudger"))
    played = await stage.play(CHANCE, range(first_seed, first_seed + 4))
    assert list_wrong(played, known) == []


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the package
async def test_what_is_kept_is_what_the_package_says(missing_toolchain: Callable[[str], NoReturn]) -> None:
    try:
        scores = score(CERTAIN, EXACT.turns, tournaments=1)
    except ModuleNotFoundError as error:
        missing_toolchain(f"axelrod, and what it imports ({error.name}): see tests/validation/axelrod_scores.py")
    known = EXACT.list_known()
    assert {name: known[name].value for name in CERTAIN} == {name: mean for name, (mean, _) in scores.items()}


@pytest.mark.long
@pytest.mark.timeout(1200)
async def test_thirty_seeds_on_one_runtime_and_on_four(first_seed: int) -> None:
    await play_both_ways({Dilemma(): SEEDS}, first_seed)
