"""Beside which times rows are written when clocks come, go on and go within one group."""

from __future__ import annotations

import random
from dataclasses import replace

from env_server.model.changes import EventType
from env_server.model.operations import ClockAction, Code, Delete, EnvironmentUpdate
from env_server.testing.ops import control
from tests.engine import Op, Stand, new_environment, put
from tests.timelines import MANUAL, told


def test_each_row_tells_the_nearest_clock_of_its_moment(seed: int) -> None:
    chance = random.Random(seed)
    paths = ["/a", *(f"/a/{one}" for one in "bcd"), *(f"/a/{one}/{two}" for one in "bcd" for two in "ef")]
    stand, clocks, expected = Stand(), dict[str, int](), []
    stand.done(*map(new_environment, paths))
    for _ in range(60):
        ops = []
        for _ in range(chance.randrange(1, 12)):
            path = chance.choice(paths)
            below = [one for one in paths if one == path or one.startswith(path + "/")]
            match chance.choice(["put", "put", "put", "declare", "advance", "replace"]):
                case "put":
                    ops.append(put(path, "x", 1))
                    above = [one for one in clocks if path == one or path.startswith(one + "/")]
                    expected.append((path, clocks[max(above, key=len)] if above else None))
                case "declare" if path not in clocks:
                    clocks[path] = chance.randrange(1000)
                    update = EnvironmentUpdate(clock=replace(MANUAL, start_ns=clocks[path]))
                    ops.append(Op(path, "", Code.UPDATE_ENVIRONMENT, update))
                case "advance" if path in clocks:
                    clocks[path] += 1
                    ops.append(control(path, ClockAction.ADVANCE_BY, 1))
                case "replace":
                    ops.append(Op(path, "", Code.DELETE_ENVIRONMENT, Delete(recursive=True)))
                    ops += map(new_environment, below)
                    for one in below:
                        clocks.pop(one, None)
        stand.send(*ops)
        if chance.random() < 0.5:
            stand.clock.settle()
    stand.clock.settle()
    assert [row[0:3:2] for row in told(stand, EventType.ENTRY_SET)] == expected
