"""A lot is called, three people bid against each other, and when the time is up the server names the winner.

ecumene serve --data-dir /tmp/example &
python examples/auction.py
"""

from __future__ import annotations

import asyncio
import sys

import ecumene
from ecumene import EventType

SECONDS = 3.0


async def main(address: str) -> None:
    """Auction a vase in a new environment of the server's world."""
    async with ecumene.connect(address) as world:
        auction = world.environment("/saleroom")
        await auction.register(kind="auction", config={"reserve": 10, "step": 5}, if_absent=True)
        watch = auction.watch(types=[EventType.BEHAVIOUR])
        lot = await auction.invoke("open", item="vase", seconds=SECONDS)
        print(f"lot {lot['number']}: a {lot['item']}, {SECONDS:g} s")
        await asyncio.gather(*(bid(auction, name, limit) for name, limit in (("ada", 40), ("bob", 60), ("eve", 25))))
        async for event in watch:
            if event.key == "lot.closed" and event.value["number"] == lot["number"]:
                print(f"sold to {event.value['winner']} for {event.value['price']}")
                break
        await watch.aclose()
        try:
            await auction.invoke("bid", bidder="late", amount=1_000)
        except ecumene.OperationRefusedError as error:
            print(f"a late bid is refused: {error.details.metadata['code']}")


async def bid(auction: ecumene.Environment, name: str, limit: int) -> None:
    """Outbid whoever leads, as long as that is within the limit and the lot is open."""
    while (lot := (await auction.get("lot")).value)["open"]:
        best = lot["best"]
        if best is not None and best["bidder"] == name:
            await asyncio.sleep(0.02)
            continue
        amount = 10 if best is None else best["amount"] + 5
        if amount > limit:
            return
        try:
            await auction.invoke("bid", bidder=name, amount=amount)
            print(f"{name} bids {amount}")
        except ecumene.OperationRefusedError:  # somebody was faster, or the time is up
            continue


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:7170"))
