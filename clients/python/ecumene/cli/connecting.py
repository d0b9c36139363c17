"""From a command to a world or a server: the options that say where, and one event loop a command."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

import typer

from ecumene.cli.failures import CliError, UsageError
from ecumene.client.addresses import DEFAULT_SERVER, SERVER_VARIABLE, has_port
from ecumene.client.errors import ConnectionFailedError, EcumeneError
from ecumene.client.reasons import WorldNotFoundError
from ecumene.client.space_reasons import SpaceNotFoundError
from ecumene.client.timeline_reasons import ClockNotFoundError, ClockPausedError
from ecumene.client.world import World, connect
from ecumene.client.worlds import Worlds

CONNECT_TIMEOUT_S = 5.0
NO_SERVER_HINT = "is a server running there? start one: ecumene serve"

ServerOption = Annotated[
    str, typer.Option("--server", envvar=SERVER_VARIABLE, help="Host and port of the server.", metavar="ADDRESS")
]
WorldOption = Annotated[str, typer.Option("--world", help="Name of the world.", metavar="NAME")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]

Answer = TypeVar("Answer")

_HINTS: dict[type[EcumeneError], str] = {
    WorldNotFoundError: "which there are: ecumene world list",
    ClockNotFoundError: "give it one: ecumene env set PATH --clock manual",
    ClockPausedError: "let it go on with ecumene clock resume PATH, or do one step",
    SpaceNotFoundError: "a program gives it one: environment.change(space=Grid(10, 10))",
}
"""What is to be done about errors that say only what is missing."""


def check_address(address: str) -> str:
    """The address, if it names host and port: gRPC would take a silent 443 for a missing one. Raises UsageError."""
    if not has_port(address):
        example = f"{address}:7170" if address and ":" not in address else DEFAULT_SERVER
        raise UsageError(f"{address!r} is no address of a server", hint=f"write host and port, such as {example}")
    return address


def run_in_world(server: str, world: str, use: Callable[[World], Awaitable[Answer]]) -> Answer:
    """Open a world, use it, close it.

    Raises CliError if there is no server; what the SDK raises otherwise.
    """
    check_address(server)

    async def connected() -> Answer:
        async with connect(server, world, timeout_s=CONNECT_TIMEOUT_S) as opened:
            return await use(opened)

    return _run(connected)


def run_with_server(server: str, use: Callable[[Worlds], Awaitable[Answer]]) -> Answer:
    """Ask a server about its worlds.

    Raises CliError if there is no server; what the SDK raises otherwise.
    """
    check_address(server)

    async def connected() -> Answer:
        async with Worlds(server, timeout_s=CONNECT_TIMEOUT_S) as worlds:
            return await use(worlds)

    return _run(connected)


def _run(connected: Callable[[], Awaitable[Answer]]) -> Answer:
    async def main() -> Answer:
        return await connected()

    try:
        return asyncio.run(main())
    except ConnectionFailedError as error:
        raise CliError(str(error), hint=NO_SERVER_HINT) from error
    except tuple(_HINTS) as error:
        raise CliError(str(error), hint=_HINTS[type(error)]) from error
