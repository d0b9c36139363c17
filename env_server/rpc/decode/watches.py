"""What a watch is asked for, from the wire."""

from env_api.v1 import environment_service_pb2, events_pb2, session_pb2

from env_server.model.changes import EventType
from env_server.model.errors import DeniedView, HistoryMismatch, InvalidRequest, LimitExceeded, NotSupported, Reason
from env_server.model.limits import Limits
from env_server.model.names import ROOT, check_count, check_identity, check_segment, split_path
from env_server.model.views import check_group
from env_server.model.watching import Filter, WatchSpec
from env_server.rpc.decode.environments import decode_labels

WATCH_FILTERS_MAX = 16
_LATER_TYPES = frozenset(events_pb2.EventType.values()) - {0} - {int(type_) for type_ in EventType}


def decode_watch(
    message: session_pb2.WatchStart, client_id: str, limits: Limits, groups: tuple[str, ...] = ()
) -> WatchSpec:
    """A watch of a session with these groups.

    Raises:
        InvalidRequest, LimitExceeded, NotSupported: naming the field.
        DeniedView: it names no group although the session has some.
    """
    if message.group > len(groups):
        problem = f"{message.group} is the number of no group of hello.groups, which has {len(groups)}"
        raise InvalidRequest(Reason.INVALID_FIELD, "watch.group", problem)
    if groups and not message.group:
        raise DeniedView("", message.filter.path_prefix or ROOT, "see")
    return _decode_spec(message, client_id, groups[message.group - 1] if groups else "", limits)


def decode_monitor(message: environment_service_pb2.MonitorRequest, limits: Limits) -> WatchSpec:
    """A Monitor call's watch. Raises as `decode_watch`."""
    if message.group:
        check_group(message.group, limits, "monitor.group")
    if message.client_id:
        check_identity(message.client_id, "monitor.client_id")
    return _decode_spec(message, message.client_id, message.group, limits)


def check_history(asked: str, world: str, history: str) -> None:
    """Accepts the history that a caller expects of a world; empty = any.

    Raises:
        HistoryMismatch.
    """
    if asked and asked != history:
        raise HistoryMismatch(world, history=history, asked=asked)


def _decode_spec(
    message: session_pb2.WatchStart | environment_service_pb2.MonitorRequest, client_id: str, group: str, limits: Limits
) -> WatchSpec:
    if message.initial_state and message.from_revision:
        raise InvalidRequest(Reason.INVALID_FIELD, "from_revision", "excludes initial_state")
    if message.slow_policy not in session_pb2.SlowPolicy.values():
        raise InvalidRequest(Reason.INVALID_FIELD, "slow_policy", "unknown policy")
    also = message.also if isinstance(message, session_pb2.WatchStart) else ()
    if also and message.initial_state:
        raise InvalidRequest(Reason.INVALID_FIELD, "watch.also", "excludes initial_state")
    if len(also) > WATCH_FILTERS_MAX - 1:
        raise LimitExceeded("watch_filters_max", WATCH_FILTERS_MAX, len(also) + 1)
    return WatchSpec(
        filter=decode_filter(message.filter, client_id, limits),
        also=tuple(decode_filter(one, client_id, limits) for one in also),
        from_revision=message.from_revision,
        initial_state=message.initial_state,
        conflate=message.slow_policy == session_pb2.SLOW_POLICY_CONFLATE,
        group=group,
    )


def decode_filter(message: events_pb2.EventFilter, client_id: str, limits: Limits) -> Filter:
    """Which events are wanted; `client_id` is the producer that `exclude_own` leaves out.

    Raises:
        InvalidRequest, LimitExceeded, NotSupported: naming the field.
    """
    if message.region:
        check_segment(message.region, limits, Reason.INVALID_FIELD, "filter.region")
    prefix = message.path_prefix
    if prefix:
        split_path(prefix, limits)
    for name in ("path_glob", "key_glob"):
        size = len(getattr(message, name).encode())
        if size > limits.path_bytes_max:
            raise LimitExceeded("path_bytes_max", limits.path_bytes_max, size)
    if message.path_glob and not message.path_glob.startswith(ROOT):
        raise InvalidRequest(Reason.INVALID_PATH, "filter.path_glob", "must begin with '/'")
    if message.exclude_own and not client_id:
        raise InvalidRequest(Reason.INVALID_FIELD, "filter.exclude_own", "needs a client_id")
    if message.actor:
        check_identity(message.actor, "filter.actor")
    check_count(len(message.labels), "labels_max", limits)
    return Filter(
        path_prefix=prefix,
        path_glob=message.path_glob,
        key_glob=message.key_glob,
        types=_decode_types(message),
        labels=dict(decode_labels(message.labels, limits, "filter.labels")),
        actor=message.actor,
        excluded_producer=client_id if message.exclude_own else "",
        region=message.region,
    )


def _decode_types(message: events_pb2.EventFilter) -> frozenset[int]:
    types = frozenset(message.types)
    for number in types:
        if number in _LATER_TYPES:
            raise NotSupported(f"filter.types {events_pb2.EventType.Name(number)}")
        if number not in events_pb2.EventType.values() or number == 0:
            raise InvalidRequest(Reason.INVALID_FIELD, "filter.types", f"unknown type {number}")
    return types
