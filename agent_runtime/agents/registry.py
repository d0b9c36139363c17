"""Agent classes by name: the ready ones, those that installed packages declare, and `module:Class`."""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Callable
from typing import Any

from agent_runtime.agents.agent import Agent, RuleAgents
from agent_runtime.model.errors import LaunchError

AGENT_GROUP = "ecumene.agents"
READY = {
    "background-writer": "agent_runtime.agents.background_writer:BackgroundWriter",
    "level-k": "agent_runtime.agents.guess_game:LevelKAgents",
    "equilibrium": "agent_runtime.agents.guess_game:EquilibriumAgents",
    "noisy-level-k": "agent_runtime.agents.guess_game:NoisyLevelKAgents",
    "listed": "agent_runtime.agents.guess_game:ListedAgents",
    "random": "agent_runtime.agents.guess_game:RandomAgents",
    "prompted-agent": "agent_runtime.agents.prompted_agent:PromptedAgent",
    "prompted-player": "agent_runtime.agents.prompted_player:PromptedGuesser",
}

AgentClass = type[Agent] | type[RuleAgents]


def find_agent_class(name: str, where: str) -> AgentClass:
    """The class of a name in a launch description; `where` is for the error.

    Raises LaunchError if nothing of the name is installed, or it is no class of agents.
    """
    found = load_object(READY.get(name, name), where) if ":" in READY.get(name, name) else _find_declared(name, where)
    if not (isinstance(found, type) and issubclass(found, Agent | RuleAgents)):
        raise LaunchError(where, f"{name!r} is no class of agents")
    return found


def find_function(name: str, where: str) -> Callable[..., Any]:
    """A function by `module:function`. Raises LaunchError."""
    found = load_object(name, where)
    if not callable(found):
        raise LaunchError(where, f"{name!r} is no function")
    function: Callable[..., Any] = found
    return function


def load_object(name: str, where: str) -> object:
    """What `module:name` stands for. Raises LaunchError if it is not there."""
    module_name, _, attribute = name.partition(":")
    try:
        return getattr(importlib.import_module(module_name), attribute)
    except (Exception, SystemExit) as error:  # a module runs when it is imported, and may raise anything
        raise LaunchError(where, f"cannot load {name!r}: {describe_failure(error)}") from error


def describe_failure(error: BaseException) -> str:
    """What foreign code has raised, in one line."""
    plain = isinstance(error, ImportError | AttributeError | ValueError) and str(error)
    return plain or f"{type(error).__name__}: {error}"


def _find_declared(name: str, where: str) -> object:
    for entry_point in importlib.metadata.entry_points(group=AGENT_GROUP, name=name):
        try:
            return entry_point.load()
        except (Exception, SystemExit) as error:
            problem = f"agent class {name!r} is declared but cannot be loaded: {describe_failure(error)}"
            raise LaunchError(where, problem) from error
    declared = {entry_point.name for entry_point in importlib.metadata.entry_points(group=AGENT_GROUP)}
    names = ", ".join(sorted(declared | READY.keys()))
    raise LaunchError(where, f"no agent class {name!r} is installed; there are {names}, or write module:Class")
