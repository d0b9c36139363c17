"""Writers at work, with real services: jobs come back, and a service that dies ends the wait with its reason."""

from __future__ import annotations

import asyncio
from pathlib import Path

import psutil
import pytest
from ecumene.launch import ServiceEndedError
from ecumene.sim.backgrounds.people import Person
from ecumene.sim.backgrounds.plans import Planner
from ecumene.sim.backgrounds.writers import Writers

from tests.unit.ecumene.sim.backgrounds.people import make_spec

PEOPLE = [Person(place, f"agent-{place}", "a", {"age": 20 + place, "city": "東京"}) for place in range(5)]


def find_all(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*")}


async def test_each_job_comes_back_with_its_text_and_nothing_is_left(tmp_path: Path) -> None:
    spec = make_spec(model={"in_flight_max": 1})
    planner = Planner(spec)
    jobs = [planner.plan(person, 1) for person in PEOPLE]
    async with Writers(spec, planner, jobs, tmp_path / "work") as writers:
        done = {job.name: told async for job, told in writers.write(jobs)}
        again = [told async for _, told in writers.write(jobs[:1])]
    assert done.keys() == {job.name for job in jobs}
    assert [told["status"] for told in again] == ["ok"]
    for job in jobs:
        told = done[job.name]
        assert (told["status"], told["missing"], told["answers"]) == ("ok", [], 1)
        assert f"age: {job.person.attributes['age']}; city: 東京" in told["text"]
        assert told["prompt_tokens"] > 0
    assert not find_all(tmp_path)


async def test_a_service_that_dies_ends_the_wait(tmp_path: Path) -> None:
    spec = make_spec(model={"latency_ms": 60_000})
    planner = Planner(spec)
    jobs = [planner.plan(person, 1) for person in PEOPLE]
    with pytest.raises(ServiceEndedError, match=r"env-server|runtime"):
        async with asyncio.timeout(60), Writers(spec, planner, jobs, tmp_path / "work") as writers:
            (server,) = (
                one for one in psutil.Process().children() if str(tmp_path / "work" / "world") in one.cmdline()
            )
            server.kill()
            async for _ in writers.write(jobs):
                pass
    assert {"server.log", "runtime.log"} <= find_all(tmp_path), "kept, to be read"
