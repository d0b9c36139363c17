"""Whoever wrote a behaviour is told what it raised, and where in his file."""

from __future__ import annotations

from pathlib import Path

import pytest
from ecumene.client.errors import ErrorDetails, InternalError
from ecumene.sim.runs.defects import DefectError, describe_incident, tell_defects

LOG = """2026-12-01 05:12:24,001 INFO env_server.server: ready
2026-12-01 05:12:24,895 ERROR env_server.pipeline.operations.invocations: incident 4711: operation close_round
Traceback (most recent call last):
  File "/lib/env_server/behaviours/round_game.py", line 127, in close_round
    came = dict(await self.settle(ctx, state["round"], reported))
                ^^^^^^^^^^^^^^^^^^
  File "/home/zoë/lake.py", line 16, in settle
    ctx.set(ärger)
  File "/lib/env_server/behaviours/context.py", line 9, in set
    raise TypeError(
TypeError: no value
of two lines

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/lib/env_server/behaviours/round_game.py", line 150, in close_round
    raise ValueError(str(error)) from error
ValueError: key: 'ä/b'
2026-12-01 05:12:25,082 ERROR env_server.rpc.edge: incident 4712
Traceback (most recent call last):
  File "/lib/env_server/rpc/edge.py", line 1, in guard
KeyError: 'x'
"""


def test_the_last_place_in_a_module_of_the_spec_is_told() -> None:
    told = describe_incident(LOG, "4711", ["game.pool", "lake"])
    assert told == "operation close_round: ValueError: key: 'ä/b' (lake.py, line 16, in settle)"


def test_where_none_of_them_was_on_its_way_it_is_the_last_place() -> None:
    assert describe_incident(LOG, "4711", []).endswith("(round_game.py, line 150, in close_round)")


@pytest.mark.parametrize("incident", ["4712", "4713", ""])
def test_of_what_is_no_operations_nothing_is_told(incident: str, tmp_path: Path) -> None:
    assert describe_incident(LOG, incident, ["lake"]) == ""
    with pytest.raises(InternalError), tell_defects(tmp_path / "none.log", ["lake:Lake"]):
        raise InternalError(ErrorDetails("internal error", metadata={"incident": incident}))


def test_it_stands_for_the_error_with_the_log_in_its_hint(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(LOG)
    with pytest.raises(DefectError, match=r"lake\.py, line 16") as caught, tell_defects(log, ["lake:Lake"]):
        raise InternalError(ErrorDetails("internal error", metadata={"incident": "4711"}))
    assert str(log) in caught.value.hint
