"""A conversation of one turn: a model is asked, calls tools, is given the replies, until it answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from pydantic import BaseModel

from agent_runtime.llm import Answer, Message
from agent_runtime.llm.answers import strip_thinking

if TYPE_CHECKING:
    from agent_runtime.turns.toolbox import Toolbox
    from agent_runtime.turns.turn import Turn

TOOL_ROUNDS_MAX = 4
ANSWER_CHARS_MAX = 4_000
CALLS_KEPT_MAX = 32
"""Of one answer; a model that loops may make thousands, and each would stand in the next prompt."""
_NOTHING_SAID = "(nothing)"


class Conversation:
    """The history is always paired: whatever called a tool is followed by one reply a call, before the next question.

    Attributes:
        history: what was said in this turn beside the prompt.
        rounds: questions asked so far.
    """

    def __init__(
        self,
        turn: Turn,
        messages: Callable[[Sequence[Message]], Sequence[Message]],
        tools: Toolbox | None,
        *,
        answer_type: type[BaseModel] | None,
        rounds_max: int,
        phase: str,
    ) -> None:
        """See Turn.converse."""
        if rounds_max < 1:
            raise ValueError("a conversation has at least one round")
        self._turn = turn
        self._messages = messages
        self._tools = tools
        self._answer_type = answer_type
        self._rounds_max = rounds_max
        self._phase = phase
        self._tool_calls = 0
        self.history: list[Message] = []
        self.rounds = 0

    async def run(self) -> Answer:
        """Ask until the model answers without calling a tool, or has been asked `rounds_max` times.

        Calls of the last round are replied to as well: what was decided stands. Where an `answer_type` is wanted, one
        more question, without tools, then asks for it.

        Raises ModelError, BudgetExceededError; ActionRefusedError and EcumeneError as Toolbox.reply does.
        """
        for _ in range(self._rounds_max):
            answer = await self._ask(with_tools=True)
            if not answer.tool_calls:
                return answer
        return answer if self._answer_type is None else await self._ask(with_tools=False)

    async def correct(self, problem: str) -> Answer:
        """Tell the model that what was decided cannot be, and why, and let it go on: as `run`, with rounds of its own.

        All that it had decided before is forgotten.
        """
        told = f"What you decided cannot be done: {problem}. Nothing has changed. Decide again."
        if self.history and self.history[-1].role == "user":
            self.history.pop()
        self.history.append(Message("user", told))
        return await self.run()

    async def _ask(self, *, with_tools: bool) -> Answer:
        tools = self._tools.tools if self._tools is not None and with_tools else ()
        self.rounds += 1
        answer = await self._turn.llm.ask(
            lambda: self._messages(tuple(self.history)), answer_type=self._answer_type, tools=tools, phase=self._phase
        )
        said = strip_thinking(answer.text)[-ANSWER_CHARS_MAX:]
        if not answer.tool_calls or self._tools is None:
            self.history.append(Message("assistant", said or _NOTHING_SAID))
            return answer
        # Endpoints name calls as they like, some of them twice; and what is replayed must be the same again.
        asked = answer.tool_calls[:CALLS_KEPT_MAX]
        calls = tuple(replace(call, id=self._name_call()) for call in asked)
        replies = await self._tools.reply(calls)
        self.history += [Message("assistant", said, tool_calls=calls), *replies]
        return answer

    def _name_call(self) -> str:
        self._tool_calls += 1
        return f"call_{self._tool_calls}"
