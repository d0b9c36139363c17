"""Lets an agent's model condense what it remembers, before the rule has to.

The question is one of the turn: it is asked, paid for and recorded as such, in the phase `memory`. Where the model
gives no usable text, or the budget no more questions, the memory stays as it is, and the rule does the work in time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_runtime.agents.memory import Memory, count_tokens
from agent_runtime.llm import Message, ModelError
from agent_runtime.llm.answers import strip_thinking
from agent_runtime.model.errors import BudgetExceededError

if TYPE_CHECKING:
    from agent_runtime.turns.turn import Turn

CONDENSE_FROM = 0.8
"""Part of the window that must be full."""
CONDENSE_SHARE = 0.5
"""Part of the window's tokens that is condensed at a time: the oldest."""
PHASE = "memory"
RULES = (
    "You keep the memory of one person. Condense what is given into one short text in the third person: who did what, "
    "what was agreed, what was learned, with names and numbers. Leave out what no longer matters. Add nothing."
)


def find_oldest(memory: Memory) -> list[str]:
    """The items that are to be condensed now; none while the window has room."""
    room = memory.tokens_max - memory.summary_tokens_max
    window = memory.window
    tokens = sum(map(count_tokens, window))
    if tokens < CONDENSE_FROM * room or len(window) < 2:
        return []
    oldest: list[str] = []
    taken = 0
    for item in window[:-1]:
        if taken >= CONDENSE_SHARE * tokens:
            break
        taken += count_tokens(item)
        oldest.append(item)
    return oldest


async def condense(memory: Memory, turn: Turn) -> bool:
    """Ask the model of a turn for a summary when the window is nearly full; whether there is a new one.

    The prompt takes little more tokens than the memory itself. Raises nothing of the model's.
    """
    oldest = find_oldest(memory)
    if not oldest:
        return False
    told = "\n".join(filter(None, (memory.summary, *oldest)))
    bound = memory.summary_tokens_max
    question = f"What this person remembers so far:\n\n{told}\n\nCondense it into at most {bound * 2 // 3} words."
    try:
        answer = await turn.llm.ask([Message("system", RULES), Message("user", question)], phase=PHASE)
    except (ModelError, BudgetExceededError):
        turn.flag("memory_not_condensed")
        return False
    summary = strip_thinking(answer.text)
    if not summary:
        turn.flag("memory_not_condensed")
        return False
    memory.replace_oldest(len(oldest), summary)
    return True
