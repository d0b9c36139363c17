"""Agents of an installed class: the parameters of a group are the class's own to judge."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from agent_runtime.agents.agent import Agent, GroupInfo, RuleAgents
from agent_runtime.agents.cohort import Cohort
from agent_runtime.agents.times import read_times
from agent_runtime.model.errors import LaunchError
from agent_runtime.model.wakes import NEVER_NS, TIME_MAX_NS
from agent_runtime.settings import GroupSpec


def make_rule_agents(agent_class: type[RuleAgents], group: GroupInfo) -> RuleAgents:
    """The object of a group of rule agents. Raises LaunchError."""
    try:
        return agent_class(group)
    except (Exception, SystemExit) as error:
        raise refuse_parameters(group, error) from error


def check_group(agent_class: type[Agent], group: GroupInfo) -> None:
    """Raises LaunchError if no agent of the class can live with the group's parameters."""
    try:
        agent_class.check_group(group)
    except (Exception, SystemExit) as error:
        raise refuse_parameters(group, error) from error


def list_first_wakes(
    spec: GroupSpec, cohort: Cohort, group: GroupInfo, agents: RuleAgents | None
) -> npt.NDArray[np.int64] | None:
    """When agents are woken for the first time; None = not by a clock. Raises LaunchError."""
    if spec.first_wake_ns is None:
        return None
    if agents is None:
        return np.full(len(cohort), spec.first_wake_ns, dtype=np.int64)
    try:
        times = read_times(agents.first_wakes(cohort.list_ids(), spec.first_wake_ns), len(cohort))
        if len(wrong := times[(abs(times) > TIME_MAX_NS) & (times != NEVER_NS)]):
            raise ValueError(f"nobody can be woken first at {wrong[0]}")
    except (Exception, SystemExit) as error:
        raise refuse_parameters(group, error) from error
    return times


def refuse_parameters(group: GroupInfo, error: BaseException) -> LaunchError:
    """What agents' code has raised when it was given its parameters: foreign code, which may raise anything."""
    said = isinstance(error, ValueError | TypeError) and str(error)
    return LaunchError(f"groups.{group.name}.parameters", said or f"{type(error).__name__}: {error}")
