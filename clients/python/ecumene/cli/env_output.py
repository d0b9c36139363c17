"""What `ecumene env` prints of environments, entries, writes and events."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from ecumene.cli.durations import show_moment
from ecumene.cli.positions import describe_area, describe_proximity, describe_space, show_place, show_position
from ecumene.cli.tables import print_json, print_table, show_cell, show_count, to_document
from ecumene.client.clocks import ClockState
from ecumene.client.durations import show_duration
from ecumene.client.event_batch import Event
from ecumene.client.model import Aggregates, Entry, EnvironmentInfo, Written
from ecumene.client.spaces import Space


def show_entry(found: Entry, as_json: bool) -> None:
    """Print an entry: its value alone, with all digits, or everything as JSON.

    A position is told beside it, on stderr: what reads the value gets nothing else.
    """
    if as_json:
        print_json(to_document(found))
    else:
        print(found.value if isinstance(found.value, str) else json.dumps(found.value, default=show_cell))
        if found.position:
            print(f"at {show_position(found.position)}", file=sys.stderr)


def show_entries(entries: Sequence[Entry], space: Space | None) -> None:
    """Print entries as a table, with their positions in the space if any has one."""
    rows: list[tuple[object, ...]] = [
        (entry.key, entry.kind.name.lower(), entry.version, show_cell(entry.value)) for entry in entries
    ]
    if not any(entry.position for entry in entries):
        print_table(("key", "kind", "version", "value"), rows)
        return
    places = [show_place(entry.position, space) for entry in entries]
    placed = [(*row[:3], place, row[3]) for row, place in zip(rows, places, strict=True)]
    print_table(("key", "kind", "version", "position", "value"), placed)


def describe_environment(
    found: EnvironmentInfo, aggregates: Aggregates, clock: ClockState | None = None
) -> list[tuple[str, str]]:
    """An environment as lines of two. `clock`: how its own one stands."""
    lines: list[tuple[str, str]] = [
        ("path", found.path),
        ("kind", found.kind or "basic"),
        ("version", str(found.version)),
        ("entries", f"{found.entry_count:,}"),
        ("children", f"{found.child_count:,}"),
    ]
    lines += [(f"label {name}", text) for name, text in found.labels.items()]
    if clock is not None:
        lines.append(("clock", f"{show_mode(clock)}{', paused' * clock.paused}, at {show_moment(clock.now_ns)}"))
    if found.space is not None:
        lines.append(("space", describe_space(found.space)))
    lines += [(f"region {region.name}", describe_area(region.area)) for region in found.regions]
    lines += [(f"proximity {near.name}", describe_proximity(near)) for near in found.proximities]
    if found.config:
        lines.append(("config", show_cell(found.config)))
    lines += [
        (
            f"{value.function.name.lower()} {name}",
            f"{show_cell(value.value)} ({show_count(value.numbers, 'number')}"
            f" of {show_count(value.entries, 'entry', 'entries')})",
        )
        for name, value in aggregates.values.items()
    ]
    for state in found.gates:
        how = f"opened ({state.cause.name.lower()})" if state.opened else "collecting"
        lines.append((f"gate {state.gate.name}", f"generation {state.generation}, {how}, {state.reported:,} reported"))
    return lines


def show_mode(state: ClockState) -> str:
    """The mode as `ecumene env set --clock` takes it."""
    return state.mode.replace("_", "-")


def show_written(done: Written, as_json: bool) -> None:
    """Print what a write did."""
    if as_json:
        print_json(to_document(done))
    elif not done.changed:
        print("nothing to do: it is so already")
    else:
        print(f"revision {done.revision:,}" + (f", version {done.version:,}" if done.version else ""))


def show_event(event: Event, as_json: bool) -> None:
    """Print an event on one line."""
    if as_json:
        print_json(event_document(event))
        return
    kind = event.type.name.lower()
    shown = "" if event.value is None else show_cell(event.value)
    if event.changed_fields:
        shown = f"({', '.join(event.changed_fields)}) {shown}"
    if event.position:
        shown = f"{shown} at {show_position(event.position)}".lstrip()
    when = "" if event.sim_time_ns is None else f"{show_duration(event.sim_time_ns):>12}  "
    print(f"{event.revision:>10,}  {when}{kind:<22}  {event.path}  {event.key}  {shown}".rstrip(), flush=True)


def event_document(event: Event) -> dict[str, object]:
    """An event as plain JSON."""
    return {
        "revision": event.revision,
        "type": event.type.name.lower(),
        "path": event.path,
        "key": event.key,
        "value": event.value,
        "version": event.version,
        "changed_fields": list(event.changed_fields),
        "producer": event.producer,
        "producer_seq": event.producer_seq,
        "actor": event.actor,
        "cause": event.cause,
        "position": list(event.position),
        "sim_time_ns": event.sim_time_ns,
        "wall_time_ns": event.wall_time_ns,
    }
