"""How alike texts are: pairs that are too much alike, and how different all of them are together.

Texts are compared by their word triples (of scripts without spaces: by their quadruples of signs); two texts are alike
by the part of all their triples that both have (Jaccard). All pairs are compared, exactly, as products of sparse
matrices: what is found depends on neither chance nor order.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ecumene.sim.populations.streams import Numbers

WORDS, SIGNS = 3, 4
BLOCK_ROWS = 512
COMPARED_MAX = 5_000
"""So many texts at most are compared for the figures of diversity, evenly chosen."""
_WORD = re.compile(r"\w+")
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")


@dataclass(frozen=True, slots=True)
class Diversity:
    """How different texts are.

    Attributes:
        texts: how many there are. compared: how many of them were compared in pairs.
        distinct_1, distinct_2, distinct_3: different words, word pairs and word triples over all of them (Li et al.
            2016, distinct-n); falls with the amount of text.
        similarity_mean: of all pairs. nearest_mean, nearest_max: of each text to the one most like it.
    """

    texts: int
    compared: int
    distinct_1: float
    distinct_2: float
    distinct_3: float
    similarity_mean: float
    nearest_mean: float
    nearest_max: float


def find_near_duplicates(texts: Sequence[str], alike: float) -> dict[int, int]:
    """Place of a text -> place of an earlier one to which it is too much alike, the first of those that stay.

    Taken in their order: what is found so is no reason against another.
    """
    likes: dict[int, list[int]] = {}
    for one, other, similarity in _compare(texts):
        pairs = zip(one.tolist(), other.tolist(), similarity.tolist(), strict=True)
        for later, earlier, value in pairs:
            if earlier < later and value >= alike:
                likes.setdefault(later, []).append(earlier)
    found: dict[int, int] = {}
    for later in sorted(likes):
        kept = [earlier for earlier in likes[later] if earlier not in found]
        if kept:
            found[later] = min(kept)
    return found


def measure_diversity(texts: Sequence[str]) -> Diversity:
    """The figures of some texts; of one text or none all similarities are 0."""
    words = [split_words(text) for text in texts]
    distinct = [_measure_distinct(words, length) for length in (1, 2, 3)]
    step = -(-len(texts) // COMPARED_MAX) or 1
    some = texts[::step]
    nearest, total = np.zeros(len(some)), 0.0
    for one, other, similarity in _compare(some):
        apart = one != other
        total += float(similarity[apart].sum())
        np.maximum.at(nearest, one[apart], similarity[apart])
    pairs = len(some) * (len(some) - 1)
    is_any = len(some) > 1
    return Diversity(
        texts=len(texts),
        compared=len(some),
        distinct_1=distinct[0],
        distinct_2=distinct[1],
        distinct_3=distinct[2],
        similarity_mean=total / pairs if is_any else 0.0,
        nearest_mean=float(nearest.mean()) if is_any else 0.0,
        nearest_max=float(nearest.max()) if is_any else 0.0,
    )


def split_words(text: str) -> list[str]:
    """The words of a text in lower case; where a script has no spaces between words, its signs."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    words: list[str] = []
    for word in _WORD.findall(plain):
        words += list(word) if _UNSPACED.search(word) else [word]
    return words


def list_shingles(text: str) -> frozenset[tuple[str, ...]]:
    """What texts are compared by: triples of words, quadruples of signs; of a shorter text all that it has."""
    words = split_words(text)
    length = SIGNS if words and _UNSPACED.search(text) else WORDS
    length = min(length, len(words))
    return frozenset(_list_grams(words, length)) if length else frozenset()


def _compare(texts: Sequence[str]) -> Iterator[tuple[Numbers, Numbers, Numbers]]:
    """Places of pairs that share anything, both ways, and how alike they are; in blocks of rows."""
    if not texts:
        return
    from scipy.sparse import csr_array  # a tenth of a second, and most who import this compare nothing

    known: dict[tuple[str, ...], int] = {}
    columns: list[int] = []
    bounds = [0]
    for text in texts:
        columns += [known.setdefault(shingle, len(known)) for shingle in list_shingles(text)]
        bounds.append(len(columns))
    shape = (len(texts), max(1, len(known)))
    matrix: Any = csr_array((np.ones(len(columns), dtype=np.int32), columns, bounds), shape=shape)
    sizes = np.diff(bounds)
    transposed = matrix.T.tocsr()
    for start in range(0, len(texts), BLOCK_ROWS):
        shared = (matrix[start : start + BLOCK_ROWS] @ transposed).tocoo()
        one, other = shared.row + start, shared.col
        yield one, other, shared.data / (sizes[one] + sizes[other] - shared.data)


def _measure_distinct(words: Sequence[Sequence[str]], length: int) -> float:
    total, different = 0, set()
    for some in words:
        grams = _list_grams(some, length)
        total += len(grams)
        different.update(grams)
    return len(different) / total if total else 0.0


def _list_grams(words: Sequence[str], length: int) -> list[tuple[str, ...]]:
    return list(zip(*(words[start:] for start in range(length)), strict=False))
