"""Values that stand on a command line: JSON, event types, clocks."""

from __future__ import annotations

import json
from collections.abc import Sequence

from ecumene.cli.failures import UsageError
from ecumene.client.clocks import Clock
from ecumene.client.model import EventType, Json, Value


def parse_value(text: str) -> Value:
    """JSON if it is JSON, a string otherwise.

    Raises UsageError: it begins like a document or a list, and is none.
    """
    try:
        value: Value = json.loads(text)
        return value
    except ValueError as error:
        if text.lstrip().startswith(("{", "[")):
            raise UsageError(
                f"{text} is no JSON: {error}", hint="a string that begins so is written as '\"...\"'"
            ) from error
        return text


def parse_named(arguments: Sequence[str]) -> dict[str, Json]:
    """Arguments of an operation, each NAME=VALUE, the value as JSON or a string.

    Raises UsageError.
    """
    named: dict[str, Json] = {}
    for argument in arguments:
        name, equals, text = argument.partition("=")
        if not equals or not name or name.startswith(("{", "[")):
            raise UsageError(f"{argument!r} is not NAME=VALUE", hint='such as price=3, or name=ann, or many="[1, 2]"')
        named[name] = parse_value(text)  # type: ignore[assignment]
    return named


def parse_object(text: str, option: str) -> dict[str, Json]:
    """A JSON object; "" = {}.

    Raises UsageError.
    """
    if not text:
        return {}
    try:
        value = json.loads(text)
    except ValueError as error:
        raise UsageError(f"{option} needs a JSON object: {text} is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise UsageError(f"{option} needs a JSON object, not {text!r}")
    return value


def parse_type(name: str) -> EventType:
    """A type of events by its name in any case.

    Raises UsageError.
    """
    try:
        return EventType[name.upper().replace("-", "_").replace(".", "_")]
    except KeyError as error:
        known = ", ".join(kind.name.lower() for kind in EventType if kind is not EventType.UNKNOWN)
        raise UsageError(f"no type of events is called {name!r}", hint=f"there are {known}") from error


def parse_clock(mode: str) -> Clock | None:
    """A clock by its mode; "" = none.

    Raises UsageError.
    """
    clocks = {"manual": Clock.manual(), "realtime": Clock.realtime(), "event-driven": Clock.event_driven()}
    if mode and mode not in clocks:
        raise UsageError(f"no clock is {mode!r}", hint=f"there are {', '.join(clocks)}")
    return clocks.get(mode)
