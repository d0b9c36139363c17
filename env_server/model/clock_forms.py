"""Clocks as JSON: in events of environments, and in what is stored of them."""

from typing import Any

from env_server.model.timelines import ClockDeclaration, ClockMode


def clock_form(clock: ClockDeclaration) -> dict[str, Any]:
    """What JSON needs of a clock; defaults are left out, but its start and the rate of a realtime one."""
    form: dict[str, Any] = {"mode": clock.mode.name.lower(), "start_ns": clock.start_ns}
    if clock.mode is ClockMode.REALTIME or clock.rate != 1.0:
        form["rate"] = clock.rate
    if clock.paused:
        form["paused"] = True
    if clock.lookahead_ns is not None:
        form["lookahead_ns"] = clock.lookahead_ns
    if clock.participants_path:
        form["participants_path"] = clock.participants_path
    return form


def clock_of(form: dict[str, Any]) -> ClockDeclaration:
    """The clock of `clock_form`, or of what was stored before: modes were numbers, and a start of 0 was left out.

    Raises:
        ValueError, KeyError, TypeError: it is none.
    """
    mode = form["mode"]
    return ClockDeclaration(
        ClockMode[mode.upper()] if isinstance(mode, str) else ClockMode(mode),
        form.get("start_ns", 0),
        form.get("rate", 1.0),
        form.get("paused", False),
        form.get("lookahead_ns"),
        form.get("participants_path", ""),
    )
