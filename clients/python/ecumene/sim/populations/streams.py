"""Random numbers that any worker can make anew: number i of a stream follows from (seed, stream, i) alone."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[Any]


def mix(seed: int, stream: str, places: Numbers) -> npt.NDArray[np.uint64]:
    """A random 64-bit number for each place; different places have different ones.

    SplitMix64 (Steele, Lea, Flood 2014) from a hash of seed and stream.
    """
    start = int.from_bytes(blake2b(f"{stream}/{seed}".encode(), digest_size=8).digest(), "little")
    state = (places.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(start)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


def draw_uniform(seed: int, stream: str, places: Numbers) -> npt.NDArray[np.float64]:
    """A number in [0, 1) for each place, of 53 bits."""
    return (mix(seed, stream, places) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def rank(seed: int, stream: str, places: Numbers) -> npt.NDArray[np.int64]:
    """A random order of some places: the rank of each, from 0."""
    ranks = np.empty(len(places), dtype=np.int64)
    ranks[np.argsort(mix(seed, stream, places), kind="stable")] = np.arange(len(places))
    return ranks
