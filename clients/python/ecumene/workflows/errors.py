"""What can go wrong with a call, and how it travels: as plain data with the place that it came from.

WorkflowError                 root; an EcumeneError
├── CallFailedError           a method raised; also an instance of the built-in class that it raised
│   └── CallTimeoutError          it took longer than its `timeout_s`
├── CallRefusedError          it was not run: no such actor, method or class, arguments that cannot be read, no room
├── EffectsConflictError      its effects could not be taken; nothing of them happened
├── HostLostError             the host of the actor ended before the call did; its effects happened whole or not at all
├── NoHostError               there is no host to make an actor on
├── CircularWaitError         it waited for an actor that waits, over others perhaps, for it
├── ResultExpiredError        the result was dropped, since the flow's bounds were reached
├── ResultLostError           the result is gone, although somebody still referred to it
├── FlowLostError             the flow ended, or its connection did, before the call was answered
├── FlowFullError             the bounds of the flow are reached; nothing was sent
├── WaitLimitError            too many methods wait already; this one may not
├── ValueRefusedError         a value that cannot be sent; nothing was sent
│   └── ValueTooLargeError        larger than a named limit
└── NoWorldError              a local flow has no world to act on
"""

from __future__ import annotations

import builtins
import traceback
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from ecumene.client.errors import EcumeneError

CAUSES_MAX = 8
TEXT_CHARS_MAX = 2_000
THROUGH_MAX = 16


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a call failed."""

    actor: str = ""
    """Id of the actor."""
    class_name: str = ""
    method: str = ""
    """"" = its constructor."""
    host: str = ""
    place: str = ""
    """The line of the actor's code, as file:line."""

    def __str__(self) -> str:
        name = f"{self.class_name.rpartition(':')[2]}.{self.method or '__init__'}" if self.class_name else self.actor
        return f"{name} of {self.actor} on {self.host}" + (f" ({self.place})" if self.place else "")


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure as it travels: no object of the place it came from, no code."""

    code: str
    """Which class of ours stands for it."""
    text: str
    kind: str = ""
    """Name of the class that was raised, for CallFailedError."""
    origin: Origin = field(default_factory=Origin)
    causes: tuple[str, ...] = ()
    """What led to it, nearest first, each as "Class: text"."""
    through: tuple[str, ...] = ()
    """Calls that it came through, since it was among their arguments: first the one that had it first."""

    def passed_through(self, call: str) -> Failure:
        """The same for a call that depended on it."""
        through = (*self.through, call)[:THROUGH_MAX]
        return Failure(self.code, self.text, self.kind, self.origin, self.causes, through)

    def describe(self) -> str:
        """One readable line."""
        line = f"{self.origin}: " if self.origin.actor else ""
        line += f"{self.kind}: {self.text}" if self.kind else self.text
        if self.causes:
            line += "; caused by " + "; caused by ".join(self.causes)
        if self.through:
            line += "; reached through " + ", ".join(self.through)
        return " ".join(line.split())

    def to_plain(self) -> dict[str, Any]:
        """As plain data."""
        origin = self.origin
        return {
            "code": self.code,
            "text": self.text,
            "kind": self.kind,
            "origin": [origin.actor, origin.class_name, origin.method, origin.host, origin.place],
            "causes": list(self.causes),
            "through": list(self.through),
        }

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Failure:
        """From plain data; what is missing stays empty."""
        return cls(
            code=str(plain.get("code", "")),
            text=str(plain.get("text", "")),
            kind=str(plain.get("kind", "")),
            origin=Origin(*map(str, plain.get("origin", ())[:5])),
            causes=tuple(map(str, plain.get("causes", ()))),
            through=tuple(map(str, plain.get("through", ()))),
        )


class WorkflowError(EcumeneError):
    """Root of what workflows raise; `str()` is one line."""

    code = "WORKFLOW"

    def __init__(self, failure: Failure | str = "") -> None:
        self.failure: Failure = Failure(self.code, failure) if isinstance(failure, str) else failure
        super().__init__(self.failure.describe())

    def __str__(self) -> str:
        # Not that of a built-in class that a CallFailedError may be as well.
        return self.failure.describe()

    @property
    def origin(self) -> Origin:
        """Where it happened; empty fields where that is not known."""
        return self.failure.origin


class CallFailedError(WorkflowError):
    """A method of an actor raised. Where it raised a built-in exception, this is an instance of that class, too."""

    code = "RAISED"

    @property
    def kind(self) -> str:
        """Name of the class that was raised."""
        return self.failure.kind


class CallTimeoutError(CallFailedError, TimeoutError):
    """A call took longer than its `timeout_s`."""

    code = "TIMEOUT"


class CallRefusedError(WorkflowError):
    """The call was not run."""

    code = "REFUSED"


class EffectsConflictError(WorkflowError):
    """The effects of a call could not be taken, so none was; a rerun may succeed."""

    code = "CONFLICT"


class HostLostError(WorkflowError):
    """The host of an actor ended before the call did. Its effects happened whole, or not at all."""

    code = "HOST_LOST"


class NoHostError(WorkflowError):
    """There is no host."""

    code = "NO_HOST"


class CircularWaitError(WorkflowError):
    """A method would have waited for itself, over other actors perhaps."""

    code = "CIRCULAR_WAIT"


class ResultExpiredError(WorkflowError):
    """The result was dropped to keep the flow within its bounds."""

    code = "RESULT_EXPIRED"


class ResultLostError(WorkflowError):
    """The result is gone."""

    code = "RESULT_LOST"


class FlowLostError(WorkflowError):
    """The flow ended before the call was answered; it may have had its effects."""

    code = "FLOW_LOST"


class FlowFullError(WorkflowError):
    """A bound of the flow is reached; the call was not sent."""

    code = "FLOW_FULL"


class WaitLimitError(WorkflowError):
    """As many methods of the host wait in blocking code as may."""

    code = "WAIT_LIMIT"


class ValueRefusedError(WorkflowError):
    """A value that has no form in a message."""

    code = "VALUE_REFUSED"


class ValueTooLargeError(ValueRefusedError):
    """A value larger than a named limit."""

    code = "VALUE_TOO_LARGE"

    @classmethod
    def of(cls, what: str, limit_name: str, limit: int, actual: int) -> ValueTooLargeError:
        """For a value that has `actual` bytes in its encoded form."""
        return cls(f"{what} takes {actual} bytes; {limit_name} is {limit}")


class NoWorldError(WorkflowError):
    """A local flow acts on no world."""

    code = "NO_WORLD"


def _find_error_classes() -> dict[str, type[WorkflowError]]:
    """Our class of each code."""
    found, open_classes = {}, [WorkflowError]
    while open_classes:
        error_class = open_classes.pop()
        found[error_class.code] = error_class
        open_classes += error_class.__subclasses__()
    return found


ERROR_CLASSES = _find_error_classes()
"""Our class of each code."""
_TWINS: dict[str, type[CallFailedError]] = {}


def to_error(failure: Failure) -> WorkflowError:
    """The exception that stands for a failure; a new one each time, so that tracebacks do not gather."""
    error_class = ERROR_CLASSES.get(failure.code, WorkflowError)
    return (_find_twin(failure.kind) if error_class is CallFailedError else error_class)(failure)


def _find_twin(kind: str) -> type[CallFailedError]:
    """A CallFailedError that is a built-in exception as well; only names of `builtins`, nothing is imported."""
    twin = _TWINS.get(kind)
    if twin is not None:
        return twin
    raised = getattr(builtins, kind, None)
    twin = CallFailedError
    if isinstance(raised, type) and issubclass(raised, Exception) and raised is not Exception:
        try:
            twin = type("CallFailedError", (CallFailedError, raised), {"__module__": __name__})
            twin(Failure("RAISED", ""))
        except TypeError:
            twin = CallFailedError  # one that cannot be made of a message alone
    _TWINS[kind] = twin
    return twin


def describe_exception(error: BaseException, origin: Origin) -> Failure:
    """What travels of an exception that a method raised.

    A failure that a method met in a placeholder keeps its own origin, and says that it came through here.
    """
    try:
        return _describe_whole(error, origin)
    except Exception:  # noqa: BLE001 - a defect of a foreign class must not hide that it was raised
        return Failure("RAISED", _cut(error), type(error).__name__, origin)


def _describe_whole(error: BaseException, origin: Origin) -> Failure:
    if isinstance(error, WorkflowError) and error.failure.origin.actor:
        return error.failure.passed_through(f"{origin.class_name.rpartition(':')[2]}.{origin.method or '__init__'}")
    at = Origin(origin.actor, origin.class_name, origin.method, origin.host, _find_place(error))
    causes = tuple(f"{type(cause).__name__}: {_cut(cause)}" for cause in _list_causes(error))
    if isinstance(error, WorkflowError):
        return Failure(error.code, error.failure.text, error.failure.kind, at, causes)
    return Failure("RAISED", _cut(error), type(error).__name__, at, causes)


def _list_causes(error: BaseException) -> list[BaseException]:
    causes: list[BaseException] = []
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    while (
        cause is not None
        and cause is not error
        and all(cause is not known for known in causes)
        and len(causes) < CAUSES_MAX
    ):
        causes.append(cause)
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)
    return causes


def _find_place(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"{PurePath(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""


def _cut(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - a defect of a foreign class must not hide that it was raised
        text = "(its text cannot be had)"
    text = text if len(text) <= TEXT_CHARS_MAX else text[:TEXT_CHARS_MAX] + " …"
    # Half a surrogate can be told to nobody.
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
