"""Placeholders: what stands for a result before it is there, and keeps it while it is needed."""

from __future__ import annotations

import operator
from collections.abc import Callable, Generator, Iterator
from typing import Any

from ecumene.workflows import reading
from ecumene.workflows.calls import Call
from ecumene.workflows.values import Pending


class Placeholder(Pending):
    """Stands for the result of a call, which goes on meanwhile.

    Pass it on as it is, alone or within lists and dicts: only the call that needs the value waits for it. `await` it,
    or in blocking code `get()` it. Reading it - `str(p)`, `p["key"]`, `p.field`, `p == 3`, `p + 1`, `if p`,
    `for x in p` - does the same, so that a script of plain calls needs no other words; while a loop runs in the
    thread it raises TypeError unless the value is there. Its result lives as long as it, or a call under way that was
    given it.

    Awaiting and reading raise:
        CallFailedError: the method raised; see `WorkflowError.origin`. Other WorkflowErrors: why there is no result.
    """

    __slots__ = ("__weakref__", "_call")

    def __init__(self, call: Call) -> None:
        self._call = call

    def get(self, *key: Any, timeout_s: float | None = None) -> Any:
        """The value, as soon as it is there. With positional arguments: what the value's own `get` gives for them.

        Raises:
            TimeoutError: not within `timeout_s`; the call goes on.
            TypeError: a loop runs in this thread: await the placeholder.
        """
        value = reading.read_blocking(self._call, timeout_s)
        return value.get(*key) if key else value

    def __await__(self) -> Generator[Any, None, Any]:
        return reading.wait(self._call).__await__()

    @property
    def done(self) -> bool:
        """Whether there is a result or a failure."""
        return self._call.is_done

    def __repr__(self) -> str:
        state = "done" if self._call.is_done else "pending"
        return f"<Placeholder of {self._call}, call {self._call.number}, {state}>"

    # Reading. A hash of its own: what sets and dicts hold is the placeholder, not its value.
    __hash__ = object.__hash__

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"a placeholder has no attribute {name!r}")
        return getattr(self.get(), name)

    def __str__(self) -> str:
        return str(self.get())

    def __format__(self, spec: str) -> str:
        return format(self.get(), spec)

    def __bool__(self) -> bool:
        return bool(self.get())

    def __len__(self) -> int:
        return len(self.get())

    def __iter__(self) -> Iterator[Any]:
        return iter(self.get())

    def __contains__(self, item: object) -> bool:
        return item in self.get()

    def __getitem__(self, key: Any) -> Any:
        return self.get()[key]

    def __int__(self) -> int:
        return int(self.get())

    def __float__(self) -> float:
        return float(self.get())

    def __index__(self) -> int:
        return operator.index(self.get())


def _read_both(function: Callable[[Any, Any], Any], *, is_reflected: bool = False) -> Callable[[Any, Any], Any]:
    def method(left: Placeholder, right: Any) -> Any:
        other = right.get() if isinstance(right, Placeholder) else right
        return function(other, left.get()) if is_reflected else function(left.get(), other)

    return method


for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(Placeholder, f"__{_name}__", _read_both(getattr(operator, _name)))
for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
    setattr(Placeholder, f"__{_name}__", _read_both(getattr(operator, _name)))
    setattr(Placeholder, f"__r{_name}__", _read_both(getattr(operator, _name), is_reflected=True))
