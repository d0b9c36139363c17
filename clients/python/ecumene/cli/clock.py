"""`ecumene clock` and `ecumene timers`: look at simulated time, and let it go on."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Annotated, Any

import typer

from ecumene.cli.arguments import parse_value
from ecumene.cli.connecting import DEFAULT_SERVER, JsonOption, ServerOption, WorldOption, run_in_world
from ecumene.cli.durations import parse_time_ahead, show_moment
from ecumene.cli.env_output import show_mode, show_written
from ecumene.cli.failures import CliError, Interrupted, UsageError
from ecumene.cli.tables import print_json, print_table, show_cell, to_document
from ecumene.client.clocks import ClockState, MissedTicks, TimerInfo
from ecumene.client.durations import show_duration
from ecumene.client.reasons import EnvironmentNotFoundError
from ecumene.client.timeline import EnvironmentClock
from ecumene.client.timeline_reasons import TimePassedError
from ecumene.client.world import World
from ecumene.launch.clock_places import find_unhosted, release_clock

app = typer.Typer(no_args_is_help=True)

PathArgument = Annotated[str, typer.Argument(help="Path of the environment, such as /town.", metavar="PATH")]
DurationArgument = Annotated[str, typer.Argument(help="Such as 1h30m, 2d, 500ms.", metavar="DURATION")]
NameArgument = Annotated[str, typer.Argument(help="Name of the timer.", metavar="NAME")]
TargetOption = Annotated[str, typer.Option(help="Time since 0, such as 2d; not how long.", metavar="TIME")]
DueOption = Annotated[str, typer.Option(help="Such as 1h30m, 2d, 500ms.", metavar="DURATION")]


class Missed(StrEnum):
    """Names of the policies on the command line."""

    COALESCE = "coalesce"
    SKIP = "skip"
    CATCH_UP = "catch-up"


MISSED: dict[Missed, MissedTicks] = {Missed.COALESCE: "coalesce", Missed.SKIP: "skip", Missed.CATCH_UP: "catch_up"}


@app.command()
def show(
    path: PathArgument,
    server: ServerOption = DEFAULT_SERVER,
    world: WorldOption = "main",
    as_json: JsonOption = False,
) -> None:
    """Show how the clock of an environment stands, or that of the nearest one above."""

    async def look(opened: World) -> tuple[ClockState, list[tuple[str, str]]]:
        state = await opened.environment(path).clock().state()
        names = [why.split(": ")[0] for why in state.held_by]
        found = [await find_unhosted(opened, name) for name in names]
        return state, [one for one in found if one is not None]

    state, unhosted = run_in_world(server, world, look)
    if as_json:
        print_json(to_document(state))
        return
    print_table(("clock", state.path), describe_clock(state))
    for run in dict.fromkeys(run for run, _ in unhosted):
        parts = ", ".join(part for name, part in unhosted if name == run)
        where = f" --server {server}" * (server != DEFAULT_SERVER) + f" --world {world}" * (world != "main")
        print(f"it waits for {parts} of run {run}, which nobody hosts: go on with it, or let the clock go:")
        print(f"    ecumene runtime --server {server} --world {world} --name NAME    # if it was launched on nodes")
        print(f"    ecumene clock release {state.path} {run}{where}")


@app.command()
def release(
    path: PathArgument,
    run: Annotated[str, typer.Argument(help="A run that is not to be gone on with.", metavar="RUN")],
    server: ServerOption = DEFAULT_SERVER,
    world: WorldOption = "main",
    as_json: JsonOption = False,
) -> None:
    """Let a clock go on without the parts of a run that nobody hosts: no place of theirs, no timer."""
    try:
        parts = run_in_world(server, world, lambda opened: release_clock(opened, path, run))
    except EnvironmentNotFoundError as error:
        raise CliError(f"there is no run {run} in world {world}, or no {path}") from error
    if as_json:
        print_json({"released": parts})
    elif parts:
        print(f"the clock of {path} waits no more for {', '.join(parts)} of run {run}")
    else:
        print(f"the clock of {path} waits for no part of run {run} that nobody hosts")


@app.command()
def advance(
    path: PathArgument,
    duration: DurationArgument = "",
    to: TargetOption = "",
    server: ServerOption = DEFAULT_SERVER,
    world: WorldOption = "main",
    as_json: JsonOption = False,
) -> None:
    """Let a manual clock go on, for a while or up to a time, firing what is due on the way."""
    if bool(duration) == bool(to):
        raise UsageError("how far is it to go?", hint="give a duration, or a time with --to")
    by_ns, to_ns = (parse_time_ahead(text) if text else None for text in (duration, to))
    go(server, world, path, as_json, lambda clock: clock.advance(by_ns=by_ns, to_ns=to_ns))


@app.command()
def step(
    path: PathArgument,
    server: ServerOption = DEFAULT_SERVER,
    world: WorldOption = "main",
    as_json: JsonOption = False,
) -> None:
    """Go on to the next timer that is due, and fire what is due then."""
    go(server, world, path, as_json, EnvironmentClock.step)


@app.command()
def skip(
    path: PathArgument,
    to: Annotated[str, typer.Argument(help="Time since 0, such as 2d; not how long.", metavar="TIME")],
    server: ServerOption = DEFAULT_SERVER,
    world: WorldOption = "main",
    as_json: JsonOption = False,
) -> None:
    """Go to a time at once; timers that were due before do as their policy says."""
    to_ns = parse_time_ahead(to)
    go(server, world, path, as_json, lambda clock: clock.skip_to(to_ns))


@app.command()
def pause(
    path: PathArgument,
    server: ServerOption = DEFAULT_SERVER,
    world: WorldOption = "main",
    as_json: JsonOption = False,
) -> None:
    """Let the clock stand until it is resumed."""
    control(server, world, path, as_json, EnvironmentClock.pause)


@app.command()
def resume(
    path: PathArgument,
    server: ServerOption = DEFAULT_SERVER,
    world: WorldOption = "main",
    as_json: JsonOption = False,
) -> None:
    """Let a paused clock go on."""
    control(server, world, path, as_json, EnvironmentClock.resume)


@app.command()
def rate(
    path: PathArgument,
    factor: Annotated[float, typer.Argument(help="Simulated seconds a real one, above 0.", metavar="RATE")],
    server: ServerOption = DEFAULT_SERVER,
    world: WorldOption = "main",
    as_json: JsonOption = False,
) -> None:
    """Let a realtime clock go faster or slower."""
    if not (math.isfinite(factor) and factor > 0):
        raise UsageError(f"a rate is a finite number above 0, not {factor:g}")
    control(server, world, path, as_json, lambda clock: clock.set_rate(factor))


@app.command("set-timer")
def set_timer(
    path: PathArgument,
    name: NameArgument,
    after: DueOption = "",
    at: DueOption = "",
    every: DueOption = "",
    missed: Annotated[Missed, typer.Option(help="What becomes of ticks that a skip or a stall has passed.")] = (
        Missed.COALESCE
    ),
    payload: Annotated[str, typer.Option(help="Told with each firing; JSON, or else a string.")] = "",
    if_absent: Annotated[bool, typer.Option("--if-absent", help="Leave one of this name as it is.")] = False,
    server: ServerOption = DEFAULT_SERVER,
    world: WorldOption = "main",
    as_json: JsonOption = False,
) -> None:
    """Set a timer, or set it anew."""
    if after and at:
        raise UsageError("--at and --after: give one of the two")
    if not (after or at or every):
        raise UsageError("when is it due?", hint="give --after or --at, or --every alone")
    at_ns, after_ns = (parse_time_ahead(text) if text else None for text in (at, after))
    every_ns = parse_time_ahead(every) if every else 0
    if every and not every_ns:
        raise UsageError("--every is above 0; a timer that fires once has --after or --at alone")
    document: Any = parse_value(payload) if payload else None
    done = run_in_world(
        server,
        world,
        lambda opened: opened.environment(path).set_timer(
            name,
            at_ns=at_ns,
            after_ns=after_ns,
            every_ns=every_ns,
            missed=MISSED[missed],
            payload=document,
            if_absent=if_absent,
        ),
    )
    show_written(done, as_json)


@app.command("cancel-timer")
def cancel_timer(
    path: PathArgument,
    name: NameArgument,
    server: ServerOption = DEFAULT_SERVER,
    world: WorldOption = "main",
    as_json: JsonOption = False,
) -> None:
    """Cancel a timer."""
    show_written(run_in_world(server, world, lambda opened: opened.environment(path).cancel_timer(name)), as_json)


def timers(
    path: PathArgument,
    server: ServerOption = DEFAULT_SERVER,
    world: WorldOption = "main",
    as_json: JsonOption = False,
) -> None:
    """List the timers of an environment."""

    async def read(opened: World) -> list[TimerInfo]:
        return [timer async for timer in opened.environment(path).timers()]

    found = run_in_world(server, world, read)
    if as_json:
        print_json({"timers": [to_document(timer) for timer in found]})
    elif found:
        print_table(("timer", "due", "every", "missed", "fired", "payload"), map(describe_timer, found))
    else:
        print(f"no timers in {path}")


def go(
    server: str, world: str, path: str, as_json: bool, ask: Callable[[EnvironmentClock], Awaitable[ClockState]]
) -> None:
    """Set a clock on its way, and print how it stands when it has arrived; Ctrl-C ends the waiting alone.

    Raises:
        Interrupted: it may be on its way still.
    """
    try:
        control(server, world, path, as_json, ask)
    except KeyboardInterrupt:
        hint = f"ecumene clock show {path} says how it stands, ecumene clock pause {path} lets it stand"
        raise Interrupted(f"interrupted: the clock of {path} may be on its way still", hint=hint) from None


def control(
    server: str, world: str, path: str, as_json: bool, ask: Callable[[EnvironmentClock], Awaitable[ClockState]]
) -> None:
    """Ask an environment's clock, and print how it stands then."""
    try:
        state = run_in_world(server, world, lambda opened: ask(opened.environment(path).clock()))
    except TimePassedError as error:
        where = show_duration(error.now_ns)
        where += f", on its way to {show_duration(error.end_ns)}," if error.end_ns > error.now_ns else ""
        raise CliError(f"the clock of {path} is at {where} already: it does not go back") from error
    if as_json:
        print_json(to_document(state))
    else:
        print_table(("clock", state.path), describe_clock(state))


def describe_clock(state: ClockState) -> list[tuple[str, str]]:
    """A clock as lines of two."""
    mode = show_mode(state)
    if state.mode == "realtime":
        mode += f", {state.rate:g} simulated second{'s' * (state.rate != 1)} a second"
    lines = [("mode", mode + (", paused" if state.paused else "")), ("time", show_moment(state.now_ns))]
    if state.participants_path:
        lines.append(("participants in", state.participants_path))
    if state.stepping:
        lines.append(("on a step", "one jump, as soon as everybody is idle"))
    if state.target_ns is not None:
        lines.append(("on its way to", show_moment(state.target_ns)))
    if state.lookahead_ns is not None:
        lines.append(("ahead of the one above", f"at most {show_duration(state.lookahead_ns)}"))
    lines.append(("timers", f"{state.timers:,}"))
    if state.next_due_ns is not None:
        lines.append(("next timer", show_moment(state.next_due_ns)))
    return lines + [("held by", why) for why in state.held_by]


def describe_timer(timer: TimerInfo) -> tuple[object, ...]:
    """A timer as a row."""
    every = show_duration(timer.every_ns) if timer.every_ns else "once"
    missed = timer.missed.replace("_", " ") if timer.every_ns else None
    payload = None if timer.payload is None else show_cell(timer.payload)
    return timer.name, show_moment(timer.due_ns), every, missed, timer.fired, payload
