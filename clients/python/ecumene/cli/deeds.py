"""What happened, in words: an event as the story of its environment tells it."""

from __future__ import annotations

from ecumene.cli.positions import show_position
from ecumene.cli.tables import show_cell
from ecumene.client.durations import show_duration
from ecumene.client.event_batch import Event
from ecumene.client.model import EventType, Json, Value


def tell_deed(event: Event) -> str:
    """What an event says, in words, without its path."""
    key, value = event.key, show_cell(event.value)
    match event.type:
        case EventType.ENVIRONMENT_REGISTERED:
            declared = _declared(event.value)
            return f"made: {declared}" if declared else "made"
        case EventType.ENVIRONMENT_UPDATED:
            fields = ", ".join(_declared_part(name, event.value) for name in event.changed_fields)
            return f"declared anew{': ' if fields else ''}{fields}"
        case EventType.ENVIRONMENT_DELETED:
            return "deleted, with its entries"
        case EventType.ENTRY_SET:
            written = key if event.value is None else f"{key} = {value}"
            return written + (" (new)" if event.version == 1 else "")
        case EventType.ENTRY_INCREMENTED:
            return f"{key} counts {value}"
        case EventType.ENTRY_APPENDED:
            return f"{key} + {value}"
        case EventType.ENTRY_DELETED:
            return f"{key} deleted"
        case EventType.AGGREGATE_CHANGED:
            return f"aggregate {key} is {value}"
        case EventType.BEHAVIOUR:
            return f"{key} {value}"
        case EventType.MEMBER_JOINED | EventType.MEMBER_LEFT | EventType.MEMBER_EXPIRED:
            return f"{_name(event.type)} {key}"
        case EventType.ENTRY_MOVED:
            place = show_position(event.position)
            return f"{key} moved to {place}" if place else f"{key} left the space"
        case EventType.REGION_ENTERED | EventType.REGION_LEFT:
            verb = "entered" if event.type is EventType.REGION_ENTERED else "left"
            return f"{key} {verb} {_field(event, 'region')}"
        case EventType.PROXIMITY_ENTERED | EventType.PROXIMITY_LEFT:
            verb = "met" if event.type is EventType.PROXIMITY_ENTERED else "parted from"
            return f"{key} {verb} {_field(event, 'other')} ({_field(event, 'proximity')})"
        case EventType.TIMER_SET | EventType.TIMER_FIRED | EventType.TIMER_CANCELLED | EventType.CLOCK_CHANGED:
            return _tell_time(event)
        case other:
            details = _details(event.value, key) if isinstance(event.value, dict) else value
            told = "" if event.value is None or not details else f": {details}"
            return f"{_name(other)} {key}{told}".rstrip()


def _tell_time(event: Event) -> str:
    told = event.value if isinstance(event.value, dict) else {}

    def moment(name: str) -> str:
        time_ns = told.get(name)
        return show_duration(time_ns) if isinstance(time_ns, int) else ""

    match event.type:
        case EventType.TIMER_SET:
            every = f", then every {moment('every_ns')}" if told.get("every_ns") else ""
            deed = f"timer {event.key} set for {moment('due_ns')}{every}"
        case EventType.TIMER_FIRED:
            missed = f", for {told['missed']} before it, too" if told.get("missed") else ""
            deed = f"timer {event.key} fired, due {moment('due_ns')}{missed}"
        case EventType.TIMER_CANCELLED:
            return f"timer {event.key} cancelled"
        case _:
            deed = f"clock at {moment('now_ns') or '0s'}" + (", paused" if told.get("paused") else "")
            deed += ", on a step" if told.get("stepping") else ""
            return deed + (f", on its way to {moment('target_ns')}" if told.get("target_ns") is not None else "")
    payload = told.get("payload")
    return deed if payload is None else f"{deed}: {show_cell(payload)}"


def _field(event: Event, name: str) -> str:
    return show_cell(event.value.get(name)) if isinstance(event.value, dict) else "-"


def _declared(value: Value) -> str:
    """What an environment declares, but for what they all do."""
    document = value if isinstance(value, dict) else {}
    return ", ".join(
        f"{name.replace('_', ' ')} {show_cell(told)}"
        for name, told in document.items()
        if told and (name, told) != ("kind", "basic")
    )


def _declared_part(name: str, value: Value) -> str:
    """A part that was changed, with what it is now; some are not told."""
    told = value.get(name) if isinstance(value, dict) else None
    return name if told is None else f"{name} {show_cell(told)}"


def _name(kind: EventType) -> str:
    return kind.name.lower().replace("_", " ")


def _details(document: dict[str, Json], key: str) -> str:
    """What an event's document tells besides its key; fields that are not used stand at nothing there."""
    return ", ".join(
        f"{name.replace('_', ' ')} {_details(told, key) if isinstance(told, dict) else show_cell(told)}"
        for name, told in document.items()
        if told not in (0, "", None, {}, key)
    )
