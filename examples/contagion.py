"""A contagion among 500 walkers on a grid: a model in one program, whose world outlives it.

ecumene serve --data-dir /tmp/contagion &
python examples/contagion.py                     # Ctrl-C, or kill it, and start it again: it goes on, to the same end
ecumene clock show /field --world contagion      # meanwhile, in another terminal
ecumene near /field --key walker-7 --radius 3 --world contagion

Each hour all look who is near, and fall ill, or recover, and walk, at the same moment. What an hour does is written
down whole before it is done, so that a program that is killed in between does the same hour again, and nothing else.
"""

from __future__ import annotations

import argparse
import random
import sys
from typing import TYPE_CHECKING, Any

from ecumene import Clock, Grid, ns, sync

if TYPE_CHECKING:
    from ecumene.sync import Environment, World

FIELD, STAFF = "/field", "/staff"
GRID = Grid(30, 30, torus=True)
WALKERS = [f"walker-{number}" for number in range(500)]
ILL_AT_FIRST = 5
CATCHES, RECOVERS = 0.06, 0.08
"""Chances an hour: to catch it from one who is ill and near, and to recover."""
RADIUS = 1
HOURS = 72
HOUR_NS = ns(hours=1)
SEED = 7


def prepare(world: World) -> Environment:
    """The field, the walkers and the clock; what is there already stays as it is."""
    field = world.environment(FIELD)
    field.register(space=GRID, if_absent=True)
    chance = random.Random(SEED)
    places = [(chance.randrange(GRID.width), chance.randrange(GRID.height)) for _ in WALKERS]
    states = ["ill" if number < ILL_AT_FIRST else "well" for number in range(len(WALKERS))]
    field.create_many(WALKERS, states, places, if_absent=True).raise_failure()
    field.create_stream("history", if_absent=True)  # an item an hour that is over
    world.environment(STAFF).register(if_absent=True)  # who takes part in the clock: there before the clock names it
    if field.describe().clock is None:
        field.change(clock=Clock.event_driven(participants_path=STAFF))
    return field


def decide(field: Environment, hour: int) -> dict[str, Any]:
    """What all do in an hour, on the ground of how it was before; chance follows from seed and hour alone."""
    chance = random.Random(f"{SEED} {hour}")
    entries = {entry.key: entry for entry in field.entries("walker-")}
    around = field.neighbours(radius=RADIUS)
    states, places = [], []
    for walker in WALKERS:
        state, (column, row) = entries[walker].value, entries[walker].position
        ill = sum(entries[other].value == "ill" for other in around.of(walker))
        draw = chance.random()
        if state == "well" and draw < 1 - (1 - CATCHES) ** ill:
            state = "ill"
        elif state == "ill" and draw < RECOVERS:
            state = "immune"
        states.append(state)
        places.append(GRID.wrap((column + chance.choice((-1, 0, 1)), row + chance.choice((-1, 0, 1)))))
    return {"hour": hour, "states": states, "places": places}


def live(field: Environment, hour: int) -> None:
    """One hour: decided, written down, done, and noted as done."""
    plan: Any = field.value("plan")
    if plan is None or plan["hour"] != hour:  # else somebody began this hour before us
        plan = decide(field, hour)
        field.set("plan", plan)
    field.set_many(WALKERS, plan["states"], [tuple(place) for place in plan["places"]]).raise_failure()
    counts = [plan["states"].count(state) for state in ("well", "ill", "immune")]
    field.append("history", [hour, *counts], expect_version=hour)  # once, whoever else plays
    print(f"hour {hour}: {counts[0]} well, {counts[1]} ill, {counts[2]} immune", flush=True)


def play(world: World) -> None:
    """From where the world stands to the last hour."""
    field = prepare(world)
    done = len(field.read_stream("history").items)
    if done == HOURS:
        return
    # Without a lease: the clock stands while we are gone, and whoever begins again takes the place at once.
    with field.clock().participate("walkers", ttl_s=None, hears=[]) as walkers:
        walkers.wake_at((done + 1) * HOUR_NS)
        for _ in walkers:
            if walkers.now_ns < (done + 1) * HOUR_NS:
                continue
            done += 1
            live(field, done)
            if done == HOURS:
                return
            walkers.wake_at((done + 1) * HOUR_NS)


def tell(world: World, plot: str) -> None:
    """How it went, and a picture of it."""
    rows: list[Any] = [item.value for item in world.environment(FIELD).read_stream("history").items]
    peak = max(rows, key=lambda row: row[2])
    print(f"most were ill in hour {peak[0]}: {peak[2]}; {len(WALKERS) - rows[-1][1]} of {len(WALKERS)} caught it")
    if plot:
        draw(rows, plot)


def draw(rows: list[Any], file: str) -> None:
    """How many were well, ill and immune, hour by hour."""
    from matplotlib.figure import Figure  # only who wants a picture needs it

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    hours = [row[0] for row in rows]
    for column, (state, colour) in enumerate((("well", "tab:blue"), ("ill", "tab:red"), ("immune", "tab:green")), 1):
        axes.plot(hours, [row[column] for row in rows], color=colour, label=state)
    axes.set(xlabel="hour", ylabel="walkers", title=f"A contagion among {len(WALKERS)} walkers", xlim=(0, HOURS))
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(file, dpi=150)
    print("plot:", file)


def main() -> None:
    """Play, or go on."""
    parser = argparse.ArgumentParser(description="A contagion among 500 walkers on a grid, which may be killed.")
    parser.add_argument("address", nargs="?", default="127.0.0.1:7170", help="of the server (default: %(default)s)")
    parser.add_argument("--plot", metavar="FILE", default="", help="draw how it went, such as contagion.png")
    asked = parser.parse_args()
    with sync.connect(asked.address, "contagion", create=True) as world:
        try:
            play(world)
        except (sync.FencedError, sync.PreconditionFailedError):
            sys.exit("another program plays this contagion now: it goes on where we were")
        except KeyboardInterrupt:
            sys.exit(130)
        tell(world, asked.plot)


if __name__ == "__main__":
    main()
