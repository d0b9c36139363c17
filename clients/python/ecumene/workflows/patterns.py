"""Common shapes of message graphs, of plain functions as well as methods of proxies."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

from ecumene.workflows.placeholders import Placeholder

Step = Callable[..., Any]


def sequential(value: Any, *steps: Step) -> Any:
    """Pass a value through steps, each taking what the one before gave: `sequential(x, a.reply, b.reply)`."""
    for step in steps:
        value = step(value)
    return value


def fan_out(value: Any, steps: Iterable[Step]) -> list[Any]:
    """Give the same value to all steps, which go on side by side; their results in the order of the steps."""
    return [step(value) for step in steps]


def fan_in(step: Step, values: Iterable[Any]) -> Any:
    """Give all values to one step as a list."""
    return step(list(values))


def resolve(value: Any) -> Any:
    """A value with all placeholders in its lists, tuples and dicts read; in blocking code.

    Raises:
        WorkflowError: one of them failed.
        TypeError: a loop runs in this thread: use `gather`.
    """
    if isinstance(value, Placeholder):
        return value.get()
    if isinstance(value, list | tuple):
        return _rebuild(value, [resolve(item) for item in value])
    return _refill(value, [resolve(item) for item in value.values()]) if isinstance(value, dict) else value


async def gather(value: Any) -> Any:
    """`resolve` in a loop. Nothing is cancelled by a failure: the calls go on."""
    if isinstance(value, Placeholder):
        return await value
    if isinstance(value, list | tuple):
        return _rebuild(value, [await gather(item) for item in value])
    return _refill(value, [await gather(item) for item in value.values()]) if isinstance(value, dict) else value


def _rebuild(old: list[Any] | tuple[Any, ...], items: list[Any]) -> Any:
    """A list or tuple of the same class; a named tuple takes its items one by one."""
    return old._make(items) if hasattr(old, "_make") else type(old)(items)


def _refill(old: dict[Any, Any], items: list[Any]) -> Any:
    """A dict of the same class with other values."""
    filled = copy.copy(old)
    for key, item in zip(old, items, strict=True):
        filled[key] = item
    return filled
