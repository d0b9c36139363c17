"""The registry of living streams."""

from env_server.model.errors import Reason, WorldError
from env_server.rpc.streams import Streams


class FakeStream:
    def __init__(self, client_id: str = "", world_name: str = "main") -> None:
        self.client_id = client_id
        self.world_name = world_name
        self.told: list[str] = []
        self.ended: list[WorldError] = []

    def go_away(self, reason: str, reconnect_after_ms: int) -> None:
        self.told.append(reason)

    def end(self, error: WorldError) -> None:
        self.ended.append(error)


async def test_a_newer_session_replaces_the_living_one_of_its_world() -> None:
    streams = Streams()
    old, other, new = FakeStream("c"), FakeStream("c", "world-2"), FakeStream("c")
    for stream in (old, other, new):
        streams.add(stream)
    assert [error.reason for error in old.ended] == [Reason.FENCED]
    assert other.ended == new.ended == []
    streams.discard(old)
    third = FakeStream("c")
    streams.add(third)
    assert [error.reason for error in new.ended] == [Reason.FENCED]


async def test_monitors_do_not_replace_each_other() -> None:
    streams = Streams()
    first, second = FakeStream(), FakeStream()
    streams.add(first)
    streams.add(second)
    assert first.ended == []
    assert len(streams) == 2


async def test_streams_of_a_deleted_world_end() -> None:
    streams = Streams()
    mine, other = FakeStream(world_name="gone"), FakeStream()
    streams.add(mine)
    streams.add(other)
    streams.end_world("gone")
    assert [error.reason for error in mine.ended] == [Reason.WORLD_NOT_FOUND]
    assert other.ended == []


async def test_a_drain_ends_those_that_stay() -> None:
    streams = Streams()
    await streams.drain("stopping", 10)  # nobody there: at once
    leaving, staying = FakeStream("a"), FakeStream("b")
    streams.add(leaving)
    streams.add(staying)
    leaving.go_away = lambda reason, reconnect_after_ms: streams.discard(leaving)  # type: ignore[method-assign]
    await streams.drain("stopping", 0.02)
    assert staying.told == ["stopping"]
    assert [error.reason for error in staying.ended] == [Reason.DRAINING]
    assert leaving.ended == []
