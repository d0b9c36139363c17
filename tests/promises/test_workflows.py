"""Workflows in a world do what they do locally, with effects once, failures told, and nothing left."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from ecumene import World, connect, workflows
from ecumene.workflows import FlowLimits, StageLimits
from ecumene.workflows.messages import HOSTS, ROOT
from hypothesis import HealthCheck, given, settings
from hypothesis import seed as with_seed
from hypothesis import strategies as st

from tests.services import ServerProcess
from tests.workflow_actors import Counter, Note, Teller, Verdict
from tests.workflow_hosts import HostChild, KeptCalls, host_here, two_hosts


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServerProcess, list[HostChild]]]:
    """A real server, and two host processes."""
    with two_hosts(tmp_path_factory.mktemp("workflows")) as both:
        yield both


@pytest.fixture(scope="module")
def server(both: tuple[ServerProcess, list[HostChild]]) -> ServerProcess:
    """The server."""
    return both[0]


@pytest.fixture(scope="module")
def hosts(both: tuple[ServerProcess, list[HostChild]]) -> list[HostChild]:
    """The hosts."""
    return both[1]


@pytest.fixture
def flow(server: ServerProcess, hosts: list[HostChild]) -> Iterator[workflows.Flow]:
    """A flow in the world, for blocking code."""
    with workflows.connect(server.address) as flow:
        yield flow


@pytest.fixture
async def world(server: ServerProcess) -> AsyncIterator[World]:
    """The world, looked at from outside."""
    async with connect(server.address) as world:
        yield world


async def list_paths(world: World) -> list[str]:
    return [info.path async for info in world.environment(ROOT).children() if info.path != HOSTS]


Step = tuple[str, int, list[int], int]
"""What a step does, on which actor, with which earlier results, and to which other actor."""


@st.composite
def graphs(draw: Any) -> tuple[int, list[Step]]:
    """Message graphs with one caller: stateful calls, nested calls, failures, values of all kinds."""
    actors = draw(st.integers(1, 4))
    steps: list[Step] = []
    for index in range(draw(st.integers(1, 14))):
        kind = draw(st.sampled_from(["digest", "digest", "digest", "tell", "nested", "passed", "fail", "note"]))
        needs = draw(st.lists(st.integers(0, index - 1), max_size=3)) if index else []
        steps.append((kind, draw(st.integers(0, actors - 1)), needs, draw(st.integers(0, actors - 1))))
    return actors, steps


def run_graph(actors: int, steps: list[Step]) -> list[Any]:
    """The central script: each result, or what it failed with."""
    tellers = [Teller(f"t{number}").to_dist() for number in range(actors)]
    helpers = [Teller(f"h{number}").to_dist() for number in range(actors)]
    results: list[Any] = []
    for kind, actor, needs, other in steps:
        teller, given = tellers[actor], [results[need] for need in needs]
        if kind == "digest":
            results.append(teller.digest(*given, {"more": given}))
        elif kind == "tell":
            results.append(teller.tell([(*given, b"\x80\x04"), {1: 2.5, "deep": [given]}]))
        elif kind == "nested":
            # Each teller asks a helper of its own, so that what it keeps does not depend on who comes first.
            results.append(teller.ask(helpers[actor], "digest", given))
        elif kind == "passed":
            results.append(teller.pass_on(helpers[actor], "digest", given))
        elif kind == "fail":
            results.append(teller.fail(f"step {len(results)}"))
        else:
            results.append(teller.note(Note(f"from {other}", (str(actor),), {"given": given})))
    return [told(result) for result in results]


def told(result: Any) -> Any:
    """A result, or what is the same of a failure wherever it happens."""
    try:
        return result.get(timeout_s=60)
    except workflows.CallFailedError as error:
        failure = error.failure
        return ("failed", failure.code, failure.kind, failure.text, failure.origin.method, failure.origin.place)


def compare_graphs(address: str, seed: int, examples: int) -> None:
    @with_seed(seed)
    @settings(max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(graphs())
    def compare(graph: tuple[int, list[Step]]) -> None:
        with workflows.local():
            here = run_graph(*graph)
        with workflows.connect(address):
            there = run_graph(*graph)
        assert here == there

    compare()


def test_local_and_distributed_runs_of_random_graphs_are_equal(
    server: ServerProcess, hosts: list[HostChild], seed: int
) -> None:
    compare_graphs(server.address, seed, 30)


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_local_and_distributed_runs_of_many_random_graphs_are_equal(
    server: ServerProcess, hosts: list[HostChild], seed: int
) -> None:
    compare_graphs(server.address, seed, 600)


def test_actors_live_in_other_processes_and_call_each_other(flow: workflows.Flow, hosts: list[HostChild]) -> None:
    tellers = workflows.spawn(Teller, 4)
    assert {teller.pid().get() for teller in tellers} == {host.process.pid for host in hosts}
    one, two, three, _ = tellers
    assert one.ask(two, "ask", three, "tell", "deep").get() == "deep"
    assert one.pass_on(two, "ask_softly", three, "tell", "deeper").get() == ["deeper", "teller"]
    assert one.spawn_child("born").get() == "born"
    assert one.judge(Verdict(winner="w", score=2)).get() == Verdict(winner="w", score=4)
    assert three.all_heard().get() == ["deep", "deeper"]


def test_the_order_of_one_caller_holds_over_hosts(flow: workflows.Flow) -> None:
    teller, slow = workflows.spawn(Teller, 2)
    told = []
    for number in range(200):
        value: Any = slow.tell_later(number, 0.001) if number % 20 == 0 else number
        told.append(teller.tell(value))
    assert teller.all_heard().get() == list(range(200))


def test_a_failure_names_actor_method_host_and_cause(flow: workflows.Flow) -> None:
    one, two = Teller().to_dist(host="ann"), Teller().to_dist(host="bob")
    with pytest.raises(ValueError, match="far") as caught:
        one.tell([two.tell(one.fail("far away"))]).get()
    error = caught.value
    assert isinstance(error, workflows.CallFailedError)
    assert (error.kind, error.origin.method, error.origin.host) == ("ValueError", "fail", "ann")
    assert error.origin.place.startswith("workflow_actors.py:")
    assert error.failure.causes == ("KeyError: 'inner'",)
    assert error.failure.through == ("Teller.tell", "Teller.tell")
    with pytest.raises(workflows.NoHostError, match="no host 'eve'; there are ann, bob"):
        Teller().to_dist(host="eve")


def test_circles_over_hosts_are_refused_and_calls_back_are_not(flow: workflows.Flow) -> None:
    one, two = Teller().to_dist(host="ann"), Teller().to_dist(host="bob")
    assert one.ask(two, "send", one, "tell", "back").get(timeout_s=20) is None
    assert one.ask(two, "sleep", 2.5).get(timeout_s=20) == 2.5
    with pytest.raises(workflows.CircularWaitError, match="would wait for itself"):
        one.ask(two, "ask", one, "tell", 1).get(timeout_s=20)
    assert two.tell("alive").get(timeout_s=20) == "alive"
    # The wait of either may have been the one that was refused; the other one's call then ran.
    assert one.all_heard().get(timeout_s=20) in (["back"], ["back", 1])


def test_large_results_are_fetched_by_who_needs_them_and_too_large_ones_are_refused(flow: workflows.Flow) -> None:
    one, two = Teller().to_dist(host="ann"), Teller().to_dist(host="bob")
    large = one.make_bytes(600_000)
    assert two.tell(large).get() == b"x" * 600_000
    assert large.get() == b"x" * 600_000
    with pytest.raises(workflows.ValueTooLargeError, match="VALUE_BYTES_MAX is 1000000"):
        one.make_bytes(800_000).get()
    with pytest.raises(workflows.ValueTooLargeError, match="VALUE_BYTES_MAX is 1000000"):
        one.tell("x" * 1_000_000)
    assert one.tell("x" * 990_000).get() == "x" * 990_000


async def test_effects_are_one_transaction_with_the_result(
    server: ServerProcess, hosts: list[HostChild], world: World
) -> None:
    place = world.environment("/effects")
    await place.register(if_absent=True)
    await place.set("taken", 1)
    async with workflows.connect(server.address) as flow, world.watch() as watch:
        (counter,) = flow.spawn(Counter)
        assert await counter.increment("/effects", "n", 5) == "+5"
        with pytest.raises(RuntimeError, match="after the effect"):
            await counter.increment_and_fail("/effects", "n")
        with pytest.raises(workflows.EffectsConflictError, match="its effects could not be taken"):
            await counter.increment("/nowhere", "n")
        assert await counter.increment("/effects", "n") == "+1"
        seen: dict[int, list[Any]] = {}
        async for event in watch:
            seen.setdefault(event.revision, []).append(event)
            if event.path == "/effects" and event.value == 6:
                break
    assert await place.value("n") == 6
    (first, *_) = [events for events in seen.values() if any(event.path == "/effects" for event in events)]
    assert {event.path.rpartition("/")[0] or event.path for event in first} >= {f"{ROOT}/{flow.name}"}
    effect = next(event for event in first if event.path == "/effects")
    assert effect.actor and effect.producer == f"{effect.actor}/wf"
    assert effect.producer_seq >> 28 == 2, "the counter was made by call 1"


async def test_a_call_with_effects_that_returns_a_call_on_itself_is_told_of_the_circle(
    server: ServerProcess, hosts: list[HostChild], world: World
) -> None:
    await world.environment("/circles").register(if_absent=True)
    async with workflows.connect(server.address) as flow:
        counter, other = flow.spawn(Counter, 2)
        async with asyncio.timeout(30):
            with pytest.raises(workflows.CircularWaitError, match="would wait for itself"):
                await counter.increment_and_wait("/circles", "n", counter)
            assert await counter.increment_and_wait("/circles", "n", other) == "+1"
            await counter.increment("/circles", "m")
    # Of the one that was told nothing happened; what it had called ran after it, or was given up with it.
    assert await world.environment("/circles").value("n") in (2, 3)


async def test_entries_of_others_in_the_place_of_a_result_are_told_as_lost(
    server: ServerProcess, hosts: list[HostChild], world: World
) -> None:
    async with workflows.connect(server.address) as flow:
        slow, other = flow.spawn(Teller, 2)
        waiting, text = slow.tell_later(1, 1.0), slow.tell_later(2, 1.0)
        needs, needs_text = other.tell([waiting]), other.tell([text])
        await asyncio.sleep(0.2)
        place = world.environment(f"{ROOT}/{flow.name}/{slow._caller.name}")
        await place.set("rx", "of somebody else")
        await place.set(f"r{waiting._call.number}", 17)
        await place.set(f"r{text._call.number}", "neither a result nor a failure")
        async with asyncio.timeout(10):
            for call in (waiting, text, needs, needs_text):
                with pytest.raises(workflows.ResultLostError, match="holds no outcome"):
                    await call
            assert await other.tell("alive") == "alive"


async def test_released_results_and_closed_flows_leave_nothing_in_the_world(
    server: ServerProcess, hosts: list[HostChild], world: World
) -> None:
    async with workflows.connect(server.address) as flow:
        (teller,) = flow.spawn(Teller)
        kept = [teller.tell(number) for number in range(50)]
        large = teller.make_bytes(100_000)
        await workflows.gather([kept, large])
        place = world.environment(f"{ROOT}/{flow.name}/{teller._caller.name}")
        assert len([entry async for entry in place.entries()]) >= 52
        del kept, large
        gc.collect()
        await wait_for(lambda: count_entries(place), lambda count: count == 0)
        names = await list_paths(world)
        assert f"{ROOT}/{flow.name}" in names
    assert f"{ROOT}/{flow.name}" not in await list_paths(world)
    assert all("workflow wf-" not in lease.holder for lease in await world.leases())


async def count_entries(place: Any) -> int:
    return len([entry async for entry in place.entries()])


async def wait_for(read: Callable[[], Any], is_met: Callable[[Any], bool], timeout_s: float = 10) -> Any:
    deadline = time.monotonic() + timeout_s
    while not is_met(value := await read()):
        assert time.monotonic() < deadline, f"still {value}"
        await asyncio.sleep(0.02)
    return value


async def test_a_result_that_somebody_deletes_is_told_as_lost(
    server: ServerProcess, hosts: list[HostChild], world: World
) -> None:
    async with workflows.connect(server.address) as flow:
        (teller, other) = flow.spawn(Teller, 2)
        (number,) = (teller.tell(1),)
        large = teller.make_bytes(100_000)
        await other.tell([number, large])
        place = world.environment(f"{ROOT}/{flow.name}/{teller._caller.name}")
        await world.transaction().delete(place.path, f"r{number._call.number}").commit()
        await world.transaction().delete(place.path, f"r{large._call.number}").commit()
        await wait_for(lambda: asyncio.sleep(0, large._call.text), lambda text: bool(text and "error" in text))
        with pytest.raises(workflows.ResultLostError, match="was deleted"):
            await large
        with pytest.raises(workflows.ResultLostError, match="was deleted"):
            await other.tell({"needs": number})


async def test_expired_results_say_so_to_readers_and_to_calls(server: ServerProcess, hosts: list[HostChild]) -> None:
    async with workflows.connect(server.address, limits=FlowLimits(results_bytes_max=50_000)) as flow:
        teller, other = flow.spawn(Teller, 2)
        kept = [teller.make_bytes(9_000) for _ in range(10)]
        await asyncio.gather(*kept[-2:])
        with pytest.raises(workflows.ResultExpiredError, match="results_bytes_max is 50000"):
            await kept[0]
        with pytest.raises(workflows.ResultExpiredError):
            other.tell(kept[0])
        assert flow.statistics().results_bytes <= 50_000


async def test_every_call_is_recorded_once(server: ServerProcess) -> None:
    recorder = KeptCalls()
    async with host_here(server.address, "recording", observer=recorder), workflows.connect(server.address) as flow:
        one, two = flow.spawn(Teller, 2, host="recording")
        await workflows.gather([one.tell(n) for n in range(20)])
        await one.ask_softly(two, "tell", 1)
        with pytest.raises(ValueError):
            await two.fail("told")
    assert len(recorder.calls) == 2 + 20 + 2 + 1
    assert len({(call.caller, call.number) for call in recorder.calls}) == len(recorder.calls)
    failed = [call for call in recorder.calls if call.failure is not None]
    assert [(call.method, call.failure.kind) for call in failed if call.failure] == [("fail", "ValueError")]
    assert {call.lane for call in recorder.calls if call.method == "tell"} == {"", one._target.actor}
    assert all(call.arrived_s <= call.started_s <= call.ended_s for call in recorder.calls)


async def test_a_host_that_stops_cleanly_ends_its_calls_first(server: ServerProcess) -> None:
    child = HostChild(server.address, "leaving").wait_ready()
    async with workflows.connect(server.address) as flow:
        (teller,) = flow.spawn(Teller, 1, host="leaving")
        await teller.tell(0)
        slow = teller.tell_later("done", 1.0)
        await asyncio.sleep(0.1)
        assert await asyncio.to_thread(child.stop) == 0
        assert await slow == "done"
        assert "leaving" not in flow.hosts()
        with pytest.raises(workflows.HostLostError):
            await teller.tell(1)


async def test_hosts_are_needed_and_a_name_is_taken_once(server: ServerProcess, world: World) -> None:
    async with connect(server.address, "empty", create=True):
        limits = FlowLimits(host_wait_s=0.2)
        with pytest.raises(workflows.NoHostError, match=r"ecumene runtime --server \S+ --workflow-module"):
            async with workflows.connect(server.address, "empty", limits=limits):
                pass
    async with host_here(server.address, "twice"):
        child = HostChild(server.address, "twice", lease_ttl_s=1.0)
        code = await asyncio.to_thread(child.close)
        assert code == 1 and '"failed"' in child.last_lines[0]
    with pytest.raises(workflows.WorkflowError, match="no name for a flow"):
        async with workflows.connect(server.address, name="hosts"):
            pass


async def test_a_host_imports_only_the_modules_that_it_was_given(server: ServerProcess) -> None:
    child = HostChild(server.address, "strict", "--module", "tests.workflow_actors").wait_ready()
    try:
        async with workflows.connect(server.address) as flow:
            (teller,) = flow.spawn(Teller, 1, host="strict")
            assert await teller.tell(1) == 1
            caller = teller._caller
            foreign = workflows.proxies.Target(f"{flow.name}.x.9", teller._target.host, "this:Zen", None)
            made = caller._submit(foreign, "make", "", [[]], [])
            with pytest.raises(workflows.CallRefusedError, match="may not be named here"):
                await made
    finally:
        await asyncio.to_thread(child.stop)


def test_limits_of_a_stage_hold_in_a_host(server: ServerProcess) -> None:
    async def play() -> None:
        limits = StageLimits(actors_max=1)
        async with host_here(server.address, "small", limits), workflows.connect(server.address) as flow:
            first, second = flow.spawn(Teller, 2, host="small")
            assert await first.tell(1) == 1
            with pytest.raises(workflows.CallRefusedError, match="actors_max is 1"):
                await second.tell(1)

    asyncio.run(play())
