"""The message of a call, made where it is called; its number follows when it is sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ecumene.workflows.calls import MAKE
from ecumene.workflows.errors import ResultExpiredError, ValueRefusedError, ValueTooLargeError
from ecumene.workflows.limits import VALUE_BYTES_MAX
from ecumene.workflows.messages import read_outcome
from ecumene.workflows.placeholders import Placeholder
from ecumene.workflows.targets import Target
from ecumene.workflows.values import Tree, dump

if TYPE_CHECKING:
    from ecumene.workflows.callers import Caller

_NO_NUMBER = '{"call":0'


def compose(
    caller: Caller,
    target: Target,
    do: str,
    method: str,
    inner: Tree,
    placeholders: list[Placeholder],
    lane: str,
    retry: int,
    timeout_s: float | None,
) -> str:
    """The message without its number.

    Raises:
        ValueTooLargeError: it is larger than VALUE_BYTES_MAX.
        ValueRefusedError: a placeholder belongs to another flow.
        ResultExpiredError: the result that a placeholder stands for has been dropped.
    """
    document: dict[str, Any] = {"call": 0, "do": do, "flow": caller.flow, "caller": caller.name, "lane": lane}
    document |= {"actor": target.actor, "class": target.class_name, "method": method, "in": inner}
    if placeholders:
        document["refs"] = [_find_ref(caller, placeholder) for placeholder in placeholders]
    if retry:
        document["retry"] = retry
    if target.made and do == MAKE:
        document["made"] = target.made
    if timeout_s is not None:
        document["timeout_s"] = timeout_s
    text = dump(document)
    if len(text) > VALUE_BYTES_MAX:
        what = f"a call of {target.class_name.rpartition(':')[2]}.{method or '__init__'}"
        raise ValueTooLargeError.of(what, "VALUE_BYTES_MAX", VALUE_BYTES_MAX, len(text))
    return text


def fill_number(text: str, number: int) -> str:
    """The message with its number."""
    return f'{{"call":{number}{text[len(_NO_NUMBER) :]}'


def _find_ref(caller: Caller, placeholder: Placeholder) -> int:
    call = placeholder._call
    if call.caller is not caller:
        raise ValueRefusedError(f"{placeholder!r} belongs to another flow: read it, and pass its value")
    if call.is_done and not call.size:
        assert call.text is not None
        failure = read_outcome(call.text).failure
        raise ResultExpiredError(failure if failure is not None else f"the result of {call} is gone")
    return call.number
