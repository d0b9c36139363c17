"""An agent that writes who a person is: one person each, in one turn.

It is woken by an entry that says whom, and writes beside it what came of it, under its own id:

    /place/people   ann.1   {"attributes": {"age": 34, …}, "other": ""}
    /place/written  ann.1   {"status": "ok", "name": …, "text": …, "missing": [], "answers": 1, "prompt_tokens": …, …}

Each attribute has to come back in the text; what lacks some is asked for again. What still lacks them is written with
their names in `missing`. Where the model gives nothing, `status` is the turn's, with its `reason`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agent_runtime.agents.agent import Agent, GroupInfo
from agent_runtime.agents.ready.backgrounds import BackgroundAnswer, BackgroundPrompt, load_background_prompt
from agent_runtime.agents.ready.echoes import Value, find_missing
from agent_runtime.llm import ModelError
from agent_runtime.model.errors import BudgetExceededError

if TYPE_CHECKING:
    from ecumene.client import Event, Json

    from agent_runtime.turns.turn import Turn

WRITE = "write"
PHASES = ("background", "repair")
NAME_CHARS_MAX = 200
TEXT_CHARS_MAX = 20_000


class WriterSettings(BaseModel):
    """A group's parameters.

    Attributes:
        path: where what was written is put, by the id of the agent.
        prompt: an installed prompt's name or a prompt, see `ready.backgrounds`.
        language: in which to write, as the prompt calls it.
        words: by which other words a text may tell a value.
        repairs: how often a text that lacks attributes is asked for again.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: Annotated[str, Field(pattern=r"^/")]
    prompt: str | Mapping[str, Any] = "background-1"
    language: Annotated[str, Field(min_length=1, max_length=80)] = "English"
    words: Mapping[str, tuple[str, ...]] = {}
    repairs: Annotated[int, Field(ge=0, le=10)] = 1


class WriterJob(BaseModel):
    """Whom to write: the attributes of a person, and the text of another to whom it must not be alike."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    attributes: Annotated[Mapping[str, Value], Field(min_length=1)]
    other: str = ""


class BackgroundWriter(Agent):
    """See the module; parameters: see WriterSettings."""

    @classmethod
    def check_group(cls, group: GroupInfo) -> None:
        _read_settings(group)

    async def on_event(self, event: Event, turn: Turn) -> None:
        settings, prompt = _read_settings(self.group)
        job = WriterJob.model_validate(event.value)
        messages = prompt.ask(job.attributes, settings.language, job.other)
        best: tuple[BackgroundAnswer, tuple[str, ...]] | None = None
        answers = 0
        for attempt in range(settings.repairs + 1):
            try:
                phase = PHASES[min(attempt, 1)]
                given = await turn.llm.ask(messages, answer_type=BackgroundAnswer, phase=phase)
            except ModelError:
                if best is None:
                    raise
                break  # what there is, is more than nothing
            answers += 1
            answer = given.value
            assert isinstance(answer, BackgroundAnswer)
            missing = find_missing(job.attributes, answer.text, settings.words)
            if best is None or len(missing) < len(best[1]):
                best = answer, missing
            if not missing:
                break
            messages = (*messages, *prompt.ask_again(answer, job.attributes, missing, settings.language))
        assert best is not None
        self._write(turn, settings, _describe(*best) | {"status": "ok", "answers": answers})

    def fall_back(self, event: Event, turn: Turn, failure: Exception) -> bool:
        settings, _ = _read_settings(self.group)
        status = "budget" if isinstance(failure, BudgetExceededError) else getattr(failure, "status", "error")
        reason = " ".join(str(failure).split())[:300] or type(failure).__name__
        self._write(turn, settings, {"status": str(status), "reason": reason})
        return True

    def _write(self, turn: Turn, settings: WriterSettings, told: dict[str, Json]) -> None:
        spent: dict[str, Json] = {
            "prompt_tokens": turn.prompt_tokens,
            "completion_tokens": turn.completion_tokens,
        }
        turn.act(WRITE, settings.path, self.id, told | spent)


def _describe(answer: BackgroundAnswer, missing: tuple[str, ...]) -> dict[str, Json]:
    return {"name": answer.name[:NAME_CHARS_MAX], "text": answer.text[:TEXT_CHARS_MAX], "missing": list(missing)}


def _read_settings(group: GroupInfo) -> tuple[WriterSettings, BackgroundPrompt]:
    """What the agents of a group share. Raises ValueError, in one line."""
    try:
        settings = WriterSettings.model_validate(dict(group.parameters))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    prompt = settings.prompt
    return settings, _load_installed(prompt) if isinstance(prompt, str) else load_background_prompt(prompt)


@lru_cache(maxsize=16)
def _load_installed(name: str) -> BackgroundPrompt:
    return load_background_prompt(name)
