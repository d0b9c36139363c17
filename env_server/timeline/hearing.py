"""What a participant of an event-driven clock hears, as the value of its entry says."""

from typing import Any, Final, NamedTuple

from env_server.model.changes import EventType
from env_server.model.errors import InvalidRequest, LimitExceeded, Reason
from env_server.model.limits import Limits
from env_server.model.names import check_count
from env_server.model.values import Json
from env_server.model.views import check_group
from env_server.model.watching import Filter

_PARTS: Final = frozenset({"path_prefix", "path_glob", "types", "key_glob"})


class HeardPart(NamedTuple):
    """One filter, as a value that can be compared."""

    path_prefix: str = ""
    types: frozenset[int] = frozenset()
    key_glob: str = ""
    path_glob: str = ""

    @property
    def filter(self) -> Filter:
        """As a filter of events."""
        return Filter(self.path_prefix, self.path_glob, self.key_glob, self.types)


class Hearing(NamedTuple):
    """Everything that matches one of the parts, in the view of a group; "" = without one."""

    parts: tuple[HeardPart, ...]
    group: str = ""


def read_hearing(value: object, clock_path: str, limits: Limits) -> Hearing:
    """What an entry of this value hears of the events of a world; without a document, all at `clock_path` and below.

    Paths and globs are looked at by whoever compiles them.

    Raises:
        InvalidRequest: INVALID_VALUE: it is a document that cannot be understood.
    """
    document = value.document if type(value) is Json else None
    group = ""
    parts: tuple[HeardPart, ...] = (HeardPart(path_prefix=clock_path),)
    if not isinstance(document, dict):
        return Hearing(parts)
    if "group" in document:
        group = _text(document["group"], "group")
        check_group(group, limits, "group")
    if "hears" in document:
        told = document["hears"]
        if not isinstance(told, list):
            raise _refuse("hears", "must be a list")
        try:
            check_count(len(told), "participant_filters_max", limits)
        except LimitExceeded as error:
            raise _refuse("hears", error.message) from None
        parts = tuple(_read_part(one, f"hears[{index}]") for index, one in enumerate(told))
    return Hearing(parts, group)


def _read_part(told: Any, field: str) -> HeardPart:
    if not isinstance(told, dict) or not told.keys() <= _PARTS:
        raise _refuse(field, f"must be an object with no other fields than {', '.join(sorted(_PARTS))}")
    types = told.get("types", [])
    if not isinstance(types, list):
        raise _refuse(f"{field}.types", "must be a list")
    return HeardPart(
        _text(told.get("path_prefix", ""), f"{field}.path_prefix"),
        frozenset(_read_type(name, f"{field}.types") for name in types),
        _text(told.get("key_glob", ""), f"{field}.key_glob"),
        _text(told.get("path_glob", ""), f"{field}.path_glob"),
    )


def _read_type(name: Any, field: str) -> int:
    known = EventType.__members__.get(name.upper()) if isinstance(name, str) and name.islower() else None
    if known is None:
        raise _refuse(field, "must be names of event types, such as gate_opened")
    return int(known)


def _text(told: Any, field: str) -> str:
    if not isinstance(told, str):
        raise _refuse(field, "must be a text")
    return told


def _refuse(field: str, problem: str) -> InvalidRequest:
    return InvalidRequest(Reason.INVALID_VALUE, field, problem)
