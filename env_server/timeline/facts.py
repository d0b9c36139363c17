"""Clocks and timers as the facts that are stored of them, and the documents that events tell of them.

The fact of a clock is kept under the number of its environment, that of a timer under "number/name".
"""

import json
from typing import Any

from env_server.model.timelines import ClockDeclaration, ClockState, MissedTicks, Timer
from env_server.model.values import Json
from env_server.timeline.ticks import Tick
from env_server.timeline.timeline import Timeline, TimerKey

_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


def begin(declaration: ClockDeclaration) -> ClockState:
    """Where a clock stands that was just declared."""
    return ClockState(declaration.start_ns, declaration.rate, declaration.paused)


def encode_clock(state: ClockState) -> bytes:
    """The fact of a clock; what is as usual is left out."""
    form: dict[str, Any] = {"now": state.now_ns}
    if state.rate != 1.0:
        form["rate"] = state.rate
    if state.paused:
        form["paused"] = True
    if state.target_ns is not None:
        form["target"] = state.target_ns
    if state.skipping:
        form["skipping"] = True
    if state.stepping:
        form["stepping"] = True
    return _encode(form).encode()


def decode_clock(fact: bytes) -> ClockState:
    """The clock of a fact."""
    form = json.loads(fact)
    rate, paused = form.get("rate", 1.0), form.get("paused", False)
    skipping, stepping = form.get("skipping", False), form.get("stepping", False)
    return ClockState(form["now"], rate, paused, form.get("target"), skipping, stepping)


def key_of(timer: TimerKey) -> str:
    """The key of a timer's fact."""
    return f"{timer[0]}/{timer[1]}"


def encode_timer(clock: int, timer: Timer) -> bytes:
    """The fact of a timer on the clock of the environment `clock`."""
    form: dict[str, Any] = {"clock": clock, "due": timer.due_ns, "order": timer.order}
    if timer.every_ns:
        form["every"] = timer.every_ns
    if timer.missed is not MissedTicks.COALESCE:
        form["missed"] = int(timer.missed)
    if timer.fired:
        form["fired"] = timer.fired
    if timer.left_out:
        form["left_out"] = timer.left_out
    if timer.payload is not None:
        form["payload"] = timer.payload.text.decode("utf-8", "surrogatepass")
    return _encode(form).encode("utf-8", "surrogatepass")


def decode_timer(key: str, fact: bytes) -> tuple[int, TimerKey, Timer]:
    """The timer of a fact, and the number of the environment whose clock it is on."""
    form = json.loads(fact)
    number, _, name = key.partition("/")
    payload = form.get("payload")
    timer = Timer(
        name,
        form["due"],
        form["order"],
        form.get("every", 0),
        MissedTicks(form.get("missed", MissedTicks.COALESCE)),
        None if payload is None else Json(payload.encode("utf-8", "surrogatepass")),
        form.get("fired", 0),
        form.get("left_out", 0),
    )
    return form["clock"], (int(number), name), timer


def tell_clock(timeline: Timeline) -> Json:
    """What CLOCK_CHANGED tells."""
    state = timeline.state
    mode = timeline.declaration.mode.name.lower()
    return Json.of(
        {
            "mode": mode,
            "now_ns": state.now_ns,
            "rate": state.rate,
            "paused": state.paused,
            "target_ns": state.target_ns,
            "stepping": state.stepping,
        }
    )


def tell_setting(timer: Timer) -> Json:
    """What TIMER_SET tells."""
    form = f'{{"due_ns":{timer.due_ns},"every_ns":{timer.every_ns},"missed":"{timer.missed.name.lower()}","payload":'
    return _with_payload(form, timer)


def tell_firing(timer: Timer, tick: Tick, *, is_skipped: bool = False) -> Json:
    """What TIMER_FIRED tells of a tick of the timer, which a skip has passed or not."""
    last = ("true" if tick.next is None else "false") + (',"skipped":true' if is_skipped else "")
    fired = timer.fired + 1
    form = f'{{"due_ns":{tick.due_ns},"fired":{fired},"missed":{tick.missed},"last":{last},"payload":'
    return _with_payload(form, timer)


def _with_payload(form: str, timer: Timer) -> Json:
    """A document that ends with the payload, byte for byte."""
    return Json(b"".join((form.encode(), b"null" if timer.payload is None else timer.payload.text, b"}")))
