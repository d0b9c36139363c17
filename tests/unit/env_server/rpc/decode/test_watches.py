"""Watches from the wire."""

from typing import Any

import pytest
from env_api.v1 import environment_service_pb2, events_pb2, session_pb2

from env_server.model.changes import EventType
from env_server.model.errors import DeniedView, NotSupported, Reason, WorldError, WrongState
from env_server.model.limits import Limits
from env_server.model.watching import Filter, WatchSpec
from env_server.rpc.decode.watches import check_history, decode_monitor, decode_watch

LIMITS = Limits()


def decode(**fields: Any) -> WatchSpec:
    return decode_watch(session_pb2.WatchStart(watch_id=1, **fields), "me", LIMITS)


def test_an_empty_watch_wants_everything_from_now() -> None:
    assert decode() == WatchSpec(Filter())


def test_a_full_watch() -> None:
    filter_ = {
        "path_prefix": "/a",
        "path_glob": "/a/**",
        "key_glob": "k*",
        "types": [4, 10],
        "labels": {"x": "y"},
        "actor": "bob",
        "exclude_own": True,
    }
    assert decode(filter=filter_, from_revision=7, slow_policy=2) == WatchSpec(
        Filter("/a", "/a/**", "k*", frozenset({4, 10}), {"x": "y"}, "bob", "me"), 7, conflate=True
    )


def test_a_watch_of_several_filters() -> None:
    also = [{"key_glob": "a"}, {"exclude_own": True}]
    assert decode(filter={"key_glob": "k"}, also=also) == WatchSpec(
        Filter(key_glob="k"), also=(Filter(key_glob="a"), Filter(excluded_producer="me"))
    )


def test_a_monitor_call_is_the_same_watch() -> None:
    message = environment_service_pb2.MonitorRequest(filter={"exclude_own": True}, initial_state=True, client_id="me")
    assert decode_monitor(message, LIMITS) == WatchSpec(Filter(excluded_producer="me"), initial_state=True)


def test_every_type_is_served_or_refused_by_name() -> None:
    served = {int(type_) for type_ in EventType}
    for name, number in events_pb2.EventType.items():
        if number in served:
            assert decode(filter={"types": [number]}).filter.types == {number}
        elif number:
            with pytest.raises(NotSupported, match=name):
                decode(filter={"types": [number]})


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"filter": {"types": [0]}}, Reason.INVALID_FIELD),
        ({"also": [{"types": [99]}]}, Reason.INVALID_FIELD),
        ({"also": [{"key_glob": "a"}], "initial_state": True}, Reason.INVALID_FIELD),
        ({"also": [{"key_glob": "a"}] * 16}, Reason.LIMIT_EXCEEDED),
        ({"filter": {"types": [99]}}, Reason.INVALID_FIELD),
        ({"filter": {"path_prefix": "a"}}, Reason.INVALID_PATH),
        ({"filter": {"path_glob": "a*"}}, Reason.INVALID_PATH),
        ({"filter": {"path_glob": "/" + "*" * 400}}, Reason.LIMIT_EXCEEDED),
        ({"filter": {"actor": "a b"}}, Reason.INVALID_FIELD),
        ({"filter": {"region": "a/b"}}, Reason.INVALID_FIELD),
        ({"slow_policy": 9}, Reason.INVALID_FIELD),
        ({"initial_state": True, "from_revision": 1}, Reason.INVALID_FIELD),
        ({"group": 1}, Reason.INVALID_FIELD),
    ],
)
def test_what_makes_no_sense_is_refused(fields: dict[str, Any], reason: Reason) -> None:
    with pytest.raises(WorldError) as caught:
        decode(**fields)
    assert caught.value.reason is reason


def test_a_monitor_call_without_client_id_has_nothing_of_its_own() -> None:
    with pytest.raises(WorldError, match="client_id"):
        decode_monitor(environment_service_pb2.MonitorRequest(filter={"exclude_own": True}), LIMITS)


def test_a_watch_takes_a_group_of_its_session_and_a_call_names_one_by_its_path() -> None:
    assert decode_watch(session_pb2.WatchStart(group=2), "me", LIMITS, ("/a", "/b")).group == "/b"
    with pytest.raises(DeniedView):
        decode_watch(session_pb2.WatchStart(), "me", LIMITS, ("/a",))
    assert decode_monitor(environment_service_pb2.MonitorRequest(group="/a"), LIMITS).group == "/a"
    with pytest.raises(WorldError, match="monitor"):
        decode_monitor(environment_service_pb2.MonitorRequest(group="a"), LIMITS)


def test_another_history_is_refused() -> None:
    check_history("", "w", "h")
    check_history("h", "w", "h")
    with pytest.raises(WrongState) as caught:
        check_history("g", "w", "h")
    assert caught.value.reason is Reason.HISTORY_MISMATCH
