"""The server process: settings, worlds, gRPC; start, drain, stop.

Prints one JSON line when it is ready. Exit codes: 0 stopped as asked, 1 could not start, 2 bad usage, 74 the storage
failed (nothing was answered that is not on the disk; start again, which verifies it).
"""

import asyncio
import errno
import gc
import json
import logging
import os
import signal
import socket
import sys
import uuid
from typing import NoReturn

import grpc
from pydantic import ValidationError
from pydantic_settings import CliApp, SettingsError

from env_server.behaviours import registry
from env_server.model.limits import MIB, Limits
from env_server.rpc import service
from env_server.rpc.options import SERVER_OPTIONS
from env_server.settings import ServerSettings
from env_server.storage.errors import StorageError
from env_server.worlds import Worlds

log = logging.getLogger(__name__)

EXIT_FAILED = 1
EXIT_USAGE = 2
QUIET_S = 0.1
QUIET_WAIT_S_MAX = 1.0
EXIT_STORAGE = 74  # EX_IOERR
AHEAD_MS_MAX = 50


class StartError(Exception):
    """The server cannot start; the message says why, in one line."""


def main(argv: list[str] | None = None) -> int:
    """Runs a server until SIGTERM or SIGINT. Returns the exit code."""
    try:
        settings = CliApp.run(ServerSettings, cli_args=sys.argv[1:] if argv is None else argv)
    except (ValidationError, SettingsError) as error:
        sys.stderr.write(f"error: {_first_problem(error)}\n")
        return EXIT_USAGE
    if settings.print_config:
        sys.stdout.write(settings.model_dump_json(indent=2) + "\n")
        return 0
    if settings.print_kinds:
        return _print_kinds(settings)
    logging.basicConfig(
        level=settings.log_level.upper(), stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    try:
        with asyncio.Runner(loop_factory=_loop_factory(settings)) as runner:
            runner.run(serve(settings))
    except (StartError, StorageError, registry.BehaviourError) as error:
        sys.stderr.write(f"error: {error}\n")
        return EXIT_FAILED
    return 0


def _print_kinds(settings: ServerSettings) -> int:
    """Writes kind -> operation -> whether it only reads. Returns the exit code."""
    try:
        kinds = registry.load(settings.behaviour).describe()
    except registry.BehaviourError as error:
        sys.stderr.write(f"error: {error}\n")
        return EXIT_FAILED
    offered = {kind.kind: {one.name: {"reads_only": one.reads_only} for one in kind.operations} for kind in kinds}
    sys.stdout.write(json.dumps(offered, indent=2) + "\n")
    return 0


async def serve(settings: ServerSettings) -> None:
    """Starts, serves until told to stop, drains and stops.

    Raises:
        StartError, StorageError, BehaviourError: before anything was served.
    """
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    worlds = Worlds(
        settings.data_dir, _limits(settings), registry.load(settings.behaviour), _die, lambda: uuid.uuid4().hex
    )
    gc.disable()  # a large world would be looked through again and again while it is loaded
    try:
        await worlds.start()
    except OSError as error:
        raise StartError(f"the data directory {settings.data_dir} cannot be used: {error.strerror}") from error
    server = grpc.aio.server(options=SERVER_OPTIONS)
    services = service.build(server, worlds)
    port = _bind(server, settings)
    await services.begin()
    await server.start()
    _spare_the_collector()
    _tell_ready(settings.host, port)
    await stop.wait()
    log.info("stopping")
    worlds.draining = True
    await services.drain("the server is about to stop", settings.drain_s)
    await _wait_for_quiet(worlds)
    await server.stop(settings.drain_s)
    await worlds.stop()
    log.info("stopped")


async def _wait_for_quiet(worlds: Worlds) -> None:
    """Returns in a moment in which nobody calls, or after QUIET_WAIT_S_MAX.

    What arrives while gRPC stops is cancelled by it without a reason; what arrives here is told DRAINING and when to
    come again, so whoever heeds that is not there any more when it stops.
    """
    for _ in range(round(QUIET_WAIT_S_MAX / QUIET_S)):
        refused = worlds.refused
        await asyncio.sleep(QUIET_S)
        if worlds.refused == refused:
            return


def _bind(server: grpc.aio.Server, settings: ServerSettings) -> int:
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    why = "another program listens there; stop it or give another --port"
    try:
        _try_address(settings.host, settings.port)
        if port := server.add_insecure_port(f"{host}:{settings.port}"):
            return port
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            why = str(error.strerror or error)
    except RuntimeError:
        pass  # somebody took the port since the trial
    raise StartError(f"cannot listen on {host}:{settings.port}: {why}")


def _try_address(host: str, port: int) -> None:
    """Binds and lets go: grpc would say on many lines, and not to the caller, what is wrong. Raises OSError."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, kind, protocol) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        trial.bind(address)


def _tell_ready(host: str, port: int) -> None:
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    sys.stdout.write(json.dumps({"ready": True, "address": address, "pid": os.getpid()}) + "\n")
    sys.stdout.flush()


def _spare_the_collector() -> None:
    """Entries live in millions and form no cycles: look at new objects twice, at the old ones never."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 1_000_000_000)
    gc.enable()


def _limits(settings: ServerSettings) -> Limits:
    return Limits(
        concurrency_max=settings.concurrency_max,
        queue_ops_max=settings.queue_ops_max,
        heartbeat_ms=settings.heartbeat_ms,
        ahead_ms_max=AHEAD_MS_MAX if settings.durability == "relaxed" else 0,
        map_bytes=settings.map_mib * MIB,
        log_bytes_max=min(settings.log_mib, settings.map_mib // 2) * MIB,
        log_age_s=settings.log_age_s,
        streams_max=settings.streams_max,
    )


def _die(error: BaseException) -> NoReturn:
    """A commit failed. LMDB may let later ones succeed although this one is gone, so nothing may go on."""
    log.critical("the storage failed, nothing further was answered: %s", error)
    logging.shutdown()
    os._exit(EXIT_STORAGE)


def _loop_factory(settings: ServerSettings) -> "type[asyncio.AbstractEventLoop] | None":
    if settings.loop == "asyncio":
        return None
    import uvloop  # not on every platform, and only wanted here

    return uvloop.new_event_loop  # type: ignore[return-value]


def _first_problem(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        return f"{'--' + where.replace('_', '-') + ': ' if where else ''}{first['msg'].removeprefix('Value error, ')}"
    return str(error)


if __name__ == "__main__":
    sys.exit(main())
