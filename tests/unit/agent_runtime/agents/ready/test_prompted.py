"""What a prompted player asks: everything it needs, shared text first, nothing substituted twice."""

from __future__ import annotations

import time

import pytest

from agent_runtime.agents.memory import Memory
from agent_runtime.agents.ready import (
    GroupsTold,
    GuessGame,
    NumberAnswer,
    PromptedPlayer,
    ReasonedAnswer,
    build_messages,
    load_template,
)
from agent_runtime.agents.ready.products import find_wrong_products
from agent_runtime.agents.ready.prompted import format_number
from agent_runtime.agents.ready.templates import list_templates
from agent_runtime.llm.answers.contradictions import contradicts
from agent_runtime.llm.answers.reading import read_object, strip_thinking

GAME = GuessGame(2 / 3)
GROUPS = GroupsTold("Mistral", {"Llama": 39.36, "Mistral": 21.14, "Qwen": None})


def ask(
    name: str,
    persona: str,
    round_number: int,
    last_winner: float | None,
    game: GuessGame = GAME,
    *,
    has_note: bool = False,
) -> str:
    """The whole text that a model reads."""
    template = load_template(name)
    messages = build_messages(
        template,
        game,
        persona=persona,
        round_number=round_number,
        last_winner=last_winner,
        groups=GROUPS if template.tells_of_groups else None,
        has_note=has_note,
    )
    assert [message.role for message in messages] == ["system", "user"]
    return "\n".join(message.content for message in messages)


@pytest.mark.parametrize("name", list_templates())
def test_a_prompt_tells_rules_round_last_winner_and_persona(name: str) -> None:
    text = ask(name, "Ada, 36, a mathematician.", 4, 21.456)
    rule = "y = 2/3 · x" if name == "guess-p7" else "2/3 of the average"
    for told in ("from 0 to 100", rule, "Round 4", "21.46", "Ada, 36, a mathematician.", '"number"'):
        assert told in text
    assert "$" not in text
    rule = "y = 5 + 1/2 · x" if name == "guess-p7" else "5 plus 1/2 of the average"
    assert rule in ask(name, "", 1, None, GuessGame(0.5, 5))


@pytest.mark.parametrize("name", list_templates())
def test_the_first_round_tells_no_winner_and_an_empty_persona_leaves_no_trace(name: str) -> None:
    text = ask(name, "", 1, None)
    assert "winning number was" not in text
    assert "This is you" not in text
    assert "The background of" not in text


@pytest.mark.parametrize("name", list_templates())
def test_agents_share_everything_but_the_persona_and_rounds_share_the_rules(name: str) -> None:
    one, other = ask(name, "Ada.", 2, 30.0), ask(name, "Boole.", 2, 30.0)
    assert one.removesuffix("Ada.") == other.removesuffix("Boole.")
    later = ask(name, "Ada.", 3, 20.0)
    rules, _, _ = ask(name, "", 1, None).partition("\nRound 1")
    assert one.startswith(rules)
    assert later.startswith(rules)


def test_only_the_first_prompt_asks_for_no_thoughts() -> None:
    assert [name for name in list_templates() if "step by step" not in ask(name, "", 1, None)] == ["guess-p1"]
    assert PromptedPlayer(load_template("guess-p1"), GAME).answer_type is NumberAnswer
    assert PromptedPlayer(load_template("guess-p2"), GAME).answer_type is ReasonedAnswer


def test_the_third_prompt_says_that_all_are_rational_and_the_fourth_that_they_adapt_too() -> None:
    third, fourth = ask("guess-p3", "", 1, None), ask("guess-p4", "", 1, None)
    assert "All players are rational" not in ask("guess-p2", "", 1, None)
    assert "All players are rational" in third
    assert "adapts" not in third
    assert "All players are rational" in fourth
    assert "adapts" in fourth


@pytest.mark.parametrize("name", [name for name in list_templates() if load_template(name).has_note])
def test_a_note_is_told_where_it_is_asked_for(name: str) -> None:
    assert "a variant of a well-known game" not in ask(name, "", 1, None)
    assert "a variant of a well-known game" in ask(name, "", 1, None, has_note=True)


def test_where_groups_play_their_numbers_are_told_from_the_second_round_on() -> None:
    first, later = ask("guess-p6", "", 1, None), ask("guess-p6", "", 2, 22.5)
    assert "form 3 groups" in first
    assert "You are a member of the group Mistral." in first
    assert "39.36" not in first
    assert "Llama: 39.36, Mistral: 21.14, Qwen: none" in later
    assert "the winning number was 22.5" in later


def test_a_prompt_that_tells_of_groups_needs_them() -> None:
    with pytest.raises(ValueError, match="prompt guess-p6 tells of groups, which need a game of them"):
        build_messages(load_template("guess-p6"), GAME, persona="", round_number=1, last_winner=None)


@pytest.mark.parametrize(
    "persona", ["$round $$ ${persona} $", "{round} %s {{x}}", "名前: 数\n二行目", '"}], "role": "system"']
)
def test_what_stands_in_a_persona_is_text(persona: str) -> None:
    player = PromptedPlayer(load_template("guess-p1"), GAME)
    assert player.build_messages(persona, 1, None)[-1].content.endswith(persona)


@pytest.mark.parametrize(
    ("number", "text"),
    [(0.0, "0"), (100.0, "100"), (33.3333, "33.33"), (0.5, "0.5"), (0.012345, "0.0123"), (1e-9, "1e-09"), (20.0, "20")],
)
def test_numbers_are_told_short_but_never_as_zero_when_they_are_not(number: float, text: str) -> None:
    assert format_number(number) == text


def test_a_slip_in_the_reasoning_is_flagged_and_the_number_stands() -> None:
    player = PromptedPlayer(load_template("guess-p2"), GAME)
    assert player.find_flags(ReasonedAnswer(reasoning="So 2/3 of 45 is 33.", number=33)) == ("wrong_product",)
    assert player.find_flags(ReasonedAnswer(reasoning="So 2/3 of 45 is 30.", number=30)) == ()
    assert player.find_flags(NumberAnswer(number=33)) == ()


def test_another_number_than_was_decided_on_is_flagged_where_both_are_stated() -> None:
    player = PromptedPlayer(load_template("guess-p2"), GAME)
    assert player.find_flags(ReasonedAnswer(reasoning="So I choose 22.", number=33)) == ("contradiction",)
    both = ReasonedAnswer(reasoning="2/3 of 45 is 33, so I choose 33.", number=22)
    assert player.find_flags(both) == ("wrong_product", "contradiction")
    assert player.find_flags(NumberAnswer(number=33), "I will go with 20.") == ("contradiction",)
    assert player.find_flags(NumberAnswer(number=33), "Others say 20.") == ()


HUGE = 4 * 1024 * 1024
SHORT = 20_000
NASTY = (
    ("I choose", " ", "x"),
    ("My final number is", "\n", "x"),
    ("2/3 of", " ", "x"),
    ("1 times", " ", "x"),
    ("", "1", ""),
    ("", "1/", ""),
    ("", "2/3 of ", ""),
    ("", "1 * ", ""),
    ("", "half of the average of ", ""),
    ("", "I choose ", ""),
    ("", "I will therefore ", ""),
    ("final number:", ":", ""),
    ("", "<think>", ""),
    ("", "{", ""),
    ('{"a":' * 64 + "[", "1,", ""),
    ('{"a": "', "x{", ""),
)


@pytest.mark.parametrize("size", [SHORT, HUGE])
@pytest.mark.parametrize(("begin", "again", "end"), NASTY)
def test_nothing_that_a_model_writes_keeps_its_reader_for_long(begin: str, again: str, end: str, size: int) -> None:
    """All that an agent does with an answer is done on the loop of thousands: of no text may it take quadratic time."""
    text = begin + again * (size // len(again)) + end
    start_s = time.thread_time()
    contradicts(text, 5.0)
    find_wrong_products(text)
    Memory().remember(strip_thinking(text))
    with pytest.raises(ValueError, match=r"JSON object|number"):
        read_object(text, NumberAnswer)
    assert time.thread_time() - start_s < 2.0
