"""The spec of a run: one YAML file, or the same object built in Python.

What is wrong with a spec is said by field, all at once, before anything runs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from ecumene.sim.population_spec import PopulationSpec, Section
from ecumene.sim.spec_errors import SpecError, SpecProblem, list_problems
from ecumene.sim.spec_numbers import RealNumber
from ecumene.sim.yaml_reading import YamlError, read_yaml

Name = Annotated[str, Field(pattern=r"^[a-z0-9-]{1,40}$")]


class GameSpec(Section):
    """The guess game: nearest to ratio × mean + offset wins.

    Attributes:
        ratio: positive; a number or a fraction such as "2/3".
        offset: added to ratio × mean; in the units of the numbers.
        rounds: how many.
        deadline_s: a round ends at the latest this many seconds after it began.
        guests: whether others than the agents may play; the first round waits for so many of them. None = nobody else.
    """

    ratio: Annotated[RealNumber, Field(gt=0)] = 2 / 3
    offset: RealNumber = 0.0
    rounds: Annotated[int, Field(ge=1, le=1_000)] = 5
    deadline_s: Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)] = 60.0
    guests: Annotated[int, Field(ge=0, le=10_000)] | None = None


class ModelSpec(Section):
    """Where prompted agents get their answers.

    Attributes:
        provider: `scripted` (deterministic, no model), `openai` (any compatible endpoint), `local`.
        name: the model, as the endpoint calls it.
        endpoint: base URL; for `openai` only, and needed there.
        api_key_variable, api_key_file: where the key stands; the key itself is never in a spec.
        temperature: None = the endpoint's default.
        max_tokens: bound of one answer.
        in_flight_max: questions at the endpoint at a time.
        timeout_s: of one request.
        latency_ms: simulated thinking time, for `scripted` only.
    """

    provider: Literal["scripted", "openai", "local"] = "scripted"
    name: Annotated[str, Field(min_length=1, max_length=200)] = "scripted"
    endpoint: str | None = None
    api_key_variable: str | None = None
    api_key_file: Path | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    max_tokens: Annotated[int, Field(ge=1, le=100_000)] = 512
    in_flight_max: Annotated[int, Field(ge=1)] = 64
    timeout_s: Annotated[float, Field(gt=0, le=3_600)] = 60.0
    latency_ms: Annotated[float, Field(ge=0, le=3_600_000)] = 0.0

    @model_validator(mode="after")
    def _check_provider(self) -> Self:
        if (self.provider == "openai") != (self.endpoint is not None):
            raise ValueError("endpoint is for provider openai, and needed there")
        if self.latency_ms and self.provider != "scripted":
            raise ValueError("latency_ms is for provider scripted")
        if self.api_key_variable is not None and self.api_key_file is not None:
            raise ValueError("give api_key_variable or api_key_file, not both")
        return self


class RecordingSpec(Section):
    """What is written, and where.

    Attributes:
        directory: holds a folder for each run.
        bodies: whether messages and answers of model calls are recorded too.
    """

    directory: Path = Path("runs")
    bodies: bool = False


class RunSpec(Section):
    """One run.

    Attributes:
        name: of the experiment; the run's id begins with it.
        seed: everything random follows from it.
        world: the world to live in; None = one of the run's own.
        population: who plays.
        game: what is played.
        model: what prompted agents ask.
        recording: what is kept.
    """

    name: Name
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    world: Name | None = None
    population: PopulationSpec
    game: GameSpec = GameSpec()
    model: ModelSpec = ModelSpec()
    recording: RecordingSpec = RecordingSpec()

    def to_document(self) -> dict[str, Any]:
        """The spec as plain JSON, for a manifest; `parse_spec` gives the same spec back."""
        return self.model_dump(mode="json")


def load_spec(path: Path) -> RunSpec:
    """The spec in a YAML file. Raises SpecError, with all problems, also if the file cannot be read."""
    try:
        document = read_yaml(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise SpecError(str(path), [SpecProblem("", "is not UTF-8 text")]) from error
    except (OSError, YamlError) as error:
        problem = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise SpecError(str(path), [SpecProblem("", problem)]) from error
    return parse_spec(document, source=str(path))


def parse_spec(document: Any, *, source: str = "spec") -> RunSpec:
    """The spec that a document (a mapping as YAML or JSON gives it) describes. Raises SpecError."""
    if not isinstance(document, dict):
        raise SpecError(source, [SpecProblem("", "not a mapping of fields")])
    try:
        return RunSpec.model_validate(document)
    except ValidationError as error:
        raise SpecError(source, list_problems(error, RunSpec)) from error
