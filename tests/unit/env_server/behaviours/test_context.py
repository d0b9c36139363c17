"""Operations that only read: they wait for nobody, and may do nothing else."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from env_server.behaviours import Behaviour, Context, Target, operation
from env_server.model.errors import Reason, WorldError
from tests.engine import Stand, invoke, new_environment, put


class Desk(Behaviour):
    """Looks, and perhaps does what it may not."""

    kind: ClassVar[str] = "desk"

    @operation(writes=lambda path, seconds: [Target(path, "x")])
    async def hold(self, ctx: Context, seconds: float) -> None:
        await ctx.sleep(seconds)

    @operation(reads_only=True)
    async def look(self, ctx: Context, and_then: str = "") -> Any:
        if and_then == "write":
            ctx.set("x", 1)
        if and_then == "emit":
            ctx.emit("seen", {})
        if and_then == "call":
            await ctx.call("/e", "look")
        return ctx.get("x")


@pytest.fixture
def stand() -> Stand:
    stand = Stand(Desk())
    stand.done(new_environment("/d", kind="desk"), new_environment("/e", kind="desk"))
    return stand


def test_what_reads_only_waits_for_nobody_and_may_do_nothing_else(stand: Stand) -> None:
    stand.done(put("/d", "x", 7))
    stand.do(invoke("/d", "hold", seconds=5))
    looked = stand.do(invoke("/d", "look"))
    assert looked.done and looked.invoked.result.text == b"7" and not looked.invoked.changed
    rows = stand.rows()
    for defect in ("write", "emit", "call"):
        sent = stand.do(invoke("/d", "look", and_then=defect))
        assert isinstance(sent.outcome(), WorldError), defect
        assert sent.error.reason is (Reason.NESTED_INVOKE if defect == "call" else Reason.INTERNAL)
    assert (stand.rows(), stand.value("/d", "x")) == (rows, 7)


def test_one_that_names_keys_that_it_writes_does_not_only_read() -> None:
    with pytest.raises(TypeError, match="reads only"):
        operation(reads_only=True, writes=lambda path: [])
