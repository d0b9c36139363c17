"""Three people guess two thirds of their average, three times; a spec can play it with a million agents.

ecumene serve --data-dir /tmp/example &
python examples/guess_game.py
"""

from __future__ import annotations

import asyncio
import sys

import ecumene

GUESSES = {"ada": (50.0, 25.0, 12.0), "bob": (33.0, 22.0, 10.0), "eve": (80.0, 40.0, 20.0)}


async def main(address: str) -> None:
    """Play three rounds in a new environment of the server's world."""
    async with ecumene.connect(address) as world:
        game = world.environment("/parlour")
        await game.register(kind="guess_game", if_absent=True)
        for turn in range(3):
            opened = await game.invoke("open_round", participants=len(GUESSES))
            reports = world.environment(opened["reports"])
            generation = opened["generation"]
            for name, guesses in GUESSES.items():
                await reports.set(name, guesses[turn], gate_generation=generation)
            closed = await game.invoke("close_round", generation=generation)
            mean, target, winner = closed["mean"], closed["target"], closed["winner"]
            print(f"round {opened['round']}: mean {mean:g}, target {target:.4g}, {winner} wins")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:7170"))
