"""One lock a run, kept as long as somebody needs it."""

from __future__ import annotations

import asyncio

import pytest

from agent_runtime.node.run_locks import RunLocks


async def test_whoever_holds_a_run_is_alone_and_whoever_waits_is_never_let_in_beside_him() -> None:
    locks = RunLocks()
    inside: list[int] = []

    async def visit(number: int) -> None:
        async with locks.hold("r"):
            inside.append(number)
            assert len(inside) == 1
            await asyncio.sleep(0)
            inside.remove(number)
            if number % 3 == 0:
                raise ValueError(number)

    done = await asyncio.gather(*(visit(number) for number in range(20)), return_exceptions=True)
    assert sum(isinstance(one, ValueError) for one in done) == 7
    assert len(locks) == 0


async def test_names_that_come_and_go_leave_nothing_whether_they_were_waited_for_or_given_up() -> None:
    locks = RunLocks()
    for number in range(1000):
        async with locks.hold(f"run-{number}"):
            assert locks.is_held(f"run-{number}") and not locks.is_held("other")
    async with locks.hold("r"):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01), locks.hold("r"):
                pass
        assert locks.is_held("r")
    assert len(locks) == 0 and not locks.is_held("r")
