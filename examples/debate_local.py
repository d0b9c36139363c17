"""A debate in three rounds: debate_local.py in this process, debate_distributed.py on the hosts of a server.

ecumene serve --data-dir /tmp/example &
ecumene runtime --server 127.0.0.1:7170 --workflow-path examples --workflow-module debate &
diff examples/debate_local.py examples/debate_distributed.py
python examples/debate_local.py; python examples/debate_distributed.py
"""

from __future__ import annotations

from debate import Debater, Judge


def main() -> None:
    """Let three debate a claim, and a judge decide."""
    cast = (Debater("Ann", 0), Debater("Bob", 1), Debater("Eve", 2), Judge())
    *debaters, judge = cast
    claim = "Ann: tea is better than coffee"
    for number in range(1, 4):
        answers = [debater.answer(claim) for debater in debaters]
        claim = judge.choose(answers)
        print(f"round {number}: {claim}")
    for name, points in judge.verdict().items():
        print(f"{name} has {points}")


if __name__ == "__main__":
    main()
