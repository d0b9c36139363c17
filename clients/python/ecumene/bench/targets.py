"""What is measured, started fresh: a server or the lean engine, each with a directory of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from ecumene.bench.processes import READY_TIMEOUT_S, make_directory, run_child
from ecumene.launch import Services
from ecumene.launch.process import START_TIMEOUT_S, ServiceProcess

LIMIT_MODULE = "ecumene.bench.limits.lean_server"


@asynccontextmanager
async def run_target(target: str, behaviours: Sequence[str] = ()) -> AsyncIterator[tuple[str, int]]:
    """`server`, with further behaviours, or `lean`: address and process id.

    Raises:
        BenchError, LaunchError: it did not start.
    """
    async with AsyncExitStack() as stack:
        directory = await stack.enter_async_context(make_directory())
        if target == "lean":
            lean = await stack.enter_async_context(run_child(LIMIT_MODULE, [str(directory)]))
            yield (await lean.read(READY_TIMEOUT_S))["address"], lean.pid
            return
        services = await stack.enter_async_context(Services())
        server = await start_server(services, directory / "data", behaviours)
        yield str(server.ready["address"]), server.pid


async def start_server(
    services: Services, data: Path, behaviours: Sequence[str] = (), start_timeout_s: float = START_TIMEOUT_S
) -> ServiceProcess:
    """A server over a directory, on a port of its own."""
    arguments = ["--data-dir", str(data), "--port", "0", "--log-level", "warning"]
    arguments += [f"--behaviour={behaviour}" for behaviour in behaviours]
    return await services.start("env-server", arguments, start_timeout_s=start_timeout_s)
