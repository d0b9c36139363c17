"""Scores of round robins in the package axelrod, kept in `examples/models/dilemma.json`: the package needs torch.

pip install --no-deps axelrod && pip install dask pandas toolz     # what it imports for this
python -m tests.validation.axelrod_scores                           # writes the file anew
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Sequence
from typing import Any

from tests.services import ROOT

PAGE = ROOT / "examples" / "models" / "dilemma.json"
CERTAIN_TURNS = (60,)
"""Of tournaments without Random."""
CHANCE_TURNS = {30: 1000, 200: 400}
"""Of those with it, and how many tournaments the figures are of."""


def score(strategies: Sequence[str], turns: int, tournaments: int, seed: int = 1) -> dict[str, tuple[float, float]]:
    """Mean and deviation of each strategy's score, a turn and opponent. Raises ModuleNotFoundError."""
    import axelrod

    players = [getattr(axelrod, name)() for name in strategies]
    played = axelrod.Tournament(players, turns=turns, repetitions=tournaments, seed=seed).play(progress_bar=False)
    return {
        name: (statistics.fmean(scores), statistics.pstdev(scores))
        for name, scores in zip(strategies, played.normalised_scores, strict=True)
    }


def describe(strategies: Sequence[str]) -> list[dict[str, Any]]:
    """All that is kept; with Random as the last of the strategies."""
    asked = [(strategies[:-1], turns, 1) for turns in CERTAIN_TURNS]
    asked += [(strategies, turns, tournaments) for turns, tournaments in CHANCE_TURNS.items()]
    return [
        {"strategies": list(names), "turns": turns, "tournaments": many, "scores": score(names, turns, many)}
        for names, turns, many in asked
    ]


def main() -> None:
    """Write the file."""
    import axelrod

    sys.path.append(str(PAGE.parent))
    from dilemma import STRATEGIES

    page = {"source": f"axelrod {axelrod.__version__}", "round_robins": describe(list(STRATEGIES))}
    PAGE.write_text(json.dumps(page, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
