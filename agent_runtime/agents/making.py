"""Agents of an installed class: the parameters of a group are the class's own to judge."""

from __future__ import annotations

from agent_runtime.agents.agent import Agent, GroupInfo, RuleAgents
from agent_runtime.model.errors import LaunchError


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


def refuse_parameters(group: GroupInfo, error: BaseException) -> LaunchError:
    """What agents' code has raised when it was given its parameters: foreign code, which may raise anything."""
    said = isinstance(error, ValueError | TypeError) and str(error)
    return LaunchError(f"groups.{group.name}.parameters", said or f"{type(error).__name__}: {error}")
