"""Random numbers that belong to a key instead of to the order of calls."""

from __future__ import annotations

import math
from collections.abc import Sequence
from hashlib import blake2b
from typing import TypeVar

T = TypeVar("T")

_MASK = (1 << 64) - 1
_GAMMA = 0x9E3779B97F4A7C15
_UNIT = 2.0**-53


class Draw:
    """The random stream of one question: a function of its key alone, on every machine and Python.

    `stream` numbers independent streams of the same question. Made in a microsecond and 48 bytes,
    where `random.Random` takes six and 2.5 KB: one per call of a million agents is affordable. The
    methods are named as in `random.Random`.

    The key is hashed with BLAKE2b; the stream is SplitMix64 (Steele, Lea, Flood 2014), which passes
    BigCrush. Not for secrets.
    """

    __slots__ = ("_state",)

    def __init__(self, seed: int, agent_id: str, turn: int, call: int, stream: int = 0) -> None:
        # The one part of free form stands last, so that no two keys give the same bytes.
        key = f"{seed}/{turn}/{call}/{stream}/{agent_id}".encode()
        self._state = int.from_bytes(blake2b(key, digest_size=8).digest(), "little")

    def random(self) -> float:
        """Returns a float in [0, 1)."""
        self._state = mixed = (self._state + _GAMMA) & _MASK
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        return ((mixed ^ (mixed >> 31)) >> 11) * _UNIT

    def uniform(self, low: float, high: float) -> float:
        """Returns a float between `low` and `high`."""
        return low + (high - low) * self.random()

    def randrange(self, stop: int) -> int:
        """Returns an integer in [0, stop), for `stop` up to 2**53 (bias below stop / 2**53)."""
        return int(self.random() * stop)

    def choice(self, options: Sequence[T]) -> T:
        """Returns one of `options`."""
        return options[self.randrange(len(options))]

    def gauss(self, mean: float, deviation: float) -> float:
        """Returns a normal variate (Box-Muller, two uniforms each)."""
        radius = math.sqrt(-2.0 * math.log(1.0 - self.random()))
        return mean + deviation * radius * math.cos(2.0 * math.pi * self.random())

    def expovariate(self, rate: float) -> float:
        """Returns an exponential variate of mean 1 / rate."""
        return -math.log(1.0 - self.random()) / rate
