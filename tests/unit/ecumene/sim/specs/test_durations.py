"""Times in specs are read exactly, and written as people write them."""

from __future__ import annotations

from typing import Any

import pytest
from ecumene.sim.specs.durations import Span, Time
from pydantic import TypeAdapter, ValidationError

H = 3_600_000_000_000


@pytest.mark.parametrize(
    ("given", "time_ns"), [("8h", 8 * H), ("1d12h", 36 * H), (0, 0), ("500ms", 500_000_000), (7, 7), ("0.5h", H // 2)]
)
def test_times_come_back_as_they_were(given: Any, time_ns: int) -> None:
    adapter: TypeAdapter[int] = TypeAdapter(Time)
    assert adapter.validate_python(given) == time_ns
    assert adapter.validate_python(adapter.dump_python(time_ns, mode="json")) == time_ns


@pytest.mark.parametrize("given", ["soon", -1, "-1h", 1.5, True, None, "1h1h", 2**63, "300y", ""])
def test_what_is_no_time_is_refused(given: Any) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(Time).validate_python(given)


def test_a_span_is_not_empty() -> None:
    with pytest.raises(ValidationError, match="greater than 0"):
        TypeAdapter(Span).validate_python("0h")
