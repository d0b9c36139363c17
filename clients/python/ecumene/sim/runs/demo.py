"""The specs of the demonstration: a population of mixed sophistication, and one on a small real model."""

from __future__ import annotations

from pathlib import Path

from ecumene.sim.specs.spec import RunSpec, parse_spec

AGENTS = 1_000
LLM_AGENTS = 30
ROUNDS = 5
SEED = 1
LOCAL_MODEL = "smollm2-135m-instruct"

# Mostly one or two steps of thought, as experiments with people find; each kind of rule player is there.
MIXED_GROUPS = (
    {"name": "level-0", "agent": "level-k", "share": "0.10", "parameters": {"level": 0}},
    {"name": "level-1", "agent": "level-k", "share": "0.25", "parameters": {"level": 1}},
    {"name": "level-2", "agent": "level-k", "share": "0.30", "parameters": {"level": 2}},
    {"name": "level-3", "agent": "level-k", "share": "0.13", "parameters": {"level": 3}},
    {"name": "noisy", "agent": "noisy-level-k", "share": "0.15", "parameters": {"level": 1, "deviation": 6}},
    {"name": "equilibrium", "agent": "equilibrium", "share": "0.05"},
    {"name": "random", "agent": "random", "share": "0.02"},
)


def make_demo_spec(*, agents: int, rounds: int, seed: int, directory: Path, guests: int | None = None) -> RunSpec:
    """Rule agents of mixed sophistication; their means fall towards 0. Raises SpecError."""
    return parse_spec(
        {
            "name": "demo",
            "seed": seed,
            "population": {"size": agents, "groups": MIXED_GROUPS},
            "game": {"ratio": "2/3", "rounds": rounds, "deadline_s": 600, "guests": guests},
            "recording": {"directory": str(directory)},
        }
    )


def make_llm_demo_spec(*, agents: int, rounds: int, seed: int, directory: Path, guests: int | None = None) -> RunSpec:
    """Agents that ask the local model, which is so small that some of its answers are no answers.

    Raises SpecError.
    """
    group = {"name": "smollm2", "agent": "prompted", "count": agents, "parameters": {"prompt": "guess-p1"}}
    return parse_spec(
        {
            "name": "demo-llm",
            "seed": seed,
            "population": {"groups": [group]},
            "game": {"ratio": "2/3", "rounds": rounds, "deadline_s": 600, "guests": guests},
            "model": {
                "provider": "local",
                "name": LOCAL_MODEL,
                "temperature": 0.8,
                "max_tokens": 160,
                "in_flight_max": 16,
                # Long, because a busy machine is slow, and asking again only keeps it busier.
                "timeout_s": 300,
            },
            "recording": {"directory": str(directory), "bodies": True},
        }
    )
