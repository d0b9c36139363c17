"""Failpoints do what they are told at the n-th time, and a misspelt one is refused."""

import pytest

from env_server.diagnostics import failpoints
from env_server.diagnostics.failpoints import FailpointReached, parse_failpoints, reach


def test_unset_does_nothing() -> None:
    for name in failpoints.PLACES:
        reach(name)


def test_raise_at_the_nth_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failpoints, "_armed", parse_failpoints("before_put:raise:2,after_put:raise"))
    reach("before_put")
    with pytest.raises(FailpointReached, match="before_put"):
        reach("before_put")
    reach("before_put")
    with pytest.raises(FailpointReached):
        reach("after_put")


@pytest.mark.parametrize("text", ["nowhere:kill", "before_put:explode", "before_put", "before_put:kill:x"])
def test_what_could_never_fail_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_failpoints(text)
