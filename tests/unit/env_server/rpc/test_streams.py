"""The registry of living streams."""

from __future__ import annotations

import random
from contextlib import ExitStack
from types import SimpleNamespace

import pytest

from env_server.model.errors import Exhausted, Reason, WorldError
from env_server.model.limits import Limits
from env_server.rpc.streams import Streams

WORLDS = {
    name: SimpleNamespace(name=name, limits=Limits(streams_max=5), users=0) for name in ("main", "world-2", "gone")
}


class FakeStream:
    def __init__(self, client_id: str = "", world_name: str = "main") -> None:
        self.client_id = client_id
        self.world = WORLDS[world_name]
        self.told: list[str] = []
        self.ended: list[WorldError] = []

    def go_away(self, reason: str, reconnect_after_ms: int) -> None:
        self.told.append(reason)

    def end(self, error: WorldError) -> None:
        self.ended.append(error)


async def test_a_newer_session_replaces_the_living_one_of_its_world() -> None:
    streams = Streams(Limits())
    old, other, new, third = FakeStream("c"), FakeStream("c", "world-2"), FakeStream("c"), FakeStream("c")
    with streams.living(other):
        with streams.living(old), streams.living(new):
            assert [error.reason for error in old.ended] == [Reason.FENCED]
            assert other.ended == new.ended == []
            life = ExitStack()
            life.enter_context(streams.living(third))
            assert [error.reason for error in new.ended] == [Reason.FENCED]
        with streams.living(FakeStream("c")):
            assert [error.reason for error in third.ended] == [Reason.FENCED], "those before took nothing away"
        life.close()
    assert len(streams) == 0


async def test_monitors_do_not_replace_each_other() -> None:
    streams = Streams(Limits())
    first, second = FakeStream(), FakeStream()
    with streams.living(first), streams.living(second):
        assert first.ended == []
        assert len(streams) == 2


async def test_streams_of_a_deleted_world_end() -> None:
    streams = Streams(Limits())
    mine, other = FakeStream(world_name="gone"), FakeStream()
    with streams.living(mine), streams.living(other):
        streams.end_world("gone")
        assert [error.reason for error in mine.ended] == [Reason.WORLD_NOT_FOUND]
        assert other.ended == []


async def test_a_drain_ends_those_that_stay() -> None:
    streams = Streams(Limits())
    await streams.drain("stopping", 10)  # nobody there: at once
    leaving, staying = FakeStream("a"), FakeStream("b")
    life = ExitStack()
    life.enter_context(streams.living(leaving))
    leaving.go_away = lambda reason, reconnect_after_ms: life.close()  # type: ignore[method-assign]
    with streams.living(staying):
        await streams.drain("stopping", 0.02)
    assert staying.told == ["stopping"]
    assert [error.reason for error in staying.ended] == [Reason.DRAINING]
    assert leaving.ended == []


def test_streams_are_bounded_for_each_world_and_one_that_replaces_another_always_fits() -> None:
    streams = Streams(Limits())
    with ExitStack() as lives:
        for number in range(5):
            lives.enter_context(streams.living(FakeStream(f"c{number}")))
        with pytest.raises(Exhausted) as refused, streams.living(FakeStream()):
            pass
        assert refused.value.reason is Reason.STREAM_QUOTA
        assert refused.value.metadata == {"limit": "streams_max", "max": "5"}
        assert refused.value.retry_delay_ms > 0
        lives.enter_context(streams.living(FakeStream("c3")))
        lives.enter_context(streams.living(FakeStream("other", "world-2")))
    with streams.living(FakeStream()):
        assert WORLDS["main"].users == 1
    assert [world.users for world in WORLDS.values()] == [0, 0, 0]


@pytest.mark.parametrize("seed", range(5))
def test_no_place_is_lost_however_calls_and_streams_end(seed: int) -> None:
    print("seed", seed)
    chance = random.Random(seed)
    streams, lives = Streams(Limits(server_streams_max=7)), []
    refusals = 0
    for _ in range(1000):
        if lives and chance.random() < 0.5:
            life, _ = lives.pop(chance.randrange(len(lives)))
            error = chance.choice([None, ValueError("cut"), GeneratorExit()])
            life.__exit__(type(error) if error else None, error, None)
            continue
        name = chance.choice(list(WORLDS))
        fits = len(lives) < 7 and sum(one == name for _, one in lives) < 5
        life = ExitStack()
        try:
            life.enter_context(streams.call())
            life.enter_context(streams.living(FakeStream(world_name=name)))
        except Exhausted:
            life.close()
            assert not fits
            refusals += 1
        else:
            assert fits
            lives.append((life, name))
    assert refusals > 20
    for life, _ in lives:
        life.close()
    assert (len(streams), [world.users for world in WORLDS.values()]) == (0, [0, 0, 0])
