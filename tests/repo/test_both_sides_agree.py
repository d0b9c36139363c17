"""What a client and a service both know, each by itself since neither imports the other, is the same."""

from __future__ import annotations

import pytest
from ecumene.client import error_table
from ecumene.client.records import BOOKS
from ecumene.launch import placement, run_spending
from ecumene.sim.reporting import overview
from ecumene.sim.runs import budgets, directory
from ecumene.sim.specs.rule_players import RULE_PARAMETERS

from agent_runtime.actions import validation
from agent_runtime.agents.ready import RULE_PLAYERS
from agent_runtime.gateways import limits
from agent_runtime.launching import parts
from agent_runtime.ownership import spent_book
from agent_runtime.recording import staging
from agent_runtime.rpc import errors as runtime_errors
from agent_runtime.settings import LOCAL_PROVIDERS
from agent_runtime.turns import ends
from env_server.rpc.encode import errors as server_errors


@pytest.mark.parametrize(
    ("client", "service"),
    [
        pytest.param(placement.AGENTS_PER_PART_MIN, parts.AGENTS_PER_PART_MIN, id="where groups are cut"),
        pytest.param(placement.LOCAL_PROVIDERS, LOCAL_PROVIDERS, id="models that are loaded once a node"),
        pytest.param(BOOKS, validation.BOOKS, id="where runtimes keep their books"),
        pytest.param(run_spending.EXHAUSTED, spent_book.EXHAUSTED, id="a budget that is spent"),
        pytest.param(run_spending.NO_PHASE, spent_book.NO_PHASE, id="calls without a phase"),
        pytest.param(budgets.RATE_LIMITS, limits.RATE_LIMITS, id="limits of a minute"),
        pytest.param(budgets.BUDGET_LIMITS, limits.BUDGET_LIMITS, id="limits in all"),
        pytest.param(directory.STAGING_NAME, staging.STAGING_NAME, id="where parts of a recording begin"),
        pytest.param(error_table.DOMAIN, server_errors.DOMAIN, id="whose reasons of the server"),
        pytest.param(error_table.DOMAIN, runtime_errors.DOMAIN, id="whose reasons of the runtime"),
        pytest.param(overview.PAUSED, ends.MUTED.reason, id="turns of paused agents"),
        pytest.param(sorted(RULE_PARAMETERS), sorted(RULE_PLAYERS), id="players by rules"),
    ],
)
def test_both_sides_know_the_same(client: object, service: object) -> None:
    assert client == service
