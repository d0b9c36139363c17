"""Farmers sell corn, bakers buy it; what they had together is what they have in the end.

ecumene serve --data-dir /tmp/example &
python examples/market.py
"""

from __future__ import annotations

import random
import sys
from typing import Any

from ecumene import sync

FARMERS = ("fay", "fred")
BAKERS = ("bea", "ben", "bo")


def main(address: str) -> None:
    """Trade in a new environment of the server's world."""
    chance = random.Random(7)
    with sync.connect(address) as world:
        market = world.environment("/corn-exchange")
        market.register(kind="market", if_absent=True)
        for name in FARMERS:
            market.invoke("deposit", trader=name, goods={"corn": 50})
        for name in BAKERS:
            market.invoke("deposit", trader=name, cash=500)
        before = wealth(market)
        for _ in range(40):
            selling = chance.random() < 0.5
            trader = chance.choice(FARMERS if selling else BAKERS)
            try:
                placed = market.invoke(
                    "place",
                    trader=trader,
                    side="sell" if selling else "buy",
                    good="corn",
                    price=chance.randint(8, 12),
                    quantity=chance.randint(1, 9),
                )
            except sync.OperationRefusedError:  # it has not enough left
                continue
            for fill in placed["fills"]:
                buyer, seller = (fill["trader"], trader) if selling else (trader, fill["trader"])
                print(f"{seller} sells {fill['quantity']} corn to {buyer} at {fill['price']}")
        after = wealth(market)
        print(f"money and corn before {before}, after {after}")
        if before != after:
            raise SystemExit("something was lost")


def wealth(market: Any) -> tuple[int, int]:
    """All money and corn: in accounts, and held by resting orders."""
    accounts = [market.invoke("account", trader=name) for name in (*FARMERS, *BAKERS)]
    book = market.invoke("book", good="corn")
    money = sum(account["cash"] for account in accounts) + sum(bid[0] * bid[3] for bid in book["bids"])
    corn = sum(account["goods"].get("corn", 0) for account in accounts) + sum(ask[3] for ask in book["asks"])
    return money, corn


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:7170")
