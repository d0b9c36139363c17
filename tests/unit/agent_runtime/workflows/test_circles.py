"""Circles of waits are found through the world, and only circles."""

from __future__ import annotations

import asyncio

import pytest
from ecumene import World
from ecumene.workflows.messages import WAITS, flow_path

from agent_runtime.workflows import circles as module
from agent_runtime.workflows.circles import Circles


@pytest.fixture
def circles(world: World, monkeypatch: pytest.MonkeyPatch) -> Circles:
    """Confirming soon."""
    monkeypatch.setattr(module, "CONFIRM_AFTER_S", 0.05)
    return Circles(world)


async def test_the_last_of_a_circle_is_told(circles: Circles) -> None:
    assert not await circles.look("f", "a", frozenset({"b"}))
    assert not await circles.look("f", "b", frozenset({"c", "x"}))
    assert await circles.look("f", "c", frozenset({"a"}))
    assert await circles.look("f", "lone", frozenset({"lone"}))


async def test_chains_and_shared_ends_are_no_circle(circles: Circles) -> None:
    for actor, needed in [("a", {"c"}), ("b", {"c"}), ("c", {"d", "e"}), ("d", {"e"})]:
        assert not await circles.look("f", actor, frozenset(needed))


async def test_a_wait_that_ends_before_it_is_confirmed_is_none(world: World, circles: Circles) -> None:
    assert not await circles.look("f", "a", frozenset({"b"}))
    looking = asyncio.create_task(circles.look("f", "b", frozenset({"a"})), name="look")
    await asyncio.sleep(0.02)
    await circles.forget("f", "a")
    assert not await looking
    # A new wait of the same actor is another one.
    assert not await circles.look("f", "a", frozenset({"x"}))
    assert [entry.key async for entry in world.environment(f"{flow_path('f')}/{WAITS}").entries()] == ["a", "b"]


async def test_a_flow_that_is_gone_has_no_circles(circles: Circles) -> None:
    assert not await circles.look("gone", "a", frozenset({"a"}))
    await circles.forget("gone", "a")
