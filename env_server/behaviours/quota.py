"""A limit that many share: so much in any minute, so much in all. Nobody gets more than there is, whoever crashes.

    /runtime/quotas/gpt     window    {"process", "slots": [[slot, requests, tokens], ...], "waiting": [...], "askers"}
                            budget    {"tokens", "microdollars"}: drawn and not given back

A taker gets a *share* of the minute, which it must use within `ttl_ms`. The share weighs from its slot (a quarter of a
second) until the last moment at which it may have been used and have arrived, and 60 s more: so no 60 seconds see more
than the limit, and at least 60/63.75 of it can be used. What was not used can be given back, and counts no longer. A
part of the *budget* is drawn to keep; what a taker that dies had drawn is lost, and was never spent twice.

Takers that find nothing are served in the order in which they came, before others get more than they need.

Config: any of requests_per_minute, tokens_per_minute, tokens_max, microdollars_max; what is absent is not limited.
"""

import secrets
from typing import Annotated, Any, ClassVar

from pydantic import Field, TypeAdapter
from typing_extensions import TypedDict

from env_server.behaviours.behaviour import Behaviour, Target, operation
from env_server.behaviours.context import Context
from env_server.behaviours.kept_state import get_config, get_kept

WINDOW = "window"
BUDGET = "budget"
MINUTE_MS = 60_000
TTL_MS = 1_500
TRANSIT_MS = 2_000
"""How long a request that was sent in time may be on its way."""
SLOT_MS = 250
ACTIVE_MS = 5_000
"""Whoever asked in this time, or waits, shares what is left."""
WAIT_MIN_MS = 50
WAITING_MAX = 1_000

Count = Annotated[int, Field(ge=0, le=10**15)]
Change = Annotated[int, Field(ge=-(10**15), le=10**15)]
Member = Annotated[str, Field(min_length=1, max_length=128)]
Unused = Annotated[list[tuple[Count, Change, Change]], Field(max_length=1_000)]


class _Limits(TypedDict, total=False):
    requests_per_minute: Count
    tokens_per_minute: Count
    tokens_max: Count
    microdollars_max: Count


class _Window(TypedDict):
    process: str
    slots: list[list[int]]
    waiting: list[list[Any]]
    askers: dict[str, int]


class _Drawn(TypedDict):
    tokens: int
    microdollars: int


_LIMITS = TypeAdapter(_Limits)
_WINDOW = TypeAdapter(_Window)
_DRAWN = TypeAdapter(_Drawn)
_UNLIMITED = 10**15


class Quota(Behaviour):
    """A limit of requests, tokens and money that many share."""

    kind: ClassVar[str] = "quota"

    def __init__(self) -> None:
        # Tells whether the clock is still the one by which a slot was noted.
        self._process = secrets.token_hex(8)

    @operation(writes=lambda path, member, requests, tokens, least_tokens, unused=(): [Target(path, WINDOW)])
    async def take(
        self,
        ctx: Context,
        member: Member,
        requests: Annotated[int, Field(ge=1, le=10**9)],
        tokens: Count,
        least_tokens: Count,
        unused: Unused = [],  # noqa: B006 - read, never changed
    ) -> dict[str, int]:
        """A share of the minute: at most so many requests and tokens, at least one request and `least_tokens`.

        Returns `share`, `requests`, `tokens` and `ttl_ms`, or `requests` 0 and in `wait_ms` when to ask again. `unused`
        gives back parts of earlier shares, as [share, requests, tokens]; negative tokens were used in excess.
        Refused with `too_large` when `least_tokens` exceed the limit of a minute.
        """
        limits = get_config(ctx, _LIMITS)
        requests_max = limits.get("requests_per_minute", _UNLIMITED)
        tokens_max = limits.get("tokens_per_minute", _UNLIMITED)
        if least_tokens > tokens_max:
            ctx.refuse(
                "too_large", f"{least_tokens} tokens exceed the {tokens_max} of a minute", tokens=str(tokens_max)
            )
        now_ms = ctx.monotonic_ms()
        window = self._read_window(ctx, now_ms)
        _take_back(window, unused)
        free_requests = requests_max - sum(slot[1] for slot in window["slots"])
        free_tokens = tokens_max - sum(slot[2] for slot in window["slots"])
        ahead = _find_ahead(window, member)
        given = _share_out(
            requests,
            tokens,
            least_tokens,
            free_requests - len(ahead),
            free_tokens - sum(waiting[1] for waiting in ahead),
            len({*window["askers"], *(waiting[0] for waiting in window["waiting"]), member}),
        )
        window["askers"][member] = now_ms
        if given is None:
            wait_ms = _find_wait_ms(window, now_ms, 1 - free_requests, least_tokens - free_tokens)
            _note_waiting(window, member, least_tokens, now_ms + wait_ms + ACTIVE_MS)
            ctx.set(WINDOW, window)
            return {"requests": 0, "tokens": 0, "wait_ms": wait_ms}
        window["waiting"] = [waiting for waiting in window["waiting"] if waiting[0] != member]
        share = now_ms // SLOT_MS
        _add_to_slot(window, share, *given)
        ctx.set(WINDOW, window)
        return {"share": share, "requests": given[0], "tokens": given[1], "ttl_ms": TTL_MS}

    @operation(writes=lambda path, **_: [Target(path, BUDGET)])
    async def draw(
        self,
        ctx: Context,
        tokens: Count,
        microdollars: Count,
        least_tokens: Count = 0,
        least_microdollars: Count = 0,
    ) -> dict[str, int]:
        """A part of the budget, to keep: `tokens` and `microdollars`, both 0 when less than the least is left."""
        limits = get_config(ctx, _LIMITS)
        drawn = get_kept(ctx, BUDGET, _DRAWN) or {"tokens": 0, "microdollars": 0}
        left_tokens = max(0, limits.get("tokens_max", _UNLIMITED) - drawn["tokens"])
        left_microdollars = max(0, limits.get("microdollars_max", _UNLIMITED) - drawn["microdollars"])
        if left_tokens < least_tokens or left_microdollars < least_microdollars:
            return {"tokens": 0, "microdollars": 0}
        part = {"tokens": min(tokens, left_tokens), "microdollars": min(microdollars, left_microdollars)}
        ctx.set(BUDGET, {name: drawn[name] + part[name] for name in ("tokens", "microdollars")})
        return part

    @operation(writes=lambda path, **_: [Target(path, BUDGET), Target(path, WINDOW)])
    async def give_back(
        self,
        ctx: Context,
        tokens: Change = 0,
        microdollars: Change = 0,
        unused: Unused = [],  # noqa: B006 - read, never changed
    ) -> None:
        """Gives back what was drawn and not spent, and parts of shares; negative: spent in excess of what was drawn."""
        drawn = get_kept(ctx, BUDGET, _DRAWN)
        if drawn is not None and (tokens or microdollars):
            left = (max(0, drawn["tokens"] - tokens), max(0, drawn["microdollars"] - microdollars))
            ctx.set(BUDGET, {"tokens": left[0], "microdollars": left[1]})
        if unused:
            window = self._read_window(ctx, ctx.monotonic_ms())
            _take_back(window, unused)
            ctx.set(WINDOW, window)

    def _read_window(self, ctx: Context, now_ms: int) -> _Window:
        """The window without what no longer weighs."""
        window = get_kept(ctx, WINDOW, _WINDOW)
        if window is None:
            return {"process": self._process, "slots": [], "waiting": [], "askers": {}}
        if window["process"] != self._process:
            # By this clock nobody knows when the slots were noted: all count from now on.
            used = [sum(slot[1] for slot in window["slots"]), sum(slot[2] for slot in window["slots"])]
            slots = [[now_ms // SLOT_MS, *used]] if any(used) else []
            return {"process": self._process, "slots": slots, "waiting": [], "askers": {}}
        window["slots"] = [slot for slot in window["slots"] if _end_ms(slot[0]) > now_ms]
        window["waiting"] = [waiting for waiting in window["waiting"] if waiting[2] > now_ms]
        window["askers"] = {name: at_ms for name, at_ms in window["askers"].items() if at_ms + ACTIVE_MS > now_ms}
        return window


def _end_ms(slot: int) -> int:
    """When a slot no longer weighs."""
    return (slot + 1) * SLOT_MS + TTL_MS + TRANSIT_MS + MINUTE_MS


def _take_back(window: _Window, unused: list[tuple[int, int, int]]) -> None:
    by_slot = {slot[0]: slot for slot in window["slots"]}
    for share, requests, tokens in unused:
        slot = by_slot.get(share)
        if slot is not None:
            slot[1] = max(0, slot[1] - requests)
            slot[2] = max(0, slot[2] - tokens)


def _add_to_slot(window: _Window, share: int, requests: int, tokens: int) -> None:
    for slot in window["slots"]:
        if slot[0] == share:
            slot[1] += requests
            slot[2] += tokens
            return
    window["slots"].append([share, requests, tokens])


def _find_ahead(window: _Window, member: str) -> list[list[Any]]:
    """Those who wait and came before a member."""
    ahead = []
    for waiting in window["waiting"]:
        if waiting[0] == member:
            break
        ahead.append(waiting)
    return ahead


def _note_waiting(window: _Window, member: str, least_tokens: int, until_ms: int) -> None:
    for waiting in window["waiting"]:
        if waiting[0] == member:
            waiting[1:] = [least_tokens, until_ms]
            return
    if len(window["waiting"]) < WAITING_MAX:
        window["waiting"].append([member, least_tokens, until_ms])


def _share_out(
    requests: int, tokens: int, least_tokens: int, free_requests: int, free_tokens: int, members: int
) -> tuple[int, int] | None:
    """What a member gets of what is free: what it wants, but no more than its part; None = less than it needs."""
    if free_requests < 1 or free_tokens < least_tokens:
        return None
    given_requests = min(requests, -(-free_requests // members))
    given_tokens = max(least_tokens, min(tokens, -(-free_tokens // members)))
    return given_requests, given_tokens


def _find_wait_ms(window: _Window, now_ms: int, lacking_requests: int, lacking_tokens: int) -> int:
    """When so much will be free again."""
    for slot in window["slots"]:
        lacking_requests -= slot[1]
        lacking_tokens -= slot[2]
        if lacking_requests <= 0 and lacking_tokens <= 0:
            return max(WAIT_MIN_MS, _end_ms(slot[0]) - now_ms)
    return WAIT_MIN_MS
