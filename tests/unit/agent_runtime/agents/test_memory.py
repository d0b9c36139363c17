"""A memory stays within its tokens, keeps its newest items word for word, and survives as JSON."""

from __future__ import annotations

import json
import random

import pytest

from agent_runtime.agents.memory import FACTS_BYTES_MAX, Memory, count_tokens, cut_tokens, summarise_by_rule


def make_text(chance: random.Random) -> str:
    words = chance.choices(("bread", "Brot", "面包", "хлеб", "🥖", "a\nb", "\ud83d", "12.50"), k=chance.randint(0, 60))
    return " ".join(words)


def test_the_newest_stay_word_for_word_and_the_oldest_become_a_summary() -> None:
    memory = Memory(tokens_max=64, items_max=3)
    for text in ("one\nfirst", "two", "three", "four"):
        memory.remember(text)
    assert memory.window == ("two", "three", "four")
    assert memory.summary == "one first"
    assert memory.recall() == ("one first", "two", "three", "four")


def test_whatever_is_remembered_it_stays_within_its_bounds(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(30):
        memory = Memory(tokens_max=chance.randint(16, 400), items_max=chance.randint(1, 20))
        for _ in range(200):
            memory.remember(make_text(chance))
            if chance.random() < 0.05:
                memory.replace_oldest(chance.randint(0, 5), make_text(chance))
            assert memory.tokens <= memory.tokens_max
            assert memory.tokens == sum(map(count_tokens, memory.window)) + count_tokens(memory.summary)
            assert count_tokens(memory.summary) <= memory.summary_tokens_max
            assert len(memory) <= 20


def test_two_thousand_rounds_leave_it_as_large_as_its_bound() -> None:
    memory = Memory(tokens_max=800)
    sizes = []
    for number in range(2000):
        memory.remember(f"round {number}: " + "word " * 50)
        sizes.append(memory.tokens)
    assert max(sizes) <= 800
    assert max(sizes[200:]) - min(sizes[200:]) <= 100, "flat once it is full"
    assert memory.window[-1].startswith("round 1999: ")
    assert memory.summary.startswith("…\nround 19")
    assert len(json.dumps(memory.dump())) < 8_000


def test_a_text_longer_than_the_window_is_cut_at_its_end() -> None:
    memory = Memory(tokens_max=64)
    memory.remember("x" * 10_000)
    (kept,) = memory.window
    assert 100 < len(kept) <= 144 and set(kept) == {"x"}
    memory.remember("")
    assert len(memory) == 1


def test_a_memory_is_the_same_after_its_way_through_json(seed: int) -> None:
    chance = random.Random(seed)
    memory = Memory(tokens_max=200, items_max=9)
    for number in range(100):
        memory.remember(make_text(chance))
        memory.keep_fact("round", number)
        again = Memory(tokens_max=200, items_max=9)
        again.load(json.loads(json.dumps(memory.dump())))
        assert (again.hash(), again.recall(), again.find_fact("round")) == (memory.hash(), memory.recall(), number)


def test_the_hash_tells_every_difference_and_a_copy_lives_alone() -> None:
    memory = Memory()
    hashes = {memory.hash()}
    memory.remember("a")
    hashes.add(memory.hash())
    memory.keep_fact("a", 1)
    hashes.add(memory.hash())
    memory.replace_oldest(1, "b")
    hashes.add(memory.hash())
    assert len(hashes) == 4
    before = memory.hash()
    twin = memory.copy()
    assert twin.hash() == before
    twin.remember("what the twin was asked")
    twin.keep_fact("a", None)
    assert memory.hash() == before != twin.hash()


@pytest.mark.parametrize("dumped", [None, [], {}, "no memory", {"window": None, "summary": None, "facts": None}])
def test_what_is_no_dump_is_an_empty_memory(dumped: object) -> None:
    memory = Memory()
    memory.remember("a")
    memory.load(dumped)  # type: ignore[arg-type]
    assert (memory.recall(), memory.hash()) == ((), Memory().hash())


def test_facts_are_bounded_and_refused_without_a_trace() -> None:
    memory = Memory()
    memory.keep_fact("seen", 7)
    for value in ("x" * FACTS_BYTES_MAX, {1, 2}, float("nan")):
        with pytest.raises(ValueError):
            memory.keep_fact("more", value)  # type: ignore[arg-type]
    assert (memory.find_fact("seen"), memory.find_fact("more", 0)) == (7, 0)


def test_a_summary_by_rule_is_the_newest_beginnings() -> None:
    summary = summarise_by_rule("", ["a" * 500, "b"], 1000)
    assert summary == "a" * 119 + "…\nb"
    short = summarise_by_rule(summary, ["c"], 8)
    assert short == "…\nb\nc"
    assert summarise_by_rule(short, ["d"], 6) == "…\nd"


def test_cutting_takes_as_much_as_fits() -> None:
    for text in ("abc" * 50, "äöü" * 50, "面包" * 50, "a面" * 50):
        cut = cut_tokens(text, 20)
        assert text.startswith(cut) and count_tokens(cut) <= 20 < count_tokens(text[: len(cut) + 1])


def test_a_memory_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Memory(items_max=0)
