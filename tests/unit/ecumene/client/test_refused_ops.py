"""What the server refused for now is issued again: later, in order, once, and never what could have had an effect."""

from __future__ import annotations

import asyncio
import math
import random
from typing import Any

import ecumene
import pytest
from ecumene import ClientSettings, World
from ecumene.client.backoff import Backoff
from ecumene.client.errors import ErrorDetails, Executed
from ecumene.client.reasons import QueueFullError
from ecumene.client.refused_ops import IssuedOp, RefusedOps, Touched, may_pass
from env_api.v1 import errors_pb2, operations_pb2, session_pb2

from tests.unit.ecumene.client.fake_server import FakeServer, reached

NO, UNKNOWN = errors_pb2.EXECUTED_NO, errors_pb2.EXECUTED_UNKNOWN


def refusal(
    reason: int = errors_pb2.ERROR_REASON_QUEUE_FULL, executed: int = NO, code: int = 8, delay_ms: int = 1
) -> operations_pb2.OpOutcome:
    """An outcome that says no."""
    outcome = operations_pb2.OpOutcome()
    outcome.error.code, outcome.error.retry_delay_ms = code, delay_ms
    outcome.error.reason, outcome.error.executed = reason, executed  # type: ignore[assignment]
    return outcome


@pytest.mark.parametrize(
    ("reason", "code"), [("QUEUE_FULL", 8), ("RATE_LIMITED", 8), ("DRAINING", 14), ("RECOVERING", 14)]
)
async def test_an_op_that_was_refused_for_now_is_issued_again_after_the_advised_time(
    server: FakeServer, world: World, reason: str, code: int
) -> None:
    server.outcomes = [refusal(errors_pb2.ErrorReason.Value(f"ERROR_REASON_{reason}"), code=code, delay_ms=40)]
    started = asyncio.get_running_loop().time()
    assert await world.environment("/").set("a", 1.0) == ecumene.Written(1, 1)
    assert asyncio.get_running_loop().time() - started >= 0.04
    assert [frame.seq for frame in server.frames()] == [1, 2], "under a new number: the old one has its answer"
    assert server.log == [("a", 1.0)]


async def test_a_repetition_has_the_same_conditions_and_identity(server: FakeServer, world: World) -> None:
    server.outcomes = [refusal()]
    await world.environment("/x").set("a", 1.0, producer="p", seq=7, actor="ann", expect_version=0, exists=True)
    first, second = server.frames()
    first.seq = second.seq
    assert second == first


@pytest.mark.parametrize(
    "outcome",
    [
        refusal(executed=UNKNOWN),
        refusal(executed=errors_pb2.EXECUTED_UNSPECIFIED),
        refusal(errors_pb2.ERROR_REASON_STORAGE_QUOTA),
        refusal(errors_pb2.ERROR_REASON_WRONG_OWNER, code=14),
        refusal(errors_pb2.ERROR_REASON_PRECONDITION_FAILED, code=10),
        refusal(errors_pb2.ERROR_REASON_LIMIT_EXCEEDED, code=3),
        refusal(errors_pb2.ERROR_REASON_INTERNAL, executed=UNKNOWN, code=13),
    ],
    ids=lambda outcome: f"{outcome.error.reason}-{outcome.error.executed}",
)
async def test_other_failures_are_never_repeated(
    server: FakeServer, world: World, outcome: operations_pb2.OpOutcome
) -> None:
    server.outcomes = [outcome]
    with pytest.raises(ecumene.EcumeneError):
        await world.environment("/").set("a", 1.0)
    assert len(server.frames()) == 1


async def test_ops_of_one_key_that_were_refused_together_keep_their_order(server: FakeServer, world: World) -> None:
    room = world.environment("/")
    server.outcomes = [refusal() for _ in range(20)]
    await asyncio.gather(*[room.set("a", float(number)) for number in range(20)])
    assert [value for _, value in server.log] == [float(number) for number in range(20)]


async def test_an_op_that_a_later_one_has_passed_on_its_key_fails(server: FakeServer, world: World) -> None:
    room = world.environment("/")
    server.outcomes = [refusal(), refusal()]
    first, second, third, fourth = await asyncio.gather(
        room.set("a", 1.0), room.set("b", 1.0), room.set("a", 2.0), room.set("c", 3.0), return_exceptions=True
    )
    assert isinstance(first, ecumene.QueueFullError), "the later one on its key took effect"
    assert [type(done) for done in (second, third, fourth)] == [ecumene.Written] * 3
    assert server.log == [("a", 2.0), ("c", 3.0), ("b", 1.0)]


async def test_a_later_frame_under_way_counts_too(server: FakeServer, world: World) -> None:
    room = world.environment("/")
    server.answering = False
    first = asyncio.create_task(room.set("a", 1.0), name="first")
    await reached(lambda: len(server.frames()) == 1)
    second = asyncio.create_task(room.set("a", 2.0), name="second")
    await reached(lambda: len(server.frames()) == 2)
    refused = session_pb2.FrameAnswer(seq=1, count=1, outcomes=[refusal()], without_revision=[0])
    server.streams[-1].send(answer=refused)
    with pytest.raises(ecumene.QueueFullError):
        await first
    server.streams[-1].send(answer=server.answers["tester", 2])
    assert (await second).version == 2


async def test_what_is_issued_meanwhile_in_the_environment_waits_behind_it(server: FakeServer, world: World) -> None:
    room = world.environment("/room")
    server.outcomes = [refusal(delay_ms=50)]
    first = asyncio.create_task(room.set("a", 1.0), name="first")
    await reached(lambda: world.statistics().outbox.ops_waiting == 1 and len(server.frames()) == 1)
    assert (await room.set("b", 2.0)).version == 1
    assert first.done()
    assert [[op.key for op in frame.ops] for frame in server.frames()] == [["a"], ["a", "b"]]


async def test_other_environments_do_not_wait(server: FakeServer, world: World) -> None:
    server.outcomes = [refusal(delay_ms=60_000)]
    first = asyncio.create_task(world.environment("/room").set("a", 1.0), name="first")
    await reached(lambda: len(server.frames()) == 1)
    assert (await world.environment("/other").set("c", 3.0)).version == 1
    assert not first.done()
    first.cancel()
    await world.session.close(0)


async def test_refusals_are_bounded(server: FakeServer) -> None:
    settings = ClientSettings(backoff_first_ms=1, backoff_ms_max=2, refusals_max=3)
    async with ecumene.connect(server.address, settings=settings) as world:
        server.outcomes = [refusal() for _ in range(9)]
        with pytest.raises(ecumene.QueueFullError):
            await world.environment("/").set("a", 1.0)
        assert len(server.frames()) == 4


async def test_the_callers_deadline_bounds_the_wait_and_the_refusal_is_what_it_gets(
    server: FakeServer, world: World
) -> None:
    server.outcomes = [refusal(delay_ms=10_000)]
    started = asyncio.get_running_loop().time()
    with pytest.raises(ecumene.QueueFullError) as caught:
        await world.environment("/", timeout_s=5).set("a", 1.0)
    assert asyncio.get_running_loop().time() - started < 2
    assert caught.value.executed is Executed.NO
    server.outcomes = [refusal(delay_ms=20)]
    await world.environment("/", timeout_s=5).set("a", 1.0)
    assert server.frames()[-1].deadline_ms < 5_000, "what is left of it"


async def test_closing_waits_for_them_too_and_ends_those_that_take_too_long(server: FakeServer) -> None:
    settings = ClientSettings(backoff_first_ms=1, backoff_ms_max=5, flush_timeout_s=0.3)
    world = await ecumene.connect(server.address, settings=settings)
    server.outcomes = [refusal(delay_ms=20), refusal(delay_ms=60_000)]
    writes = [asyncio.create_task(world.environment(path).set("a", 1.0), name=path) for path in ("/", "/x")]
    await reached(lambda: len(server.frames()) == 1)
    await world.close()
    assert writes[0].result().version == 1
    assert isinstance(writes[1].exception(), ecumene.ClosedError)


async def test_an_op_refused_in_a_frame_that_is_sent_again_is_executed_once(server: FakeServer, world: World) -> None:
    room = world.environment("/")
    server.answering = False
    both = asyncio.gather(room.set("a", 1.0), room.set("b", 2.0))
    await reached(lambda: len(server.frames()) == 1)
    # The first op waits at the server, the second is refused; then the connection breaks.
    server.log.clear()
    server.entries.clear()
    server.answers.clear()
    outcome = refusal()
    outcome.index = 1
    part = session_pb2.FrameAnswer(seq=1, count=2, pending=[0], outcomes=[outcome], without_revision=[1])
    server.streams[-1].send(answer=part)
    await reached(lambda: world.statistics().outbox.ops_waiting == 1)
    await asyncio.sleep(0.02)  # well beyond the advised time
    assert len(server.frames()) == 1, "its frame may be sent again, and it with it"
    server.answering = True
    server.cut()
    assert await both == [ecumene.Written(1, 1), ecumene.Written(2, 1)]
    assert server.log == [("a", 1.0), ("b", 2.0)]


async def test_an_op_refused_beside_one_that_waits_has_its_turn_when_that_is_done(
    server: FakeServer, world: World
) -> None:
    room = world.environment("/")
    server.answering = False
    both = asyncio.gather(room.set("a", 1.0), room.set("b", 2.0))
    await reached(lambda: len(server.frames()) == 1)
    server.log.pop()
    outcome = refusal()
    outcome.index = 1
    first = session_pb2.FrameAnswer(seq=1, count=2, pending=[0], outcomes=[outcome], without_revision=[1])
    last = session_pb2.FrameAnswer(seq=1, part=1, count=2)
    last.outcomes.add(index=0).written.revision = 1
    server.answering = True
    server.streams[-1].send(answer=first)
    server.streams[-1].send(answer=last)
    assert [done.revision for done in await both] == [1, 2]
    assert [[op.key for op in frame.ops] for frame in server.frames()] == [["a", "b"], ["b"]]


def make_op(path: str, key: str, kind: str = "set", deadline: float = math.inf) -> IssuedOp:
    op = session_pb2.Op(key=key)
    if kind == "transact":
        op.transact.SetInParent()
    elif kind == "invoke":
        op.invoke.SetInParent()
    else:
        op.set_int = 1
    return IssuedOp(path, op, {}, asyncio.get_running_loop().create_future(), deadline, (1, 0))


async def test_which_ops_bar_which() -> None:
    kinds: list[Any] = [("/a", "k", "set"), ("/a", "l", "set"), ("/a", "", "invoke"), ("/b", "k", "set")]
    kinds.append(("/", "", "transact"))
    bars = []
    for later in kinds:
        touched = Touched()
        touched.add(later[0], make_op(*later).op)
        bars.append([touched.bars(make_op(*refused)) for refused in kinds])
    assert bars == [
        [True, False, True, False, True],
        [False, True, True, False, True],
        [True, True, True, False, True],
        [False, False, False, True, True],
        [True, True, True, True, True],
    ]
    assert not Touched().bars(make_op("/", "", "transact"))


async def test_a_transaction_waits_behind_any_and_any_behind_a_transaction() -> None:
    def make(*waiting: IssuedOp) -> RefusedOps:
        refused = RefusedOps(lambda op: None, Backoff(1, 1, random.Random(0)), 1)
        for op in waiting:
            refused.hold(op)
        return refused

    key, transaction = make_op("/a", "k"), make_op("/", "", "transact")
    elsewhere = make_op("/b", "k")
    assert not make().must_wait(transaction.path, transaction.op)
    assert make(key).must_wait(transaction.path, transaction.op)
    assert not make(key).must_wait(elsewhere.path, elsewhere.op)
    assert make(key, transaction).must_wait(elsewhere.path, elsewhere.op)
    assert may_pass(QueueFullError(ErrorDetails(reason="QUEUE_FULL", executed=Executed.NO)))


async def test_random_refusals_keep_the_order_of_each_key(server: FakeServer, world: World, seed: int) -> None:
    chance = random.Random(seed)
    execute = server.execute_op

    def refuse_some(op: session_pb2.Op, answer: session_pb2.FrameAnswer) -> None:
        if chance.random() < 0.3:
            server.outcomes = [refusal(delay_ms=chance.choice([0, 1, 3]))]
        execute(op, answer)

    server.execute_op = refuse_some  # type: ignore[method-assign]
    room = world.environment("/")
    issued = []
    for number in range(200):
        issued.append(asyncio.create_task(room.set(f"k{chance.randrange(8)}", float(number)), name="set"))
        if chance.random() < 0.3:
            await asyncio.sleep(chance.choice([0, 0.001, 0.003]))
    done = await asyncio.gather(*issued, return_exceptions=True)
    took_effect = {value for _, value in server.log}
    assert len(took_effect) == len(server.log), "once"
    assert took_effect == {float(number) for number, what in enumerate(done) if isinstance(what, ecumene.Written)}
    assert {type(what) for what in done} <= {ecumene.Written, ecumene.QueueFullError}
    for key in server.entries:
        values = [value for name, value in server.log if name == key]
        assert values == sorted(values)
    assert len(server.log) > 80


class LateBackoff(Backoff):
    """What is due is past before anybody can look: a loop with other work."""

    def delay_s(self, attempts: int, advised_s: float = 0.0) -> float:
        """Before now."""
        return -1.0 if attempts else -2.0


async def test_what_is_due_when_the_loop_comes_to_it_is_issued_all_the_same() -> None:
    """It was forgotten for ever when its time passed between two looks at the clock."""
    issued: list[str] = []
    refused = RefusedOps(lambda op: issued.append(op.op.key), LateBackoff(1, 1, random.Random(0)), 5)
    error = QueueFullError(ErrorDetails(message="full", reason="QUEUE_FULL", executed=Executed.NO))
    future = asyncio.get_running_loop().create_future()
    ops = [
        IssuedOp("/", session_pb2.Op(key=key), {}, future, math.inf, (number, 0), refusals=number % 2)
        for number, key in enumerate("abc")
    ]
    refused.hold_refused([(op, error) for op in ops[:2]], is_final=True)
    assert refused.must_wait("/", ops[2].op)
    refused.hold(ops[2])
    await reached(lambda: len(issued) == 3)
    assert (issued, len(refused)) == (["a", "b", "c"], 0)


async def test_what_waited_behind_an_op_that_gives_up_is_issued() -> None:
    issued: list[str] = []
    refused = RefusedOps(lambda op: issued.append(op.op.key), Backoff(1, 1, random.Random(0)), 5)
    error = QueueFullError(ErrorDetails(message="full", reason="QUEUE_FULL", executed=Executed.NO))
    loop = asyncio.get_running_loop()
    first, last, behind = (
        IssuedOp("/", session_pb2.Op(key=key), {}, loop.create_future(), math.inf, (number, 0))
        for number, key in enumerate("abc")
    )
    refused.hold_refused([(first, error)], is_final=False)
    refused.hold(behind)
    refused.withdraw([first])
    last.refusals = 5
    refused.hold_refused([(last, error)], is_final=True)
    await reached(lambda: issued == ["c"])
    assert isinstance(last.future.exception(), QueueFullError)
