"""Tries how well a model holds its roles: a few agents of each group are asked who they are, and play one round.

What is reported are figures to look at, not a judgement: how much of a persona comes back in the answers, whether the
age agrees, how alike the answers of different groups are, and which numbers they name. A persona of a child that
reasons in several steps is such a figure.
"""

from __future__ import annotations

import dataclasses
import difflib
import itertools
import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from ecumene.client.records import read_manifest
from ecumene.sim.asking.recording import read_answers
from ecumene.sim.populations.households import HomelessError, build_homes
from ecumene.sim.populations.population import Population, build_groups, build_population
from ecumene.sim.populations.telling import tell_attribute, write_value
from ecumene.sim.reporting.numbers import read_guess_recording
from ecumene.sim.runs.life import run
from ecumene.sim.runs.options import RunObserver, RunOptions
from ecumene.sim.specs.asking import QuestionSpec, SurveySpec
from ecumene.sim.specs.backgrounds import BACKGROUND
from ecumene.sim.specs.experiment import ExperimentSpec
from ecumene.sim.specs.placeholders import fill
from ecumene.sim.specs.population import GroupSpec, PopulationSpec
from ecumene.sim.specs.spec import RunSpec, parse_spec

PROBE_NAME = "probe.json"
SURVEY = "probe"
AGE = "age"
QUESTIONS = (
    QuestionSpec(name="self", text="Who are you? Tell it in two or three sentences, as you would yourself."),
    QuestionSpec(name=AGE, type="integer", minimum=0, maximum=150, text="How old are you, in whole years?"),
    QuestionSpec(name="day", text="What do you do on an ordinary day? One or two sentences."),
    QuestionSpec(name="speech", text="How would you explain to a friend what an average is? One or two sentences."),
)
ALIKE = 0.8
"""Answers of two groups that are so similar on the average are told."""
CHILD_AGE_MAX = 10
CHILD_STEPS = 2
"""Numbers that take so many steps of best response are told of a child."""
WORD_CHARS_MIN = 4
_WORDS = re.compile(r"\w+")
_AGES = (
    re.compile(r"\b(\d{1,3})[\s-]*years?\b", re.IGNORECASE),
    re.compile(r"\bage(?:d)?\s*:?\s*(\d{1,3})\b", re.IGNORECASE),
)


@dataclass(frozen=True, slots=True)
class CategoryProbe:
    """What a few agents of one group answered.

    Attributes:
        category: name of the group. persona: of its agents.
        asked: agents. answered: those whose answers were all valid. statuses: of the agents' answers.
        echoed: the share of the persona's words of four letters and more that come back in the texts of an agent, on
            the average; None without persona or answers.
        ages: of those asked, as their profile or persona tells them, ascending; empty = it tells none.
        wrong_age: agents that say another one than their own.
        nearest: the group whose answers are most similar. similarity: of these to its own, 0 to 1, on the average.
        numbers: named in one round of the game.
        remarks: what to look at, each in a line.
    """

    category: str
    persona: str
    asked: int
    answered: int
    statuses: Mapping[str, int]
    echoed: float | None
    ages: Sequence[int]
    wrong_age: int
    nearest: str | None
    similarity: float | None
    numbers: Sequence[float]
    remarks: Sequence[str]


@dataclass(frozen=True, slots=True)
class ProbeReport:
    """What a probe gave; `note`: what must be said with it, empty if nothing."""

    directory: Path
    categories: Sequence[CategoryProbe]
    note: str

    def to_document(self) -> dict[str, Any]:
        """As plain JSON: what `--json` prints and `probe.json` holds."""
        categories = [dataclasses.asdict(category) for category in self.categories]
        return {"directory": str(self.directory), "note": self.note, "alike_from": ALIKE, "categories": categories}


async def probe(spec: RunSpec, *, observer: RunObserver, options: RunOptions | None = None) -> ProbeReport:
    """Ask and play with a few of each group, in a run of its own, and write `probe.json` into its directory.

    Raises as `ecumene.sim.run` does.
    """
    outcome = await run(make_probe(spec), observer=observer, options=options)
    report = read_probe(outcome.directory)
    text = json.dumps(report.to_document(), indent=2, ensure_ascii=False, allow_nan=False)
    (outcome.directory / PROBE_NAME).write_text(text + "\n", encoding="utf-8")
    return report


def make_probe(spec: RunSpec) -> RunSpec:
    """The spec of the run that a probe is: the same groups and models, few agents, one round."""
    counts = build_groups(spec.population, spec.seed).counts
    few = [min(spec.probe.per_category, counts[group.name]) for group in spec.population.groups]
    population = _house(spec, few)
    survey = SurveySpec(name=SURVEY, at="before", questions=spec.probe.questions or QUESTIONS)
    changes = {
        "name": f"{spec.name[:33].rstrip('-')}-probe",
        "population": population,
        "game": spec.game.model_copy(update={"rounds": 1, "guests": None}),
        "experiment": shorten(spec),
        "surveys": (survey,),
        "interviews": (),
        "interventions": (),
    }
    return spec.model_copy(update=changes)


def shorten(spec: RunSpec) -> ExperimentSpec | None:
    """The experiment of a spec, if it has one of its own, with one round, or with no time at all."""
    experiment = spec.experiment
    if experiment is None or experiment.environment is not None:
        return None if experiment is None else experiment.model_copy(update={"rounds": 1})
    return experiment.model_copy(update={"until": spec.clock_start_ns + 1, "every": None})


def read_probe(directory: Path) -> ProbeReport:
    """The figures of a probe's records. Raises ManifestError, SpecError, ReportError, OSError."""
    spec = parse_spec(read_manifest(directory).spec, source=f"{directory}: spec of the manifest")
    population = build_population(spec.population, spec.seed)
    answers: dict[str, dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    groups = _find_groups(population)
    people = describe_people(population)
    for row in read_answers(directory).to_pylist():
        answers[groups[row["agent"]]][row["agent"]].append(row)
    recording = read_guess_recording(directory)
    numbers: dict[str, list[float]] = defaultdict(list)
    for agent, number in zip(recording.number_agents.tolist(), recording.numbers.tolist(), strict=True):
        numbers[groups[recording.agents[agent]]].append(number)
    texts = {name: [_join(rows) for rows in of_group.values() if _join(rows)] for name, of_group in answers.items()}
    kept = [group for group in spec.population.groups if population.counts[group.name]]
    categories = [_probe_group(spec, group, answers[group.name], people, texts, numbers[group.name]) for group in kept]
    return ProbeReport(directory, categories, write_note(spec))


def write_note(spec: RunSpec) -> str:
    """Where nobody holds a role, that is said."""
    asked = {name for group in spec.population.groups for name in spec.list_asked(group)}
    if not asked:
        return "Rule agents: they play no role, so nothing can be told of how it is held."
    if all(spec.list_models()[name].provider == "scripted" for name in asked):
        return "Scripted answers: no model was asked, so nothing can be told of how roles are held."
    return ""


def find_age(persona: str) -> int | None:
    """The age that a persona tells, such as `a 7-year-old` or `age: 34`; None if it tells none, or several."""
    ages = {int(age) for pattern in _AGES for age in pattern.findall(persona)}
    return ages.pop() if len(ages) == 1 else None


@dataclass(frozen=True, slots=True)
class Person:
    """Who an agent is to be, as its prompt tells it: persona, background, or attributes; and its age, if told."""

    persona: str
    age: int | None


def describe_people(population: Population) -> dict[str, Person]:
    """Each agent, from its group's persona and its own profile."""
    attributes = None if population.profiles is None else population.profiles.drop_columns("agent")
    rows = [{}] * len(population) if attributes is None else attributes.to_pylist()
    found = {}
    for agent, code, row in zip(population.name_agents(), population.codes.tolist(), rows, strict=True):
        written = population.groups[code].persona
        known = {name: value for name, value in row.items() if value is not None}
        told = {name: write_value(value) for name, value in known.items()}
        rest = "; ".join(tell_attribute(name, value) for name, value in known.items() if name != BACKGROUND)
        persona = fill(written, told) if written else told.get(BACKGROUND) or rest
        age = row.get(AGE)
        is_number = isinstance(age, int | float)
        found[agent] = Person(persona, int(age) if is_number else find_age(persona))
    return found


def measure_echo(persona: str, text: str) -> float | None:
    """The share of a persona's longer words that come back in a text; None if it has none."""
    words = _list_words(persona)
    return len(words & _list_words(text)) / len(words) if words else None


def measure_similarity(some: Sequence[str], others: Sequence[str]) -> float | None:
    """How similar texts are to others on the average, 0 to 1 (Ratcliff and Obershelp, by words); None without any."""
    pairs = [
        difflib.SequenceMatcher(None, one.casefold().split(), other.casefold().split(), autojunk=False).ratio()
        for one, other in itertools.product(some, others)
    ]
    return fmean(pairs) if pairs else None


def _probe_group(
    spec: RunSpec,
    group: GroupSpec,
    answers: Mapping[str, Sequence[Mapping[str, Any]]],
    people: Mapping[str, Person],
    texts: Mapping[str, Sequence[str]],
    numbers: Sequence[float],
) -> CategoryProbe:
    statuses: dict[str, int] = defaultdict(int)
    for rows in answers.values():
        statuses[rows[0]["status"]] += 1
    own = texts.get(group.name, ())
    told = {agent: text for agent, rows in answers.items() if (text := _join(rows))}
    echoes = [measure_echo(people[agent].persona, text) for agent, text in told.items()]
    echoed = [echo for echo in echoes if echo is not None]
    ages = {agent: age for agent in answers if (age := people[agent].age) is not None}
    said = {agent: row["answer_number"] for agent, rows in answers.items() for row in rows if row["question"] == AGE}
    wrong = sum(said.get(agent) not in (None, age) for agent, age in ages.items())
    similar = {
        name: similarity
        for name, others in texts.items()
        if name != group.name and (similarity := measure_similarity(own, others)) is not None
    }
    nearest = max(similar, key=similar.__getitem__, default=None)
    found = CategoryProbe(
        category=group.name,
        persona=group.persona,
        asked=len(answers),
        answered=statuses["ok"],
        statuses={status: count for status, count in statuses.items() if count},
        echoed=fmean(echoed) if echoed else None,
        ages=sorted(ages.values()),
        wrong_age=wrong,
        nearest=nearest,
        similarity=None if nearest is None else similar[nearest],
        numbers=sorted(numbers),
        remarks=(),
    )
    is_asked = any(spec.list_models()[name].provider != "scripted" for name in spec.list_asked(group))
    return dataclasses.replace(found, remarks=list_remarks(found, spec.game.ratio) if is_asked else [])


def list_remarks(found: CategoryProbe, ratio: float) -> list[str]:
    """What to look at in a group that a model answers for; `ratio`: of the game."""
    remarks = []
    if found.answered < found.asked:
        remarks.append(f"{found.asked - found.answered} of {found.asked} gave no valid answers")
    if found.wrong_age:
        known = set(found.ages)
        own = f"that they are {found.ages[0]}" if len(known) == 1 else "their own age"
        remarks.append(f"{found.wrong_age} of {found.asked} do not say {own}")
    if found.echoed is not None and found.echoed == 0:
        remarks.append("nothing of the persona comes back in the answers")
    if found.similarity is not None and found.similarity >= ALIKE:
        remarks.append(f"answers as {found.nearest} does (similarity {found.similarity:.2f})")
    deep = [number for number in found.numbers if number <= 50 * ratio**CHILD_STEPS] if ratio < 1 else []
    if found.ages and found.ages[-1] <= CHILD_AGE_MAX and deep:
        text = f"{len(deep)} of {len(found.numbers)} numbers take {CHILD_STEPS} steps of reasoning or more"
        remarks.append(f"{text}, at the age of {' to '.join(map(str, dict.fromkeys((found.ages[0], found.ages[-1]))))}")
    return remarks


def _join(rows: Sequence[Mapping[str, Any]]) -> str:
    """All that an agent wrote, in the order of the questions' names."""
    told = sorted((row["question"], row["answer_text"]) for row in rows if row["type"] == "text" and row["answer_text"])
    return " ".join(text for _, text in told)


def _list_words(text: str) -> set[str]:
    return {word.casefold() for word in _WORDS.findall(text) if len(word) >= WORD_CHARS_MIN or not word.isascii()}


def _house(spec: RunSpec, counts: list[int]) -> PopulationSpec:
    """The population with so many of each group: each drawn by itself, as few meet no quota and know nobody;
    backgrounds are put together.

    Of the first group there are more, where households make no population of the size.
    """
    counts = list(counts)
    while True:
        groups = [
            group.model_copy(update={"share": None, "count": count})
            for group, count in zip(spec.population.groups, counts, strict=True)
        ]
        changes: dict[str, Any] = {"groups": tuple(groups), "size": None, "sampling": "random"}
        if spec.world is None:  # else a space may be made of one
            changes["networks"] = {}
        if spec.population.backgrounds is not None:
            changes["backgrounds"] = spec.population.backgrounds.put_together()
        population = spec.population.model_copy(update=changes)
        try:
            build_homes(population, spec.people_seed, sum(counts))
        except HomelessError:
            counts[next(place for place, count in enumerate(counts) if count)] += 1
        else:
            return population


def _find_groups(population: Population) -> dict[str, str]:
    names = [group.name for group in population.groups]
    return dict(zip(population.name_agents(), (names[code] for code in population.codes), strict=True))
