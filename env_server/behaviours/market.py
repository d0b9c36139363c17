"""A market: an order book for each good, by price and then by time; a trade moves money and goods in one revision.

    /market   account.<trader>   {"cash", "goods": {good: quantity}}: what is free to use
              book.<good>        {"bids", "asks"}: resting orders [price, order, trader, quantity], the best first
              last_order         number of the last order
              trades             stream: one item for each order that met others

What a resting order would cost is taken from the account when it is placed and given back when it is cancelled, so that
every trade can be paid: cash in accounts plus price × quantity of all bids, and goods in accounts plus those of all
asks, change by `deposit` and `withdraw` alone. Numbers are whole. A trade happens at the price of the order that
rested. An order that would meet one of its own trader cancels that one and goes on.
"""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, TypeAdapter
from typing_extensions import TypedDict

from env_server.behaviours.behaviour import Behaviour, operation
from env_server.behaviours.context import Context
from env_server.behaviours.kept_state import get_kept

TRADES_MAX = 100
"""Orders that one order may meet: what is left of it then is not placed."""
RESTING_MAX = 1000
"""Orders that may rest on one side of a book."""
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$")]
Price = Annotated[int, Field(ge=1, le=10**9)]
Quantity = Annotated[int, Field(ge=1, le=10**9)]
Cash = Annotated[int, Field(ge=0, le=10**15)]
Goods = dict[Name, Annotated[int, Field(ge=0, le=10**15)]]


def _check_order(order: list[Any]) -> list[Any]:
    if list(map(type, order)) != [int, int, str, int] or order[0] < 1 or order[3] < 1:
        raise ValueError("no order")
    return order


Order = Annotated[list[Any], AfterValidator(_check_order)]
"""[price, order, trader, quantity]"""


class Account(TypedDict):
    """What a trader may use."""

    cash: int
    goods: dict[str, int]


class Fill(TypedDict):
    """A trade with one resting order."""

    order: int
    trader: str
    price: int
    quantity: int


class Placed(TypedDict):
    """What came of an order. `unplaced` was neither traded nor left in the book."""

    order: int
    fills: list[Fill]
    resting: int
    unplaced: int
    cancelled: list[int]


class _Book(TypedDict):
    bids: list[Order]
    asks: list[Order]


_ACCOUNT = TypeAdapter(Account)
_BOOK = TypeAdapter(_Book)
_NUMBER = TypeAdapter(int)


class Market(Behaviour):
    """A market of goods with an order book each."""

    kind: ClassVar[str] = "market"

    @operation()
    async def deposit(self, ctx: Context, trader: Name, cash: Cash = 0, goods: Goods | None = None) -> Account:
        """Brings money and goods into a trader's account, which begins with the first deposit."""
        account = _account(ctx, trader) or Account(cash=0, goods={})
        account["cash"] += cash
        for good, quantity in (goods or {}).items():
            _move(account, good, quantity)
        _keep(ctx, trader, account)
        return account

    @operation()
    async def withdraw(self, ctx: Context, trader: Name, cash: Cash = 0, goods: Goods | None = None) -> Account:
        """Takes free money and goods out of the market. Refused with `not_enough`."""
        account = _known(ctx, trader)
        _check(ctx, account, cash, goods or {})
        account["cash"] -= cash
        for good, quantity in (goods or {}).items():
            _move(account, good, -quantity)
        _keep(ctx, trader, account)
        return account

    @operation()
    async def place(
        self, ctx: Context, trader: Name, side: Literal["buy", "sell"], good: Name, price: Price, quantity: Quantity
    ) -> Placed:
        """Places an order: it meets resting ones that accept its price, and rests with what is left.

        Refused with `not_enough` unless all of it could be paid at `price`, and with `book_full`.
        """
        taker = _known(ctx, trader)
        _check(ctx, taker, price * quantity if side == "buy" else 0, {good: quantity} if side == "sell" else {})
        matching = _Matching(ctx, trader, side, good, taker)
        return matching.place(price, quantity)

    @operation()
    async def cancel(self, ctx: Context, trader: Name, good: Name, order: int) -> dict[str, int]:
        """Takes a resting order out of the book. Refused with `no_such_order`."""
        account, book = _known(ctx, trader), _book(ctx, good)
        resting = [(side, one) for side, orders in book.items() for one in orders if one[1:3] == [order, trader]]
        if not resting:
            ctx.refuse("no_such_order", f"{trader} has no resting order {order} for {good}", order=str(order))
        side, found = resting[0]
        book[side].remove(found)
        _give_back(account, side, good, found)
        ctx.set(f"book.{good}", book)
        _keep(ctx, trader, account)
        return {"cancelled": found[3]}

    @operation(reads_only=True)
    async def account(self, ctx: Context, trader: Name) -> Account:
        """What the trader may use; what its resting orders hold is not in it. Refused with `no_account`."""
        return _known(ctx, trader)

    @operation(reads_only=True)
    async def book(self, ctx: Context, good: Name) -> dict[str, list[Order]]:
        """Resting orders, the best first."""
        return _book(ctx, good)


class _Matching:
    """One order on its way through the book."""

    def __init__(self, ctx: Context, trader: str, side: str, good: str, taker: Account) -> None:
        self._ctx = ctx
        self._trader = trader
        self._good = good
        self._is_buy = side == "buy"
        self._side = side
        self._accounts = {trader: taker}
        self._book = _book(ctx, good)
        self._fills: list[Fill] = []
        self._cancelled: list[int] = []

    def place(self, price: int, quantity: int) -> Placed:
        """Trades, leaves the rest in the book, and stages everything."""
        number = (get_kept(self._ctx, "last_order", _NUMBER) or 0) + 1
        left = self._meet(price, quantity)
        resting = 0 if len(self._fills) >= TRADES_MAX else left
        if resting:
            self._rest([price, number, self._trader, resting])
        self._ctx.set("last_order", number)
        self._ctx.set(f"book.{self._good}", self._book)
        for trader, account in self._accounts.items():
            _keep(self._ctx, trader, account)
        if self._fills:
            told = {"order": number, "trader": self._trader, "side": self._side, "good": self._good}
            self._ctx.append("trades", {**told, "fills": self._fills})
        return Placed(
            order=number, fills=self._fills, resting=resting, unplaced=left - resting, cancelled=self._cancelled
        )

    def _meet(self, price: int, quantity: int) -> int:
        """Trades with those that accept the price, best and oldest first; returns what is left."""
        orders = self._book["asks" if self._is_buy else "bids"]
        while quantity and orders and len(self._fills) < TRADES_MAX:
            best = orders[0]
            if (best[0] > price) if self._is_buy else (best[0] < price):
                break
            if best[2] == self._trader:
                _give_back(self._accounts[self._trader], "asks" if self._is_buy else "bids", self._good, orders.pop(0))
                self._cancelled.append(best[1])
                continue
            traded = min(quantity, best[3])
            self._trade(best[2], best[0], traded)
            self._fills.append(Fill(order=best[1], trader=best[2], price=best[0], quantity=traded))
            quantity -= traded
            best[3] -= traded
            if not best[3]:
                orders.pop(0)
        return quantity

    def _trade(self, other: str, price: int, quantity: int) -> None:
        if other not in self._accounts:
            self._accounts[other] = _known(self._ctx, other)
        taker, maker = self._accounts[self._trader], self._accounts[other]
        if self._is_buy:  # the goods were taken from the seller when it placed its order
            taker["cash"] -= price * quantity
            maker["cash"] += price * quantity
            _move(taker, self._good, quantity)
        else:  # and the money from the buyer
            taker["cash"] += price * quantity
            _move(taker, self._good, -quantity)
            _move(maker, self._good, quantity)

    def _rest(self, order: Order) -> None:
        orders = self._book["bids" if self._is_buy else "asks"]
        if len(orders) >= RESTING_MAX:
            self._ctx.refuse("book_full", f"{RESTING_MAX} orders rest already", max=str(RESTING_MAX))
        at = next(
            (at for at, one in enumerate(orders) if (one[0] < order[0] if self._is_buy else one[0] > order[0])),
            len(orders),
        )
        orders.insert(at, order)
        taker = self._accounts[self._trader]
        if self._is_buy:
            taker["cash"] -= order[0] * order[3]
        else:
            _move(taker, self._good, -order[3])


def _account(ctx: Context, trader: str) -> Account | None:
    return get_kept(ctx, f"account.{trader}", _ACCOUNT)


def _known(ctx: Context, trader: str) -> Account:
    account = _account(ctx, trader)
    if account is None:
        ctx.refuse("no_account", f"{trader} has never made a deposit", trader=trader)
    return account


def _keep(ctx: Context, trader: str, account: Account) -> None:
    ctx.set(f"account.{trader}", dict(account))


def _book(ctx: Context, good: str) -> dict[str, list[Order]]:
    book = get_kept(ctx, f"book.{good}", _BOOK)
    return {"bids": [], "asks": []} if book is None else {"bids": book["bids"], "asks": book["asks"]}


def _move(account: Account, good: str, quantity: int) -> None:
    held = account["goods"].get(good, 0) + quantity
    if held:
        account["goods"][good] = held
    else:
        account["goods"].pop(good, None)


def _give_back(account: Account, side: str, good: str, order: Order) -> None:
    if side == "bids":
        account["cash"] += order[0] * order[3]
    else:
        _move(account, good, order[3])


def _check(ctx: Context, account: Account, cash: int, goods: dict[str, int]) -> None:
    if account["cash"] < cash:
        ctx.refuse("not_enough", f"{account['cash']} of money are free, {cash} are needed", what="cash")
    for good, quantity in goods.items():
        held = account["goods"].get(good, 0)
        if held < quantity:
            ctx.refuse("not_enough", f"{held} of {good} are free, {quantity} are needed", what=good)
