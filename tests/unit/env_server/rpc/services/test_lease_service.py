"""LeaseService, keep-alives of sessions, and members in blocks, over a real connection on a real world in memory."""

from __future__ import annotations

import uuid
from typing import Any

import grpc
import pytest
from env_api.v1 import environment_service_pb2 as service
from env_api.v1 import errors_pb2, events_pb2, operations_pb2, session_pb2, values_pb2
from env_api.v1 import lease_service_pb2 as pb

from env_server.model.limits import Limits
from tests.raw_client import Failure, RawSession, call, decode_call_error
from tests.unit.env_server.rpc.fakes import Served, wait_until
from tests.unit.env_server.rpc.real_worlds import serve_world

SERVICE = "/env_api.v1.LeaseService/"
MEMBER = values_pb2.ENTRY_KIND_MEMBER


async def ask(served: Served, name: str, **fields: Any) -> Any:
    """A call; the response, or how it failed."""
    request = getattr(pb, f"{name}Request")(**fields)
    method = served.channel.unary_unary(
        SERVICE + name, type(request).SerializeToString, getattr(pb, f"{name}Response").FromString
    )
    try:
        return await method(request, timeout=10)
    except grpc.aio.AioRpcError as error:
        return decode_call_error(error)


async def granted(served: Served, ttl_ms: int = 60_000) -> int:
    return int((await ask(served, "GrantLease", ttl_ms=ttl_ms)).lease_id)


async def keep(session: RawSession, *leases: int) -> session_pb2.LeasesKept:
    message = session_pb2.SessionRequest(keep_alive=session_pb2.LeaseKeepAlive(lease_ids=leases))
    await session.write(message.SerializeToString())
    return (await session.read()).leases_kept


async def test_a_lease_from_its_grant_to_its_end() -> None:
    async with serve_world() as served:
        response = await ask(served, "GrantLease", ttl_ms=5000, holder="worker-1")
        lease = response.lease_id
        assert (response.header.world, response.header.revision >= lease, response.duplicate) == ("main", True, False)
        register = operations_pb2.Register(entry_kind=MEMBER, lease_id=lease)
        assert (await call(served.channel, "register", path="/", key="ann", register=register)).written.changed
        listed = (await ask(served, "ListLeases")).leases
        assert [(one.lease_id, one.ttl_ms, one.holder, one.entry_count) for one in listed] == [
            (lease, 5000, "worker-1", 1)
        ]
        assert 0 < listed[0].remaining_ms <= 5000
        response = await ask(served, "KeepLeasesAlive", lease_ids=[lease, 77])
        assert (list(response.lease_ids), list(response.ended)) == ([lease], [77])
        response = await ask(served, "RevokeLease", lease_id=lease)
        assert not response.duplicate
        assert list((await ask(served, "ListLeases")).leases) == []
        response = await ask(served, "KeepLeasesAlive", lease_ids=[lease])
        assert (list(response.lease_ids), list(response.ended)) == ([], [lease])
        await wait_until(lambda: not served.world._tree.nodes.root.entries)  # type: ignore[attr-defined]


async def test_leases_are_listed_in_pages_while_they_come_and_go() -> None:
    async with serve_world() as served:
        leases = [await granted(served) for _ in range(25)]
        listed: list[int] = []
        token, sizes = "", []
        while True:
            page = await ask(served, "ListLeases", page_size=10, page_token=token)
            listed += [one.lease_id for one in page.leases]
            sizes.append(len(page.leases))
            token = page.next_page_token
            if not token:
                break
            await ask(served, "RevokeLease", lease_id=listed[-1])  # that which the token stands on
            if len(sizes) == 1:
                await ask(served, "RevokeLease", lease_id=leases[12])
                leases.append(await granted(served))
        assert listed == [*leases[:12], *leases[13:]]
        assert sizes == [10, 10, 5]
        assert len((await ask(served, "ListLeases", page_size=25)).leases) == 23


async def test_a_list_of_leases_never_fails_for_its_size() -> None:
    limits = Limits(page_bytes_max=2000, message_bytes_max=2600)
    async with serve_world(limits) as served:
        grants = [await ask(served, "GrantLease", ttl_ms=60_000, holder="h" * 64) for _ in range(100)]
        leases = [granted.lease_id for granted in grants]
        listed: list[int] = []
        token, pages = "", 0
        while pages == 0 or token:
            page = await ask(served, "ListLeases", page_token=token)
            assert page.ByteSize() <= limits.message_bytes_max
            listed += [one.lease_id for one in page.leases]
            token, pages = page.next_page_token, pages + 1
        assert listed == leases
        assert pages > 2


async def test_repetitions_are_recognised_by_producer_and_by_request_id() -> None:
    async with serve_world() as served:
        for caller in (
            service.Caller(producer="p", producer_seq=1),
            service.Caller(request_id=str(uuid.UUID(int=5))),
        ):
            first = await ask(served, "GrantLease", ttl_ms=5000, caller=caller)
            again = await ask(served, "GrantLease", ttl_ms=5000, caller=caller)
            assert (first.lease_id, first.duplicate, again.lease_id, again.duplicate) == (
                *(first.lease_id, False, first.lease_id, True),
            )
        other = await ask(served, "GrantLease", ttl_ms=6000, caller=service.Caller(request_id=str(uuid.UUID(int=5))))
        assert isinstance(other, Failure)
        assert other.reason == "REQUEST_ID_REUSED"
        lease = first.lease_id
        caller = service.Caller(producer="p", producer_seq=2)
        assert not (await ask(served, "RevokeLease", lease_id=lease, caller=caller)).duplicate
        assert (await ask(served, "RevokeLease", lease_id=lease, caller=caller)).duplicate
        assert len((await ask(served, "ListLeases")).leases) == 1


@pytest.mark.parametrize(
    ("name", "fields", "code", "reason"),
    [
        ("GrantLease", {"ttl_ms": 999}, grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"),
        ("GrantLease", {"ttl_ms": 86_400_001}, grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"),
        ("GrantLease", {}, grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"),
        ("GrantLease", {"ttl_ms": 1000, "holder": "x" * 65}, grpc.StatusCode.INVALID_ARGUMENT, "LIMIT_EXCEEDED"),
        ("GrantLease", {"ttl_ms": 1000, "world": "none"}, grpc.StatusCode.NOT_FOUND, "WORLD_NOT_FOUND"),
        ("RevokeLease", {"lease_id": 12345}, grpc.StatusCode.NOT_FOUND, "LEASE_NOT_FOUND"),
        ("RevokeLease", {}, grpc.StatusCode.NOT_FOUND, "LEASE_NOT_FOUND"),
        ("KeepLeasesAlive", {"lease_ids": [1] * 4}, grpc.StatusCode.INVALID_ARGUMENT, "LIMIT_EXCEEDED"),
        ("ListLeases", {"world": "none"}, grpc.StatusCode.NOT_FOUND, "WORLD_NOT_FOUND"),
        ("ListLeases", {"page_size": -1}, grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"),
        ("ListLeases", {"page_size": 10_001}, grpc.StatusCode.INVALID_ARGUMENT, "LIMIT_EXCEEDED"),
        ("ListLeases", {"page_token": "x"}, grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"),
        ("ListLeases", {"page_token": "9" * 21}, grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD"),
    ],
)
async def test_what_is_wrong_is_said(name: str, fields: dict[str, Any], code: grpc.StatusCode, reason: str) -> None:
    async with serve_world(Limits(leases_max=3)) as served:
        failed = await ask(served, name, **fields)
        assert isinstance(failed, Failure), failed
        assert (failed.code, failed.reason) == (code.value[0], reason)


async def test_too_many_leases_and_an_ended_one() -> None:
    async with serve_world(Limits(leases_max=1)) as served:
        lease = await granted(served)
        failed = await ask(served, "GrantLease", ttl_ms=1000)
        assert (failed.code, failed.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED.value[0], "LEASE_QUOTA")
        assert failed.retry_delay_ms > 0
        await ask(served, "RevokeLease", lease_id=lease)
        failed = await ask(served, "RevokeLease", lease_id=lease)
        assert (failed.code, failed.reason) == (grpc.StatusCode.FAILED_PRECONDITION.value[0], "LEASE_EXPIRED")
        register = operations_pb2.Register(lease_id=lease)
        failed = await call(served.channel, "register", path="/", key="k", register=register)
        assert (failed.code, failed.reason) == (grpc.StatusCode.FAILED_PRECONDITION.value[0], "LEASE_EXPIRED")


async def test_a_session_keeps_its_leases_alive_and_hears_of_ended_ones() -> None:
    async with serve_world() as served:
        lease, other = await granted(served), await granted(served)
        session = await RawSession(served.channel, "c1").open()
        kept = await keep(session, lease, other, 99)
        assert (list(kept.lease_ids), list(kept.ended)) == ([lease, other], [99])
        await ask(served, "RevokeLease", lease_id=lease)
        kept = await keep(session, lease, other)
        assert (list(kept.lease_ids), list(kept.ended)) == ([other], [lease])
        kept = await keep(session)
        assert (list(kept.lease_ids), list(kept.ended)) == ([], [])
        session.cancel()


async def test_too_many_ids_are_an_error_in_band() -> None:
    async with serve_world(Limits(leases_max=2)) as served:
        session = await RawSession(served.channel, "c1").open()
        message = session_pb2.SessionRequest(keep_alive=session_pb2.LeaseKeepAlive(lease_ids=[1, 2, 3]))
        await session.write(message.SerializeToString())
        response = await session.read()
        assert response.WhichOneof("response") == "error"
        assert response.error.metadata["limit"] == "leases_max"
        assert list((await keep(session, 1)).ended) == [1], "the stream goes on"
        session.cancel()


async def test_members_join_in_blocks_and_are_left_as_they_are_when_they_come_again() -> None:
    async with serve_world() as served:
        lease, other = await granted(served), await granted(served)
        session = await RawSession(served.channel, "c1").open()

        async def join(lease_id: int, keys: list[str], **values: Any) -> session_pb2.FrameAnswer:
            block = session_pb2.SetBlock(keys=keys, join_lease_id=lease_id, **values)
            (part,) = await session.send(session_pb2.OpFrame(paths=["/"], block=block))
            return part

        keys = [f"m{number}" for number in range(4000)]
        answer = await join(lease, keys, ints=[0] * 4000)
        assert (answer.count, len(answer.outcomes), len(answer.without_revision)) == (4000, 0, 0)
        answer = await join(lease, ["new", *keys[:9]], strings=[f"s{n}" for n in range(10)])
        assert (list(answer.without_revision), {one.written.changed for one in answer.outcomes}) == (
            *(list(range(1, 10)), {False}),
        )
        answer = await join(other, keys[:2], json=[b"{}", b"[1]"])
        assert [one.error.reason for one in answer.outcomes] == [
            errors_of("ENTRY_EXISTS"),
            errors_of("ENTRY_EXISTS"),
        ]
        answer = await join(other, ["x", "bad", "-0"], doubles=[1.0, float("nan"), -0.0])
        assert [(one.index, one.error.reason) for one in answer.outcomes] == [(1, errors_of("INVALID_VALUE"))]
        found = await call(served.channel, "query", path="/", key="m7", query={"get": {}})
        entry = found.result.entry
        assert (entry.kind, entry.lease_id, entry.value.int_value, entry.version) == (MEMBER, lease, 0, 1)
        found = await call(served.channel, "query", path="/", key="new", query={"get": {}})
        assert found.result.entry.value.string_value == "s0"
        counts = {one.lease_id: one.entry_count for one in (await ask(served, "ListLeases")).leases}
        assert counts == {lease: 4001, other: 2}
        session.cancel()


def errors_of(reason: str) -> int:
    return int(errors_pb2.ErrorReason.Value(f"ERROR_REASON_{reason}"))


@pytest.mark.parametrize(
    "block",
    [
        {"keys": ["a"], "ints": [1], "add": True, "join_lease_id": 5},
        {"keys": ["a"], "join_lease_id": 5},
        {"keys": ["a", "b"], "ints": [1], "join_lease_id": 5},
    ],
)
async def test_a_block_that_makes_no_sense_is_refused(block: dict[str, Any]) -> None:
    async with serve_world() as served:
        session = await RawSession(served.channel, "c1").open()
        frame = session_pb2.OpFrame(paths=["/"], block=session_pb2.SetBlock(**block))
        (answer,) = await session.send(frame)
        assert answer.outcomes[0].index == answer.count
        assert answer.outcomes[0].error.reason == errors_of("INVALID_FIELD")
        session.cancel()


async def test_members_are_watched_from_their_initial_state_to_their_end() -> None:
    async with serve_world() as served:
        lease = await granted(served)
        session = await RawSession(served.channel, "c1").open()
        block = session_pb2.SetBlock(keys=["a", "b"], ints=[1, 2], join_lease_id=lease)
        await session.send(session_pb2.OpFrame(paths=["/"], block=block))
        types = [
            events_pb2.EVENT_TYPE_MEMBER_JOINED,
            events_pb2.EVENT_TYPE_MEMBER_LEFT,
            events_pb2.EVENT_TYPE_MEMBER_EXPIRED,
            events_pb2.EVENT_TYPE_LEASE_ENDED,
            events_pb2.EVENT_TYPE_LISTENER_FAILED,
            events_pb2.EVENT_TYPE_SUBSCRIPTION_CHANGED,
        ]
        watch = session_pb2.WatchStart(watch_id=1, initial_state=True, filter=events_pb2.EventFilter(types=types))
        await session.write(session_pb2.SessionRequest(watch=watch).SerializeToString())
        seen: list[tuple[int, str, str]] = []

        async def read_until(count: int) -> None:
            while len(seen) < count:
                response = await session.read()
                assert response.WhichOneof("response") in ("events", "answer"), response
                frame = response.events
                for row in range(frame.count):
                    kinds, causes = frame.types, frame.causes
                    kind = kinds[row] if len(kinds) > 1 else kinds[0]
                    cause = (causes[row] if len(causes) > 1 else causes[0]) if causes else ""
                    seen.append((kind, frame.keys[row] if len(frame.keys) > 1 else frame.keys[0], cause))

        await read_until(2)
        assert seen == [(events_pb2.EVENT_TYPE_INITIAL, "a", ""), (events_pb2.EVENT_TYPE_INITIAL, "b", "")]
        assert (await call(served.channel, "delete", path="/", key="a", delete={})).written.changed
        await ask(served, "RevokeLease", lease_id=lease)
        await read_until(5)
        assert seen[2:] == [
            (events_pb2.EVENT_TYPE_MEMBER_LEFT, "a", ""),
            (events_pb2.EVENT_TYPE_LEASE_ENDED, str(lease), ""),
            (events_pb2.EVENT_TYPE_MEMBER_EXPIRED, "b", f"lease/{lease}"),
        ]
        session.cancel()


async def test_a_gate_over_members_is_told_as_it_was_declared() -> None:
    async with serve_world() as served:
        await call(served.channel, "register", path="/m", register={})
        gate = values_pb2.Gate(name="g", all_live_members=True, members_path="/m")
        await call(served.channel, "register", path="/g", register={"gates": [gate]})
        found = await call(served.channel, "query", path="/g", query={"get": {}})
        assert found.result.environment.gates[0].gate == gate
        for wrong in ("/absent", "/h"):
            gate = values_pb2.Gate(name="g", all_live_members=True, members_path=wrong)
            failed = await call(served.channel, "register", path="/h", register={"gates": [gate]})
            assert (failed.reason, failed.fields) == ("INVALID_FIELD", ["gates.members_path"])
