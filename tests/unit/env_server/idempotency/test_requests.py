"""Request ids: recognised within a window, refused for another request, forgotten beyond it."""

from __future__ import annotations

import pytest

from env_server.idempotency.producers import Producers
from env_server.idempotency.requests import RequestIds
from env_server.model.errors import InvalidRequest, Reason
from env_server.model.frames import Written
from env_server.model.limits import Limits


class Watch:
    """A clock that a test sets."""

    now_ns = 0

    def __call__(self) -> int:
        return self.now_ns


def test_the_same_request_finds_its_outcome_and_another_is_refused() -> None:
    producers = Producers(Limits())
    requests = RequestIds(producers, Limits(), Watch())
    assert requests.recognise("request/a", 7) is None
    producers.keep("request/a", 7, Written(3, 1))
    assert requests.recognise("request/a", 7) == (7, 3, 1)
    with pytest.raises(InvalidRequest) as caught:
        requests.recognise("request/a", 8)
    assert caught.value.reason is Reason.REQUEST_ID_REUSED


def test_a_request_without_an_outcome_yet_is_refused_under_another_body_too() -> None:
    requests = RequestIds(Producers(Limits()), Limits(), Watch())
    assert requests.recognise("request/a", 7) is None
    assert requests.recognise("request/a", 7) is None
    with pytest.raises(InvalidRequest):
        requests.recognise("request/a", 8)


def test_the_window_is_bounded_by_number_and_the_tables_let_go_too() -> None:
    producers = Producers(Limits())
    requests = RequestIds(producers, Limits(request_ids_max=2), Watch())
    for index in range(3):
        assert requests.recognise(f"request/{index}", 1) is None
        producers.keep(f"request/{index}", 1, Written(index + 1, 1))
    assert len(requests) == 2
    assert "request/0" not in producers.marks
    assert [chunk["request/0"] for chunk in producers.round(lambda: 8192)] == [None]
    assert requests.recognise("request/0", 9) is None  # a new request by now


def test_the_window_is_bounded_by_age() -> None:
    watch = Watch()
    producers = Producers(Limits())
    requests = RequestIds(producers, Limits(request_id_age_s=10), watch)
    requests.recognise("request/a", 1)
    producers.keep("request/a", 1, Written(1, 1))
    watch.now_ns = 10_000_000_000
    assert requests.recognise("request/a", 1) is not None
    watch.now_ns += 1
    assert requests.recognise("request/a", 1) is None


def test_a_restart_finds_the_ids_in_the_producers() -> None:
    producers = Producers(Limits())
    producers.load("agent", (4, 4, 1))
    producers.load("request/a", (7, 3, 1))
    requests = RequestIds(producers, Limits(), Watch())
    assert len(requests) == 1
    assert requests.recognise("request/a", 7) == (7, 3, 1)
