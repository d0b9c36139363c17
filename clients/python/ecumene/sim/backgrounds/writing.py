"""Writes the backgrounds of a spec's population: all people, then anew whoever is too much like another.

    people ─► first try each ─► near-duplicates ─► another try of those ─► … ─► one file
                  └──────── finished texts are kept as they come, and never asked for again ────────┘

Which texts are compared follows from the order of the population, never from that of the answers: the same answers give
the same file.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ecumene.client.errors import EcumeneError
from ecumene.sim.backgrounds.kept import KeptTexts
from ecumene.sim.backgrounds.likeness import Diversity, find_near_duplicates, measure_diversity
from ecumene.sim.backgrounds.people import Person, list_people
from ecumene.sim.backgrounds.plans import Job, Planner
from ecumene.sim.backgrounds.records import COMPLETE, FLAGGED, REPAIRED, Background, write_backgrounds_file
from ecumene.sim.backgrounds.templates import put_together
from ecumene.sim.backgrounds.writers import Writers
from ecumene.sim.populations.population import Population, build_population
from ecumene.sim.specs.errors import SpecError, SpecProblem
from ecumene.sim.specs.spec import RunSpec

OTHER_CHARS_MAX = 1_000
BUDGET = "budget"
OK = "ok"
BAD_ANSWERS = ("parse_error", "truncated", "refused")


class BackgroundsObserver(Protocol):
    """Is told how far it is; must not block."""

    def stage_began(self, stage: str) -> None:
        """What is being done now, in a few words."""

    def texts_counted(self, done: int, total: int, part: str) -> None:
        """So many texts of a part are there."""


@dataclass(frozen=True, slots=True)
class BackgroundsOutcome:
    """What it came to.

    Attributes:
        path: the file; None = none was written.
        statuses: how many are `complete`, `repaired` and `flagged`.
        kept: texts that were there before. written: that were asked for now.
        prompt_tokens, completion_tokens: of what was asked for now.
    """

    path: Path | None
    backgrounds: tuple[Background, ...]
    diversity: Diversity
    kept: int
    written: int
    prompt_tokens: int
    completion_tokens: int

    @property
    def statuses(self) -> dict[str, int]:
        """Status -> people."""
        found = Counter(one.status for one in self.backgrounds)
        return {status: found[status] for status in (COMPLETE, REPAIRED, FLAGGED)}

    @property
    def reasons(self) -> dict[str, int]:
        """Why people are flagged -> how many are."""
        return dict(Counter(_name_reason(one) for one in self.backgrounds if one.status == FLAGGED).most_common())

    def to_document(self) -> dict[str, Any]:
        """As plain JSON."""
        return {
            "file": None if self.path is None else str(self.path),
            "people": len(self.backgrounds),
            "statuses": self.statuses,
            "flagged": self.reasons,
            "kept": self.kept,
            "written": self.written,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "diversity": dataclasses.asdict(self.diversity),
        }


class BackgroundsUnfinishedError(EcumeneError):
    """A budget is spent before all is written. `done` of `total` texts of this part are kept."""

    def __init__(self, done: int, total: int, reason: str) -> None:
        super().__init__(f"{done:,} of {total:,} texts are written, then the budget was spent: {reason}")


class NothingWrittenError(EcumeneError):
    """Nobody has a text. `reason`: of the first."""

    def __init__(self, people: int, reason: str) -> None:
        super().__init__(f"none of {people:,} people has a text: {reason}")


async def write_backgrounds(
    spec: RunSpec, observer: BackgroundsObserver, *, first: int | None = None
) -> BackgroundsOutcome:
    """Write who the agents of a spec are into the file that its backgrounds name.

    Whatever ends this, what is finished is kept: the same call goes on from there. `first`: only so many, to be looked
    at; then no file is written.

    Raises:
        SpecError: it has no backgrounds.
        PopulationError: the population cannot be drawn.
        KeptTextsError: another process writes them now.
        BackgroundsUnfinishedError, NothingWrittenError: no file was written.
        EcumeneError, OSError.
    """
    backgrounds = spec.population.backgrounds
    if backgrounds is None:
        raise SpecError(spec.name, [SpecProblem("population.backgrounds", "is missing: it says what is to be written")])
    spec = spec.resolve_paths()
    observer.stage_began("drawing the population")
    bare = spec.population.model_copy(update={"backgrounds": None})
    population = await asyncio.to_thread(build_population, bare, spec.seed)
    people = _list_people(spec, population)[:first]
    if backgrounds.mode == "template":
        outcome = await asyncio.to_thread(_put_together, spec, people)
    else:
        with KeptTexts(backgrounds.resolve_paths().cache) as kept:
            outcome = await _Writing(spec, people, kept, observer).write()
    if first is not None:
        return outcome
    about = {"spec": spec.name, "seed": spec.people_seed, "diversity": dataclasses.asdict(outcome.diversity)}
    about["backgrounds"] = backgrounds.model_dump(mode="json", exclude={"file"})
    path = backgrounds.file
    await asyncio.to_thread(write_backgrounds_file, path, outcome.backgrounds, about)
    return dataclasses.replace(outcome, path=path)


class _Writing:
    """One call."""

    def __init__(self, spec: RunSpec, people: Sequence[Person], kept: KeptTexts, observer: BackgroundsObserver) -> None:
        self._spec = spec
        self._kept = kept
        self._observer = observer
        self._planner = Planner(spec)
        self._people = people
        self._done: dict[str, list[tuple[Job, dict[str, Any]]]] = {person.agent: [] for person in self._people}
        """Agent -> its tries that are over."""
        self._found = self._written = self._prompt_tokens = self._completion_tokens = 0

    async def write(self) -> BackgroundsOutcome:
        backgrounds = self._planner.backgrounds
        jobs = [self._planner.plan(person, 1) for person in self._people]
        alike: dict[int, int] = {}
        for tries in range(1, backgrounds.redos + 2):
            await self._do(jobs, f"try {tries}" if tries > 1 else "")
            texts = [self._find_text(person) for person in self._people]
            self._observer.stage_began("comparing")
            alike = await asyncio.to_thread(find_near_duplicates, texts, backgrounds.alike)
            others = {later: texts[earlier][:OTHER_CHARS_MAX] for later, earlier in alike.items()}
            others |= {place: "" for place, person in enumerate(self._people) if self._may_do_better(person)}
            if not others or tries > backgrounds.redos:
                break
            jobs = [self._planner.plan(self._people[place], tries + 1, other) for place, other in others.items()]
        rows = [self._make_row(person, place, alike) for place, person in enumerate(self._people)]
        if not any(row.background for row in rows):
            raise NothingWrittenError(len(rows), rows[0].remark.removeprefix("no text: "))
        diversity = await asyncio.to_thread(measure_diversity, [row.background for row in rows if row.background])
        spent = (self._found, self._written, self._prompt_tokens, self._completion_tokens)
        return BackgroundsOutcome(None, tuple(rows), diversity, *spent)

    async def _do(self, jobs: Sequence[Job], part: str) -> None:
        """Have jobs done that are not kept. Raises BackgroundsUnfinishedError."""
        left = []
        for job in jobs:
            told = self._kept.find(job.key)
            if told is None:
                left.append(job)
            else:
                self._done[job.person.agent].append((job, told))
        self._found += len(jobs) - len(left)
        if not left:
            return
        self._observer.stage_began(f"{len(jobs) - len(left):,} texts are kept, {len(left):,} are to be written")
        done = len(jobs) - len(left)
        folder = self._planner.backgrounds.file.with_name(f"{self._planner.backgrounds.file.name}.work")
        async with Writers(self._spec, self._planner, left, folder) as writers:
            self._observer.texts_counted(done, len(jobs), part)
            async for job, told in writers.write(left):
                self._note(job, told)
                if told["status"] == BUDGET:
                    raise BackgroundsUnfinishedError(done, len(jobs), str(told.get("reason", "")))
                done += 1
                self._observer.texts_counted(done, len(jobs), part)

    def _note(self, job: Job, told: dict[str, Any]) -> None:
        self._prompt_tokens += int(told.get("prompt_tokens", 0))
        self._completion_tokens += int(told.get("completion_tokens", 0))
        if told["status"] == OK:
            self._written += 1
            self._kept.keep([(job.key, told)])
        self._done[job.person.agent].append((job, told))

    def _may_do_better(self, person: Person) -> bool:
        """Whether it has no text, and its model has answered: with another seed it may do better."""
        tries = self._done[person.agent]
        return not any(told["status"] == OK for _, told in tries) and tries[-1][1]["status"] in BAD_ANSWERS

    def _find_text(self, person: Person) -> str:
        """Its newest text."""
        texts = [told["text"] for _, told in self._done[person.agent] if told["status"] == OK]
        return str(texts[-1]) if texts else ""

    def _make_row(self, person: Person, place: int, alike: dict[int, int]) -> Background:
        tries = self._done[person.agent]
        good = [(job, told) for job, told in tries if told["status"] == OK]
        job, told = good[-1] if good else tries[-1]
        missing = tuple(told.get("missing", ())) if good else tuple(person.attributes)
        remark = "" if good else f"no text: {told.get('reason', told['status'])}"
        if place in alike:
            remark = f"too much like {self._people[alike[place]].agent}"
        is_first = len(tries) == 1 and told.get("answers") == 1
        status = FLAGGED if missing or remark else COMPLETE if is_first else REPAIRED
        return Background(
            agent=person.agent,
            group=person.group,
            name=str(told.get("name", "")),
            background=str(told.get("text", "")),
            status=status,
            missing=missing,
            remark=remark,
            tries=len(tries),
            answers=sum(int(each.get("answers", 0)) for _, each in tries),
            model=self._planner.model.name,
            temperature=job.temperature,
            seed=job.seed,
            prompt_tokens=sum(int(each.get("prompt_tokens", 0)) for _, each in tries),
            completion_tokens=sum(int(each.get("completion_tokens", 0)) for _, each in tries),
            attributes=person.told,
            key=job.key,
        )


def _put_together(spec: RunSpec, people: Sequence[Person]) -> BackgroundsOutcome:
    """Those of mode `template`, to be looked at: a run needs no file of them."""
    backgrounds = spec.population.backgrounds
    assert backgrounds is not None
    texts = list(put_together(backgrounds, people, spec.people_seed))
    rows = [
        Background(
            *(person.agent, person.group, "", text, COMPLETE, (), "", 1, 0, "", None, None, 0, 0, person.told, "")
        )
        for person, text in zip(people, texts, strict=True)
    ]
    return BackgroundsOutcome(None, tuple(rows), measure_diversity(texts), 0, len(rows), 0, 0)


def _list_people(spec: RunSpec, population: Population) -> list[Person]:
    backgrounds = spec.population.backgrounds
    assert backgrounds is not None
    assert population.profiles is not None
    names = tuple(group.name for group in population.groups)
    return list(list_people(backgrounds, population.profiles, names, population.codes))


def _name_reason(one: Background) -> str:
    if one.remark.startswith("too much like"):
        return "too much like another"
    return one.remark or f"does not tell {', '.join(one.missing)}"
