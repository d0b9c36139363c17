"""A ready agent that acts by its model: persona, memory, what it sees, tools of its environments, a typed answer.

Everything about it stands in the parameters of its group (`prompted_settings`); no code is needed. In a turn it looks
at what it is to observe, asks its model, which may call tools, and remembers what happened and what it did.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from agent_runtime.agents.agent import Agent, GroupInfo
from agent_runtime.agents.condensing import condense
from agent_runtime.agents.memory import Memory, cut_line, cut_tokens
from agent_runtime.agents.observing import describe_waking, observe, write_value
from agent_runtime.agents.prompted_player import describe_persona
from agent_runtime.agents.prompted_settings import Prompted, read_prompted
from agent_runtime.agents.tool_sources import AGENT
from agent_runtime.llm import Answer, Message
from agent_runtime.llm.answers import answer_schema, strip_thinking
from agent_runtime.llm.prompts import build_messages
from agent_runtime.llm.tokens import estimate_text_tokens

if TYPE_CHECKING:
    from ecumene.client import Event

    from agent_runtime.model.errors import ActionRefusedError
    from agent_runtime.turns.toolbox import Toolbox
    from agent_runtime.turns.turn import Turn

PHASE = "act"
ANSWER = "answer"
SITUATION_SHARE = 0.5
"""Part of the prompt that what is seen may take; the rest is for rules, persona, memory and what is said."""
_REMEMBERED = "What you remember, the oldest first:"
_SAID_CHARS_MAX = 400


class PromptedAgent(Agent):
    """See the module; parameters: see PromptedSettings."""

    def __init__(self, agent_id: str, profile: Mapping[str, Any], group: GroupInfo) -> None:
        super().__init__(agent_id, profile, group)
        self.memory = Memory(tokens_max=self._shared.settings.memory_tokens_max)

    @property
    def _shared(self) -> Prompted:
        """Of all agents of the group; nothing of it is the agent's own."""
        return read_prompted(self.group)

    @classmethod
    def check_group(cls, group: GroupInfo) -> None:
        read_prompted(group)

    async def on_event(self, event: Event, turn: Turn) -> None:
        settings = self._shared.settings
        if settings.ignore_own and all(heard.producer.partition("/")[0] == self.id for heard in turn.events):
            return
        if settings.turns_max is not None and turn.number > settings.turns_max:
            return
        if settings.condense:
            await condense(self.memory, turn)
        tools = await turn.tools(*settings.tools) if settings.tools else None
        prompt = await self._make_prompt(turn, tools)
        conversation = turn.converse(
            prompt, tools, answer_type=self._shared.answer_type, rounds_max=settings.tool_rounds_max, phase=PHASE
        )
        answer = await conversation.run()
        self._take(turn, answer)
        self.memory.remember(f"{self._name_time(turn)}: {cut_line(describe_waking(turn))} {_tell(turn, answer)}")

    async def on_refused(self, event: Event, turn: Turn, refusal: ActionRefusedError) -> bool:
        if turn.conversation is None:
            return False
        answer = await turn.conversation.correct(refusal.problem)
        self._take(turn, answer)
        told = f"that was refused ({cut_line(refusal.problem)}). {_tell(turn, answer)}"
        self.memory.remember(f"{self._name_time(turn)}: {told}")
        return True

    def fall_back(self, event: Event, turn: Turn, failure: Exception) -> bool:
        fallback = self._shared.settings.fallback
        self.memory.remember(f"{self._name_time(turn)}: {cut_line(describe_waking(turn))} You did not decide.")
        if fallback is None:
            return False
        if fallback.operation:
            arguments = {name: self.id if value == AGENT else value for name, value in fallback.arguments.items()}
            turn.invoke(fallback.path.replace(AGENT, self.id), fallback.operation, **arguments)
        elif fallback.answer is not None:
            assert self._shared.answer_type is not None
            self._write_answer(turn, self._shared.answer_type.model_validate(dict(fallback.answer)))
        return True

    def plan(self, turn: Turn) -> None:
        settings = self._shared.settings
        if settings.turns_max is not None and turn.number > settings.turns_max:
            return
        if turn.sim_time_ns is None or any(not wake.name for wake in turn.pending_wakes):
            return
        if (next_ns := settings.find_next_wake(turn.sim_time_ns)) is not None:
            turn.wake_at(next_ns)

    def _describe_now(self, turn: Turn) -> str:
        told = describe_waking(turn)
        return told if turn.sim_time_ns is None else f"It is {self._tell_time(turn.sim_time_ns)}.\n{told}"

    def _name_time(self, turn: Turn) -> str:
        if turn.notice.round is not None:
            return f"Round {turn.notice.round}"
        if turn.sim_time_ns is None:
            return f"Turn {turn.number}"
        return f"At {self._tell_time(turn.sim_time_ns)}"

    def _tell_time(self, at_ns: int) -> str:
        calendar = self._shared.settings.calendar
        return calendar.describe(at_ns) if calendar is not None else f"{at_ns / 1e9:g} s"

    def _take(self, turn: Turn, answer: Answer) -> None:
        """What an answer decides beside the tools that were called."""
        if answer.value is not None:
            self._write_answer(turn, answer.value)

    def _write_answer(self, turn: Turn, value: BaseModel) -> None:
        document = value.model_dump(mode="json", by_alias=True)
        told = next(iter(document.values())) if len(document) == 1 else document
        place = self._shared.settings.answer_to
        if place is not None:
            turn.act(ANSWER, place.path.replace(AGENT, self.id), place.key.replace(AGENT, self.id), told)
        elif turn.notice.ask is not None:
            turn.report(told)

    async def _make_prompt(self, turn: Turn, tools: Toolbox | None) -> Prompt:
        shared, settings = self._shared, self._shared.settings
        tokens_max = settings.prompt_tokens_max - _count_beside(tools, shared.answer_type)
        own = {"round": str(turn.notice.round or ""), "time": self._name_time(turn), "id": self.id}
        situation = shared.template.fill(
            "situation",
            {
                **settings.values,
                **own,
                "events": self._describe_now(turn),
                "observation": await observe(turn, settings.observe) or "(nothing in particular)",
            },
        )
        memory = self.memory.recall()
        if persona := describe_persona(self.profile):
            persona = shared.template.fill("persona", {**settings.values, **own, "persona": persona})
        return Prompt(
            rules=shared.rules,
            situation=cut_tokens(situation, max(1, int(tokens_max * SITUATION_SHARE))),
            persona="\n\n".join(filter(None, (persona, _REMEMBERED if memory else ""))),
            memory=memory,
            question=shared.template.fill("question", {**settings.values, **own}),
            tokens_max=tokens_max,
        )


class Prompt:
    """Makes the messages of one turn from its history, within their tokens."""

    def __init__(
        self, *, rules: str, situation: str, persona: str, memory: Sequence[str], question: str, tokens_max: int
    ) -> None:
        self._rules = rules
        self._situation = situation
        self._persona = persona
        self._memory = memory
        self._question = question
        self._tokens_max = tokens_max

    def __call__(self, history: Sequence[Message]) -> Sequence[Message]:
        """Raises PromptTooLongError: not even rules and situation fit."""
        return build_messages(
            rules=self._rules,
            round=self._situation,
            persona=self._persona,
            memory=self._memory,
            history=history,
            question=self._question,
            tokens_max=self._tokens_max,
        )


def _count_beside(tools: Toolbox | None, answer_type: type[BaseModel] | None) -> int:
    """Tokens of a question that are in no message: of tools and of the answer's shape."""
    tokens = 0
    for tool in tools.tools if tools is not None else ():
        tokens += 4 + estimate_text_tokens(f"{tool.name}{tool.description}{tool.parameters}")
    if answer_type is not None:
        tokens += 24 + estimate_text_tokens(str(answer_schema(answer_type)))
    return tokens


def _tell(turn: Turn, answer: Answer) -> str:
    """What an agent did, for its memory."""
    done = [f"{action.name} {write_value(action.value)}" for action in turn.actions]
    said = " ".join(strip_thinking(answer.text).split())[:_SAID_CHARS_MAX] if answer.value is None else ""
    told = f"You did: {'; '.join(done)}." if done else "You did nothing."
    return f"{told} You said: {said}" if said else told
