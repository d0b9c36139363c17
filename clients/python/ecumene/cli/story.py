"""`ecumene env story`: what happened to an environment or an entry, from the events that its world still keeps."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from ecumene.cli.connecting import DEFAULT_SERVER, JsonOption, ServerOption, WorldOption, run_in_world, run_with_server
from ecumene.cli.deeds import tell_deed
from ecumene.cli.env_output import event_document
from ecumene.cli.failures import CliError, UsageError
from ecumene.cli.tables import print_json, print_table, show_count, show_time
from ecumene.client.durations import show_duration
from ecumene.client.event_batch import Event
from ecumene.client.model import EventFilter, EventType
from ecumene.client.world import World

POLL_S = 0.02
GLOB_SIGNS = frozenset("*?[]\\")
CLIENT_ID = re.compile(r"(py-[0-9a-f]{8}|request/[0-9a-f]{8})[0-9a-f-]{24,28}")
"""What a client calls itself, or a single call, unless it is told a name; `--json` has all of it."""
OF_ENVIRONMENTS = (
    EventType.ENVIRONMENT_REGISTERED,
    EventType.ENVIRONMENT_UPDATED,
    EventType.ENVIRONMENT_DELETED,
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which events make the story."""

    path: str
    key: str
    recursive: bool
    aggregates: bool
    since: int
    until: int

    def event_filter(self) -> EventFilter:
        """What the server can leave out; `takes` leaves out the rest."""
        if self.recursive or GLOB_SIGNS & set(self.path):
            return EventFilter(path_prefix=self.path)
        return EventFilter(path_prefix=self.path, path_glob=self.path)

    def takes(self, event: Event) -> bool:
        """Whether an event belongs to it. What happens to an environment happens to its entries."""
        if not self.recursive and event.path != self.path:
            return False
        if self.key and event.key != self.key and event.type not in OF_ENVIRONMENTS:
            return False
        return self.aggregates or event.type is not EventType.AGGREGATE_CHANGED


def story(
    path: Annotated[str, typer.Argument(help="Path of the environment, such as /town.", metavar="PATH")],
    key: Annotated[str, typer.Argument(help="Only of this entry.", metavar="KEY")] = "",
    recursive: Annotated[bool, typer.Option("--recursive", "-r", help="With all environments below.")] = False,
    aggregates: Annotated[bool, typer.Option("--aggregates", help="With every change of an aggregate.")] = False,
    since: Annotated[int, typer.Option(help="From this revision on; 0 = the oldest kept.", min=0)] = 0,
    until: Annotated[int, typer.Option(help="Up to this revision; 0 = the present one.", min=0)] = 0,
    limit: Annotated[int, typer.Option(help="The last so many events; 0 = all.", min=0)] = 100,
    server: ServerOption = DEFAULT_SERVER,
    world: WorldOption = "main",
    as_json: JsonOption = False,
) -> None:
    """Tell what happened to an environment or an entry: when, who, what, and because of what."""
    if recursive and key:
        raise UsageError("an entry has nothing below it: give either a KEY or --recursive")
    described = next((one for one in run_with_server(server, lambda worlds: worlds.list()) if one.name == world), None)
    if described is None:
        raise CliError(f"there is no world {world} at {server}")
    first, last = described.first_retained_revision, described.revision
    wanted = Wanted(path, key, recursive, aggregates, since or first, min(until or last, last))
    if since > last or wanted.until < wanted.since:
        raise UsageError(f"nothing lies between: {world} keeps revisions {first:,} to {last:,}")
    told: deque[Event] = deque(maxlen=limit or None)
    count = run_in_world(server, world, lambda opened: _read(opened, wanted, told))
    if as_json:
        for event in told:
            print_json(event_document(event))
    else:
        _show(told, count, wanted, first)


async def _read(world: World, wanted: Wanted, told: deque[Event]) -> int:
    """Reads the events of the range; returns how many belong to the story."""
    count = 0
    async with world.watch_frames(wanted.event_filter(), from_revision=wanted.since) as frames:
        batches = aiter(frames)
        coming: asyncio.Task[Any] | None = None
        try:
            # Where nothing matches there is no batch, only a mark that moves `resume_revision`.
            while frames.resume_revision <= wanted.until or coming is not None:
                coming = coming or asyncio.create_task(anext(batches), name="batch of a story")
                await asyncio.wait((coming,), timeout=POLL_S)
                if not coming.done():
                    if frames.resume_revision > wanted.until:
                        break
                    continue
                batch, coming = coming.result(), None
                for event in batch:
                    if event.revision > wanted.until:
                        return count
                    if wanted.takes(event):
                        count += 1
                        told.append(event)
        finally:
            if coming is not None:
                coming.cancel()
                await asyncio.wait((coming,))
    return count


def _show(told: deque[Event], count: int, wanted: Wanted, first: int) -> None:
    where = f"{wanted.path} {wanted.key}".rstrip()
    if not told:
        print(f"nothing happened to {where} in revisions {wanted.since:,} to {wanted.until:,}")
    else:
        time, moments = _tell_times(told)
        rows = [
            (event.revision, moment, _who(event), _what(event, wanted))
            for event, moment in zip(told, moments, strict=True)
        ]
        columns: tuple[str, ...] = ("revision", time, "who", "what")
        if any(event.cause for event in told):
            columns = ("revision", time, "who", "because of", "what")
            rows = [(*row[:3], event.cause or "-", row[3]) for row, event in zip(rows, told, strict=True)]  # type: ignore[misc]
        if any(event.sim_time_ns is not None for event in told):
            columns = (*columns[:2], "simulated", *columns[2:])
            rows = [(*row[:2], _tell_sim_time(event), *row[2:]) for row, event in zip(rows, told, strict=True)]  # type: ignore[misc]
        print_table(columns, rows, fold_last=True)
    if earlier := count - len(told):
        print(f"{show_count(earlier, 'earlier event is', 'earlier events are')} not shown: --limit 0 shows all")
    if first > 1 and wanted.since == first:
        print(f"what happened before revision {first:,} is no longer kept")


def _tell_times(told: Iterable[Event]) -> tuple[str, list[str]]:
    """Heading and cells: a day that all have in common stands in the heading."""
    moments = [show_time(event.wall_time_ns) for event in told]
    days = {moment.partition(" ")[0] for moment in moments}
    return (days.pop(), [moment.partition(" ")[2] for moment in moments]) if len(days) == 1 else ("time", moments)


def _tell_sim_time(event: Event) -> str:
    return "-" if event.sim_time_ns is None else show_duration(event.sim_time_ns)


def _who(event: Event) -> str:
    who = event.actor or event.producer or event.principal or "-"
    return CLIENT_ID.sub(r"\1…", who)


def _what(event: Event, wanted: Wanted) -> str:
    place = f"{event.path}: " if wanted.recursive else ""
    return place + tell_deed(event)
