"""Patterns take plain functions and values as well as proxies and placeholders."""

from __future__ import annotations

import pytest
from ecumene import workflows
from ecumene.workflows import fan_in, fan_out, gather, resolve, sequential

from tests.workflow_actors import Teller


def test_without_a_flow_they_are_plain_loops() -> None:
    one, two = Teller("one"), Teller("two")
    assert sequential(1, one.tell, two.tell, str) == "1"
    assert fan_out(2, [one.tell, two.tell]) == [2, 2]
    assert fan_in(one.total, (number for number in (1, 2, 3))) == 6
    assert resolve({"a": [1, (2,)]}) == {"a": [1, (2,)]}
    assert one.all_heard() == [1, 2]


def test_with_proxies_nothing_waits_before_it_is_read() -> None:
    with workflows.local():
        one, two = workflows.spawn(Teller, 2)
        last = sequential(3, one.tell_later, two.tell_later)
        outs = fan_out(last, [one.tell, two.tell])
        total = fan_in(one.total, outs)
        assert not total.done
        assert total.get() == 6
        assert resolve({"outs": outs, "pair": (outs[0], 1)}) == {"outs": [3, 3], "pair": (3, 1)}


async def test_gather_is_resolve_in_a_loop() -> None:
    async with workflows.local() as flow:
        one, two = flow.spawn(Teller, 2)
        outs = fan_out(1, [one.tell_later, two.tell_later])
        with pytest.raises(TypeError, match="await its placeholder"):
            resolve(outs)
        assert await gather({"outs": outs}) == {"outs": [1, 1]}
