"""Patterns take plain functions and values as well as proxies and placeholders."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from typing import Any, NamedTuple

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


class Pair(NamedTuple):
    """Takes its items one by one."""

    first: Any
    second: Any


async def test_lists_tuples_and_dicts_of_any_class_are_read_and_keep_it() -> None:
    async with workflows.local() as flow:
        (one,) = flow.spawn(Teller, 1)
        counted: defaultdict[str, Any] = defaultdict(list, key=one.tell_later(3))
        given = [Pair(one.tell_later(1), (one.tell_later(2),)), counted, OrderedDict(b=one.tell_later(4), a=5)]
        read = await gather(given)
        assert read == resolve(given) == [Pair(1, (2,)), {"key": 3}, OrderedDict(b=4, a=5)]
        assert [type(value) for value in read] == [Pair, defaultdict, OrderedDict]
        assert read[1]["other"] == [] and list(read[2]) == ["b", "a"]
