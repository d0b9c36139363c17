"""An auction: lots are called, bids rise, and when the time is up the highest one wins.

    /auction            lot       {"number", "item", "open", "generation", "best": {"bidder", "amount"} or null}
                        bids      stream of accepted bids
                        results   stream of closed lots, with "winner" and "price" or null
    /auction/bidding    gate "closing", whose deadline is the end of the lot

The time is the server's own: the gate opens when it is up, and bids are refused from that revision on, whoever asks. A
listener then writes the result. Both survive a restart; like every deadline of a gate, that of an open lot then begins
anew. Of equal bids the first counts: each must exceed the one before.

Config: reserve (lowest accepted bid, default 1), step (least increase, default 1). Events: `lot.opened`, `lot.closed`.
"""

from typing import Annotated, Any, ClassVar

from pydantic import Field, TypeAdapter
from typing_extensions import TypedDict

from env_server.behaviours.behaviour import Behaviour, Target, listener, operation
from env_server.behaviours.context import Context
from env_server.behaviours.event import Event
from env_server.behaviours.kept_state import get_config, get_kept
from env_server.model.changes import EventType
from env_server.model.environments import Declaration, Gate

BIDDING = "bidding"
GATE = "closing"
LOT = "lot"
Name = Annotated[str, Field(min_length=1, max_length=64)]
Amount = Annotated[int, Field(ge=1, le=10**15)]


class _Bid(TypedDict):
    bidder: str
    amount: int


class _Lot(TypedDict):
    number: int
    item: str
    open: bool
    generation: int
    best: _Bid | None


class _Rules(TypedDict, total=False):
    reserve: int
    step: int


_LOT = TypeAdapter(_Lot)
_RULES = TypeAdapter(_Rules)


def _bidding(path: str) -> str:
    return f"{path.rstrip('/')}/{BIDDING}"


class Auction(Behaviour):
    """An auction with one lot at a time."""

    kind: ClassVar[str] = "auction"

    @operation(writes=lambda path, item, seconds: [Target(path, ""), Target(path, LOT), Target(_bidding(path), "")])
    async def open(self, ctx: Context, item: Name, seconds: Annotated[float, Field(gt=0, le=10**7)]) -> dict[str, Any]:
        """Calls a lot, for which bids are accepted during so many seconds. Refused with `lot_open` while one is."""
        before = get_kept(ctx, LOT, _LOT)
        number = 0 if before is None else before["number"]
        if before is not None and before["open"]:
            ctx.refuse("lot_open", f"lot {number} is not closed", lot=str(number))
        generation = _generation(ctx) + 1
        lot = {
            "number": number + 1,
            "item": item,
            "open": True,
            "generation": generation,
            "best": None,
        }
        ctx.register_child(BIDDING, Declaration(gates=(Gate(GATE),)))
        ctx.begin_generation(_bidding(ctx.path), GATE, 0, max(1, round(seconds * 1000)))
        ctx.set(LOT, lot)
        ctx.emit("lot.opened", {"number": lot["number"], "item": item, "seconds": seconds})
        return lot

    @operation(writes=lambda path, bidder, amount: [Target(path, LOT), Target(path, "bids")])
    async def bid(self, ctx: Context, bidder: Name, amount: Amount) -> dict[str, Any]:
        """Bids for the open lot.

        Refused with `closed` when there is none or its time is up, and with `too_low` and the least amount that is
        accepted.
        """
        lot = get_kept(ctx, LOT, _LOT)
        if lot is None or not lot["open"] or not _is_collecting(ctx):
            ctx.refuse("closed", "no lot is open")
        least = _least_bid(ctx, lot)
        if amount < least:
            ctx.refuse("too_low", f"the next bid is at least {least}", least=str(least))
        best = {"bidder": bidder, "amount": amount}
        ctx.set(LOT, {**lot, "best": best})
        ctx.append("bids", {"lot": lot["number"], **best})
        return {"lot": lot["number"], **best}

    @operation(writes=lambda path: [Target(_bidding(path), "")])
    async def close(self, ctx: Context) -> None:
        """Ends the open lot before its time; the result follows. Refused with `closed` when no lot is open."""
        if not _is_collecting(ctx):
            ctx.refuse("closed", "no lot is open")
        ctx.open_gate(_bidding(ctx.path), GATE, _generation(ctx))

    @listener(
        types=[EventType.GATE_OPENED],
        path=BIDDING,
        key=GATE,
        writes=lambda path, event: [Target(path, LOT), Target(path, "results")],
    )
    async def settle(self, ctx: Context, event: Event) -> None:
        """Writes the result once the time is up."""
        lot = get_kept(ctx, LOT, _LOT)
        if lot is None or not lot["open"] or lot["generation"] != event.value["generation"]:
            return
        best = lot["best"]
        result = {
            "number": lot["number"],
            "item": lot["item"],
            "winner": best["bidder"] if best else None,
            "price": best["amount"] if best else None,
        }
        ctx.set(LOT, {**lot, "open": False})
        ctx.append("results", result)
        ctx.emit("lot.closed", result)


def _gate(ctx: Context) -> Gate | None:
    known = ctx.environment(_bidding(ctx.path))
    return known.gates[0].gate if known is not None and known.gates else None


def _generation(ctx: Context) -> int:
    gate = _gate(ctx)
    return gate.generation if gate is not None else 0


def _is_collecting(ctx: Context) -> bool:
    gate = _gate(ctx)
    return gate is not None and gate.collecting


def _least_bid(ctx: Context, lot: _Lot) -> int:
    rules = get_config(ctx, _RULES)
    if lot["best"] is None:
        return rules.get("reserve", 1)
    return lot["best"]["amount"] + max(1, rules.get("step", 1))
