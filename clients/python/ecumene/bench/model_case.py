"""Two models that many write first, as they begin: birds that flock, and a town that segregates. Plain data.

Both go on in steps of all at once, so that every system comes to the same end whatever it does in which order: first
everybody sees where the others are, then everybody moves.

Birds (Reynolds 1987): each looks at those within `VISION`, turns towards their middle, away from those within
`SEPARATION`, and into their direction; then it flies on. About ten are seen.
The town (Schelling 1971): who has fewer than `WANTED` of its kind among its neighbours moves to a free place, one after
the other, drawn from the free ones; a place that was left is free for the next one.
"""

from __future__ import annotations

import json
import math
import random
from dataclasses import asdict, dataclass
from pathlib import Path

VISION = 10.0
SEPARATION = 2.0
SPEED = 1.0
COHERE, SEPARATE, MATCH = 0.03, 0.015, 0.05
SEEN = 10.0
DENSITY = 0.8
WANTED = 0.4


@dataclass(frozen=True, slots=True)
class Model:
    """Where a model begins.

    Attributes:
        name: `flock` or `town`.
        side: of the torus.
        places: of each agent.
        traits: of each: the direction of a bird, a vector of length 1; the kind of an inhabitant, 0 or 1.
        steps: to be measured, behind one that is not.
        rules: numbers by name.
    """

    name: str
    side: float
    places: list[tuple[float, float]]
    traits: list[tuple[float, ...]]
    steps: int
    rules: dict[str, float]

    def write(self, path: Path) -> None:
        """For programs of other environments. Raises OSError."""
        path.write_text(json.dumps(asdict(self)), encoding="ascii")


def read_model(path: Path) -> Model:
    """What was written. Raises OSError."""
    document = json.loads(path.read_text(encoding="ascii"))
    return Model(**document | {name: [*map(tuple, document[name])] for name in ("places", "traits")})


def make_flock(birds: int, steps: int) -> Model:
    """Birds anywhere, in any direction."""
    chance = random.Random(birds)
    side = float(round(VISION * math.sqrt(math.pi * birds / SEEN)))
    places = [(chance.random() * side, chance.random() * side) for _ in range(birds)]
    angles = [chance.random() * 2 * math.pi for _ in range(birds)]
    rules = {"vision": VISION, "separation": SEPARATION, "speed": SPEED}
    rules |= {"cohere": COHERE, "separate": SEPARATE, "match": MATCH}
    return Model("flock", side, places, [(math.cos(angle), math.sin(angle)) for angle in angles], steps, rules)


def make_town(side: int, steps: int) -> Model:
    """Two kinds, as many of each, anywhere."""
    chance = random.Random(side)
    places = [(float(x), float(y)) for x in range(side) for y in range(side)]
    chance.shuffle(places)
    inhabited = places[: int(DENSITY * len(places))]
    return Model(
        "town", float(side), inhabited, [(index % 2,) for index in range(len(inhabited))], steps, {"wanted": WANTED}
    )
