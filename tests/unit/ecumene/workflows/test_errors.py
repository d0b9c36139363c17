"""Failures travel as plain data and come out as the class that stands for them."""

from __future__ import annotations

import pytest
from ecumene import EcumeneError, workflows
from ecumene.workflows.errors import (
    CAUSES_MAX,
    ERROR_CLASSES,
    TEXT_CHARS_MAX,
    THROUGH_MAX,
    CallFailedError,
    Failure,
    Origin,
    WorkflowError,
    describe_exception,
    to_error,
)

ORIGIN = Origin("wf.1.2", "debate:Debater", "answer", "ann")


def raise_chain(length: int) -> None:
    """An exception with so many causes."""
    if length == 0:
        raise LookupError("the first")
    try:
        raise_chain(length - 1)
    except LookupError as error:
        raise LookupError(f"number {length}") from error


def catch(length: int) -> Failure:
    with pytest.raises(LookupError) as caught:
        raise_chain(length)
    return describe_exception(caught.value, ORIGIN)


def test_every_code_has_one_class_and_comes_back_as_it() -> None:
    classes = ERROR_CLASSES
    assert len(classes) == len({error_class.code for error_class in classes.values()})
    for code, error_class in classes.items():
        error = to_error(Failure(code, "what", origin=ORIGIN))
        assert type(error) is error_class and isinstance(error, EcumeneError)
        assert "Debater.answer of wf.1.2 on ann: what" in str(error)
        assert getattr(workflows, error_class.__name__) is error_class


def test_plain_data_holds_all_of_it() -> None:
    failure = catch(2).passed_through("Judge.choose")
    assert Failure.from_plain(failure.to_plain()) == failure
    assert failure.causes == ("LookupError: number 1", "LookupError: the first")
    assert failure.origin.place.startswith("test_errors.py:")
    assert str(to_error(failure)) == (
        f"Debater.answer of wf.1.2 on ann ({failure.origin.place}): LookupError: number 2; caused by LookupError: "
        "number 1; caused by LookupError: the first; reached through Judge.choose"
    )


def test_what_is_missing_or_foreign_does_not_hide_the_failure() -> None:
    error = to_error(Failure.from_plain({"code": "OF_TOMORROW", "text": "?"}))
    assert type(error) is WorkflowError and "?" in str(error)
    assert Failure.from_plain({}).describe() == ""


@pytest.mark.parametrize(
    "raised",
    [
        ValueError("x"),
        KeyError("x"),
        FileNotFoundError(2, "no", "f"),
        RecursionError("x"),
        ArithmeticError(),
        TypeError("x"),
    ],
)
def test_built_in_exceptions_are_caught_by_their_own_names(raised: Exception) -> None:
    error = to_error(describe_exception(raised, ORIGIN))
    assert isinstance(error, type(raised)) and isinstance(error, CallFailedError)
    assert type(raised).__name__ in str(error)


def test_what_cannot_be_made_of_a_message_and_what_is_no_exception_stays_a_failed_call() -> None:
    decoding = UnicodeDecodeError("utf-8", b"x", 0, 1, "why")
    for raised in (decoding, SystemExit(3), type("MineError", (Exception,), {})("x"), Exception("x")):
        error = to_error(describe_exception(raised, ORIGIN))
        assert isinstance(error, CallFailedError) and error.kind == type(raised).__name__
    # Names that are no exceptions are no classes to be.
    assert type(to_error(Failure("RAISED", "x", kind="print"))) is CallFailedError
    assert type(to_error(Failure("RAISED", "x", kind="os.system"))) is CallFailedError


def test_all_of_it_is_bounded() -> None:
    failure = catch(40)
    assert len(failure.causes) == CAUSES_MAX
    for number in range(40):
        failure = failure.passed_through(f"step {number}")
    assert len(failure.through) == THROUGH_MAX and failure.through[0] == "step 0"
    long = describe_exception(ValueError("x" * 10 * TEXT_CHARS_MAX), ORIGIN)
    assert len(long.text) <= TEXT_CHARS_MAX + 2


def test_a_text_that_cannot_be_had_hides_nothing() -> None:
    class Odd(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert describe_exception(Odd(), ORIGIN).describe().endswith("Odd: (its text cannot be had)")


def test_a_failure_met_in_a_method_keeps_its_origin() -> None:
    inner = catch(0)
    passed = describe_exception(to_error(inner), Origin("wf.1.3", "debate:Judge", "choose", "bob"))
    assert (passed.origin, passed.through) == (inner.origin, ("Judge.choose",))
