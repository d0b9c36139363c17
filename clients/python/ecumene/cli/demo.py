"""`ecumene demo`: server, runtime, a thousand agents and five rounds of a game, all in one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ecumene.cli.connecting import JsonOption
from ecumene.cli.running import execute
from ecumene.sim import RunOptions
from ecumene.sim.runs.demo import AGENTS, LLM_AGENTS, ROUNDS, SEED, make_demo_spec, make_llm_demo_spec
from ecumene.sim.specs.population import POPULATION_MAX


def demo(
    agents: Annotated[
        int | None,
        typer.Option(
            help=f"How many play ({AGENTS:,}; {LLM_AGENTS} with --llm).",
            min=1,
            max=POPULATION_MAX,
            show_default=False,
        ),
    ] = None,
    rounds: Annotated[int, typer.Option(help="How many rounds.", min=1, max=1000)] = ROUNDS,
    seed: Annotated[int, typer.Option(help="Everything random follows from it.", min=0)] = SEED,
    guests: Annotated[
        int | None,
        typer.Option(help="Others may play, too; wait for so many before the first round.", min=0, show_default=False),
    ] = None,
    out: Annotated[Path, typer.Option(help="Holds a folder for each run.", metavar="DIR")] = Path("runs"),
    llm: Annotated[bool, typer.Option("--llm", help="Agents that ask a small model on this machine.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Play rounds of guess-the-average with rule agents, or with --llm on a small local model."""
    make_spec = make_llm_demo_spec if llm else make_demo_spec
    count = agents or (LLM_AGENTS if llm else AGENTS)
    spec = make_spec(agents=count, rounds=rounds, seed=seed, directory=out, guests=guests)
    execute(spec, RunOptions(), as_json=as_json)
