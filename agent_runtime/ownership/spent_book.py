"""What a run has spent, as its world keeps it: sums over all workers, by model and phase.

    spent/<model> <phase> <what>   counter; what: questions, prompt_tokens, completion_tokens, microdollars
    spent/exhausted                {"whose", "unit", "maximum"}: the first budget that did not pay for a question

Names are percent-encoded; a phase without a name is `-`. What a worker that is killed had spent since it last wrote,
a second at most, is missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from urllib.parse import quote, unquote

from ecumene.client import EnvironmentNotFoundError, Json, World

from agent_runtime.llm.admission import Load
from agent_runtime.llm.spending import Spent
from agent_runtime.model.errors import BudgetExceededError

EXHAUSTED = "exhausted"
SUMS = ("questions", "prompt_tokens", "completion_tokens", "microdollars")
NO_PHASE = "-"
_NAME_CHARS_MAX = 50
_WRITES_MAX = 100

Sums = Mapping[tuple[str, str], Spent]


class SpentBook:
    """The sums of one run, for one worker of it."""

    def __init__(self, world: World, path: str) -> None:
        """`path`: where the world keeps them; it must be there before anything is written."""
        self._world = world
        self._path = path
        self._written: Counter[str] = Counter()

    async def read(self) -> dict[str, Load]:
        """What each model has cost so far; empty if the run has no book yet. Raises EcumeneError."""
        tokens: Counter[str] = Counter()
        microdollars: Counter[str] = Counter()
        try:
            entries = [entry async for entry in self._world.environment(self._path).entries()]
        except EnvironmentNotFoundError:
            return {}
        for entry in entries:
            model, _, rest = entry.key.partition(" ")
            what = rest.rpartition(" ")[2]
            if what.endswith("_tokens"):
                tokens[unquote(model)] += int(entry.value)  # type: ignore[arg-type]
            elif what == "microdollars":
                microdollars[unquote(model)] += int(entry.value)  # type: ignore[arg-type]
        return {model: Load(tokens[model], microdollars[model]) for model in tokens | microdollars}

    async def add(self, sums: Sums) -> None:
        """Write what was spent since the last time. Raises EcumeneError; then it is written with the next."""
        totals = {
            name_sum(model, phase, what): int(getattr(spent, what))
            for (model, phase), spent in sums.items()
            for what in SUMS
        }
        grown = [(key, total) for key, total in totals.items() if total != self._written[key]]
        for start in range(0, len(grown), _WRITES_MAX):
            some = grown[start : start + _WRITES_MAX]
            transaction = self._world.transaction()
            for key, total in some:
                transaction.increment(self._path, key, total - self._written[key])
            await transaction.commit()
            self._written.update({key: total - self._written[key] for key, total in some})

    async def note_exhausted(self, refusal: BudgetExceededError) -> None:
        """Tell whoever conducts the run that a budget is spent. Raises EcumeneError."""
        told: dict[str, Json] = {"whose": refusal.whose, "unit": refusal.unit, "maximum": refusal.maximum}
        await self._world.environment(self._path).set(EXHAUSTED, told)


def name_sum(model: str, phase: str, what: str) -> str:
    """The key of a sum."""
    return f"{_encode(model)} {_encode(phase) or NO_PHASE} {what}"


def _encode(name: str) -> str:
    return quote(name, safe="@+:,")[:_NAME_CHARS_MAX]
