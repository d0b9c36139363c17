"""A server in the test's own process: everything over the wire, and nothing left afterwards."""

from __future__ import annotations

from importlib.metadata import entry_points

import ecumene
import pytest
from ecumene.client import ClientSettings

from env_server.behaviours.chat_room import ChatRoom
from env_server.testing.in_process import serve_in_process


async def test_programs_talk_to_it_as_to_any_server() -> None:
    async with serve_in_process(ChatRoom) as address, ecumene.connect(address) as world:
        assert [kind.kind for kind in await world.kinds()] == ["basic", "chat_room"]
        room = world.environment("/room")
        await room.register(kind="chat_room")
        await room.invoke("join", member="ada")
        await room.invoke("speak", member="ada", text="hello")
        heard = await room.invoke("history", member="ada")
        assert [one["text"] for one in heard] == ["hello"]


async def test_it_is_found_by_its_entry_point_and_serves_what_is_installed() -> None:
    (point,) = entry_points(group="ecumene.testing", name="serve_in_process")
    async with point.load()() as address, ecumene.connect(address) as world:
        assert {"auction", "chat_room", "guess_game", "market"} <= {kind.kind for kind in await world.kinds()}


async def test_each_has_a_world_of_its_own() -> None:
    async with (
        serve_in_process() as first,
        serve_in_process() as second,
        ecumene.connect(first) as one,
        ecumene.connect(second) as other,
    ):
        await one.environment("/").set("k", 1)
        assert one.history != other.history
        with pytest.raises(ecumene.NotFoundError):
            await other.environment("/").get("k")


async def test_an_error_in_its_context_passes_and_ends_it() -> None:
    with pytest.raises(RuntimeError, match="mine"):
        async with serve_in_process() as address:
            raise RuntimeError("mine")
    settings = ClientSettings(reconnect_timeout_s=0.5, attempt_timeout_s=0.5)
    with pytest.raises(ecumene.EcumeneError):
        async with ecumene.connect(address, settings=settings, timeout_s=1) as world:
            await world.environment("/").set("k", 1)
