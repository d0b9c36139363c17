"""Which texts are too much alike, compared with a plain count of every pair; and how different texts are."""

from __future__ import annotations

import random
from itertools import combinations

import pytest
from ecumene.sim.backgrounds import likeness
from ecumene.sim.backgrounds.likeness import find_near_duplicates, list_shingles, measure_diversity


def jaccard(one: str, other: str) -> float:
    first, second = list_shingles(one), list_shingles(other)
    return len(first & second) / len(first | second) if first | second else 0.0


def make_texts(chance: random.Random, count: int) -> list[str]:
    words = ["ann", "farms", "sings", "two", "miles", "from", "here", "and", "never", "bets"]
    return [" ".join(chance.choices(words, k=chance.randrange(0, 9))) for _ in range(count)]


def test_all_pairs_are_found_whatever_the_blocks(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(likeness, "BLOCK_ROWS", 7)
    texts = make_texts(random.Random(seed), 60)
    for alike in (0.2, 0.5, 1.0):
        expected: dict[int, int] = {}
        for later in range(len(texts)):
            kept = (place for place in range(later) if place not in expected)
            first = next((place for place in kept if jaccard(texts[place], texts[later]) >= alike), None)
            if first is not None:
                expected[later] = first
        assert find_near_duplicates(texts, alike) == expected


def test_of_some_equal_texts_the_first_stays() -> None:
    assert find_near_duplicates(["a b c d", "x y z", "a b c d", "A, b c; d!"], 0.9) == {2: 0, 3: 0}
    assert find_near_duplicates(["", "", "a"], 0.5) == {}, "nothing is like nothing"
    assert find_near_duplicates([], 0.5) == {}


def test_scripts_without_spaces_are_compared_by_their_signs() -> None:
    texts = ["彼女は東京の看護師です。", "彼女は東京の看護師でした。", "彼は農家で、毎朝四時に起きる。"]
    assert find_near_duplicates(texts, 0.6) == {1: 0}


def test_diversity_is_that_of_a_plain_count(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(likeness, "BLOCK_ROWS", 7)
    texts = make_texts(random.Random(seed), 40)
    found = measure_diversity(texts)
    pairs = [jaccard(one, other) for one, other in combinations(texts, 2)]
    nearest = [max(jaccard(texts[one], texts[other]) for other in range(40) if other != one) for one in range(40)]
    assert found.similarity_mean == pytest.approx(sum(pairs) / len(pairs))
    assert found.nearest_mean == pytest.approx(sum(nearest) / len(nearest))
    assert found.nearest_max == pytest.approx(max(nearest))
    words = [word for text in texts for word in text.split()]
    assert found.distinct_1 == pytest.approx(len(set(words)) / len(words))


def test_diversity_of_none_one_and_the_same() -> None:
    for texts in ([], [""], ["a b"]):
        assert measure_diversity(texts).nearest_max == 0
    same = measure_diversity(["a b c"] * 4)
    assert (same.similarity_mean, same.nearest_mean, same.distinct_2) == (1.0, 1.0, 0.25)


def test_of_very_many_texts_some_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(likeness, "COMPARED_MAX", 10)
    found = measure_diversity([f"text number {place}" for place in range(25)])
    assert (found.texts, found.compared) == (25, 9)
