"""JSON form of what is kept for a repeated request: outcomes of ops and answers of frames.

Errors are stored by what they say, not by how their class builds its message: a class that this version does not
know decodes as the nearest ancestor that it does know, with the same reason, message and metadata.
"""

import base64
import json
from typing import Any, Final

from env_server.model import errors
from env_server.model.errors import Executed, Reason, WorldError
from env_server.model.frames import Answer, Invoked, Listed, Outcome, Transacted, Written
from env_server.model.values import Json, Value
from env_server.storage.declarations import json_of, text_of

_encode = json.JSONEncoder(separators=(",", ":")).encode

_ERRORS: Final[dict[str, type[WorldError]]] = {
    name: part for name, part in vars(errors).items() if isinstance(part, type) and issubclass(part, WorldError)
}


def encode_outcome(outcome: Outcome) -> bytes:
    """The outcome of a write as JSON.

    Raises:
        TypeError: reads are not kept; a repeated one is read again.
    """
    return _encode(_outcome_form(outcome)).encode()


def decode_outcome(data: bytes) -> Outcome:
    """The outcome that was encoded.

    Raises:
        ValueError, KeyError, TypeError: it was not; the caller knows which row to blame.
    """
    return _outcome_of(json.loads(data))


def encode_answer(answer: Answer) -> bytes:
    """The answer of a frame, without reads, as JSON.

    Raises:
        TypeError: it holds a read.
    """
    return _encode(answer_form(answer)).encode()


def decode_answer(data: bytes) -> Answer:
    """The answer that was encoded.

    Raises:
        ValueError, KeyError, TypeError: it was not; the caller knows which row to blame.
    """
    return answer_of(json.loads(data))


def answer_form(answer: Answer) -> dict[str, Any]:
    """What JSON needs of an answer; defaults left out."""
    form: dict[str, Any] = {"seq": answer.seq, "count": answer.count, "base": answer.base_revision}
    if answer.part:
        form["part"] = answer.part
    if answer.without_revision:
        form["without"] = answer.without_revision
    if answer.outcomes:
        form["outcomes"] = [
            [listed.index, _outcome_form(listed.outcome), int(listed.duplicate)] for listed in answer.outcomes
        ]
    if answer.pending:
        form["pending"] = answer.pending
    if answer.versions is not None:
        form["versions"] = answer.versions
    if answer.revision:
        form["revision"] = answer.revision
    if answer.dropped:
        form["dropped"] = answer.dropped
    return form


def answer_of(form: dict[str, Any]) -> Answer:
    """The answer of `answer_form`."""
    return Answer(
        seq=form["seq"],
        count=form["count"],
        base_revision=form["base"],
        part=form.get("part", 0),
        without_revision=form.get("without", []),
        outcomes=[
            Listed(index, _outcome_of(outcome), bool(duplicate))
            for index, outcome, duplicate in form.get("outcomes", ())
        ],
        pending=form.get("pending", []),
        versions=form.get("versions"),
        revision=form.get("revision", 0),
        dropped=form.get("dropped", []),
    )


def _outcome_form(outcome: Outcome) -> dict[str, Any]:
    if isinstance(outcome, Written):
        return {"written": _written_form(outcome)}
    if isinstance(outcome, WorldError):
        return {"error": _error_form(outcome)}
    if isinstance(outcome, Invoked):
        return {"invoked": [outcome.revision, text_of(outcome.result), int(outcome.changed)]}
    if isinstance(outcome, Transacted):
        written = [_written_form(part) for part in outcome.written]
        return {"transacted": [outcome.revision, written, int(outcome.otherwise)]}
    raise TypeError(f"{type(outcome).__name__} is not kept")


def _outcome_of(form: dict[str, Any]) -> Outcome:
    ((tag, content),) = form.items()
    if tag == "written":
        return _written_of(content)
    if tag == "error":
        return _error_of(content)
    if tag == "invoked":
        revision, text, changed = content
        return Invoked(revision, json_of(text), bool(changed))
    if tag == "transacted":
        revision, written, otherwise = content
        return Transacted(revision, tuple(_written_of(part) for part in written), bool(otherwise))
    raise ValueError(f"unknown outcome {tag!r}")


def _written_form(written: Written) -> list[Any]:
    return [written.revision, written.version, _value_form(written.value), written.sequence, int(written.changed)]


def _written_of(form: list[Any]) -> Written:
    revision, version, value, sequence, changed = form
    return Written(revision, version, _value_of(value), sequence, bool(changed))


def _error_form(error: WorldError) -> dict[str, Any]:
    name = next(part.__name__ for part in type(error).__mro__ if _ERRORS.get(part.__name__) is part)
    form: dict[str, Any] = {"class": name, "reason": int(error.reason), "message": error.message}
    if error.metadata:
        form["metadata"] = error.metadata
    if error.violations:
        form["violations"] = error.violations
    if error.retry_delay_ms:
        form["retry_delay_ms"] = error.retry_delay_ms
    form["executed"] = int(error.executed)
    return form


def _error_of(form: dict[str, Any]) -> WorldError:
    kind = _ERRORS.get(form["class"], WorldError)
    error = kind.__new__(kind)
    # Not the class's own __init__: that one would build the message again from parts that are not stored.
    WorldError.__init__(
        error,
        Reason(form["reason"]),
        form["message"],
        metadata=form.get("metadata"),
        violations=tuple((field, problem) for field, problem in form.get("violations", ())),
        retry_delay_ms=form.get("retry_delay_ms", 0),
    )
    error.executed = Executed(form["executed"])
    return error


def _value_form(value: Value) -> Any:
    """Null, boolean and number stand for themselves, other kinds in an object of one member."""
    if isinstance(value, str):
        return {"text": value}
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, Json):
        return {"json": text_of(value)}
    return value


def _value_of(form: Any) -> Value:
    if not isinstance(form, dict):
        return form
    ((kind, content),) = form.items()
    if kind == "text":
        return str(content)
    if kind == "bytes":
        return base64.b64decode(content)
    return json_of(content)
