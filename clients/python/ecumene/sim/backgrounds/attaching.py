"""Backgrounds as a column of a population's profiles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from ecumene.sim.backgrounds.people import Person, list_people
from ecumene.sim.backgrounds.records import BackgroundsFileError, read_backgrounds_table
from ecumene.sim.backgrounds.templates import put_together
from ecumene.sim.populations.errors import PopulationError
from ecumene.sim.populations.streams import Numbers
from ecumene.sim.populations.telling import tell_attribute
from ecumene.sim.specs.backgrounds import BACKGROUND, BackgroundsSpec

FIELD = "backgrounds"


def attach_backgrounds(
    spec: BackgroundsSpec, profiles: pa.Table, groups: tuple[str, ...], codes: Numbers, seed: int
) -> pa.Table:
    """The profiles with a column `background`; "" for those of groups that have none.

    What a written text does not tell stands behind it in brackets: an agent is what its attributes say, in any case.

    Raises PopulationError: nothing was written for these people yet, or it was for others.
    """
    people = list(list_people(spec, profiles, groups, codes))
    texts = put_together(spec, people, seed) if spec.mode == "template" else _read_texts(spec, people)
    column = [""] * len(profiles)
    for person, text in zip(people, texts, strict=True):
        column[person.place] = text
    return profiles.append_column(BACKGROUND, pa.array(column, pa.string()))


def _read_texts(spec: BackgroundsSpec, people: Sequence[Person]) -> Iterator[str]:
    again = "ecumene background SPEC writes them"
    if not spec.file.exists():
        raise PopulationError(f"{FIELD}.file", f"{spec.file} is not there: {again}")
    try:
        table = read_backgrounds_table(spec.file)
    except BackgroundsFileError as error:
        raise PopulationError(f"{FIELD}.file", str(error)) from error
    columns = [table.column(name).to_pylist() for name in ("attributes", "background", "missing")]
    written = dict(zip(table.column("agent").to_pylist(), zip(*columns, strict=True), strict=True))
    for person in people:
        found = written.get(person.agent)
        if found is None:
            raise PopulationError(f"{FIELD}.file", f"{spec.file} knows no {person.agent}: {again}")
        attributes, text, missing = found
        if attributes != person.told:
            told = f"{spec.file} was written for other people: {person.agent} is {person.told[:200]} here"
            raise PopulationError(f"{FIELD}.file", f"{told}, {attributes[:200]} there; {again} anew")
        yield _complete(text, missing, person)


def _complete(text: str, missing: Sequence[str], person: Person) -> str:
    lacking = person.attributes if not text else {name: person.attributes[name] for name in missing}
    if not lacking:
        return text
    facts = "; ".join(tell_attribute(name, value) for name, value in lacking.items())
    return f"{text} ({facts})" if text else f"({facts})"
