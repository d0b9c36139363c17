"""A player that is asked as a model: what to ask, and what to make of the answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from string import Template

from agent_runtime.agents.ready.answers import NumberAnswer, ReasonedAnswer
from agent_runtime.agents.ready.game import GuessGame
from agent_runtime.agents.ready.products import find_wrong_products
from agent_runtime.agents.ready.templates import NOTE, PromptTemplate
from agent_runtime.llm.answers.contradictions import contradicts
from agent_runtime.llm.requests import Message

WRONG_PRODUCT = "wrong_product"
CONTRADICTION = "contradiction"
_ANSWER_TYPES: dict[str, type[NumberAnswer] | type[ReasonedAnswer]] = {
    "number": NumberAnswer,
    "reasoning_and_number": ReasonedAnswer,
}


@dataclass(frozen=True)
class GroupsTold:
    """What a player is told of the groups where groups play.

    Attributes:
        own: the name of its group.
        numbers: group -> its number in the last round; None where it had none, and in the first round.
    """

    own: str
    numbers: Mapping[str, float | None] = field(default_factory=dict)

    def describe(self) -> str:
        """The numbers in words."""
        told = {name: "none" if number is None else format_number(number) for name, number in self.numbers.items()}
        return ", ".join(f"{name}: {number}" for name, number in told.items())


class PromptedPlayer:
    """One template in one game, for any number of agents; holds no conversation."""

    def __init__(self, template: PromptTemplate, game: GuessGame) -> None:
        self.template = template
        self.game = game
        self.answer_type = _ANSWER_TYPES[template.answer]

    def build_messages(
        self,
        persona: str,
        round_number: int,
        last_winner: float | None,
        *,
        groups: GroupsTold | None = None,
        has_note: bool = False,
    ) -> tuple[Message, ...]:
        """What to ask one agent's model; see the function of this name."""
        return build_messages(
            self.template,
            self.game,
            persona=persona,
            round_number=round_number,
            last_winner=last_winner,
            groups=groups,
            has_note=has_note,
        )

    def find_flags(self, answer: NumberAnswer | ReasonedAnswer, said: str = "") -> tuple[str, ...]:
        """What to notice about an answer, for its record: `wrong_product`, `contradiction`, both or nothing.

        `said` is the free answer from which the number was extracted, if it was. A flag says that the arithmetic
        slipped, or that the reasoning decides on another number; the number stands as reported.
        """
        reasoning = answer.reasoning if isinstance(answer, ReasonedAnswer) else said
        flags = (WRONG_PRODUCT,) if find_wrong_products(reasoning) else ()
        return (*flags, CONTRADICTION) if contradicts(reasoning, answer.number) else flags


def build_messages(
    template: PromptTemplate,
    game: GuessGame,
    *,
    persona: str,
    round_number: int,
    last_winner: float | None,
    groups: GroupsTold | None = None,
    has_note: bool = False,
) -> tuple[Message, ...]:
    """The messages for one agent and round: shared text first, then the round, the persona last.

    An empty persona leaves its part out. `last_winner` of None gives the template's first round.
    Whatever stands in a persona is text: no `$` in it is substituted. Raises ValueError: the template tells of groups,
    and none are given.
    """
    if groups is None and template.tells_of_groups:
        raise ValueError(f"prompt {template.name} tells of groups, which need a game of them (players: groups)")
    values = {
        "round": str(round_number),
        "persona": persona,
        "target_rule": game.describe_target(),
        "target_formula": game.describe_formula(),
    }
    if groups is not None:
        values |= {"group": groups.own, "group_count": str(len(groups.numbers)), "group_numbers": groups.describe()}
    if last_winner is not None:
        values["last_winner"] = format_number(last_winner)
    round_part = "first_round" if last_winner is None else "later_round"
    messages = []
    for message in template.messages:
        names = (round_part if name == "round" else name for name in message.parts)
        texts = (
            _compile(template.parts[name]).substitute(values)
            for name in names
            if (persona or name != "persona") and (has_note or name != NOTE)
        )
        if content := "\n\n".join(texts):
            messages.append(Message(message.role, content))
    return tuple(messages)


def format_number(number: float) -> str:
    """A number for a prompt: two decimals, or three digits where it is small."""
    text = f"{number:.2f}" if abs(number) >= 0.1 else f"{number:.3g}"
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text


@lru_cache(maxsize=64)
def _compile(text: str) -> Template:
    return Template(text)
