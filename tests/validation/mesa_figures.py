"""Figures of models in Mesa, kept in `examples/models/mesa.json`: the rules are Mesa's, or built of its parts.

python -m tests.validation.mesa_figures        # writes the file anew, in some minutes
"""

from __future__ import annotations

import json
import statistics
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import mesa
import numpy as np
from mesa.discrete_space import OrthogonalMooreGrid
from mesa.examples.basic.boid_flockers.model import BoidFlockers
from mesa.examples.basic.boltzmann_wealth_model.model import BoltzmannWealth
from mesa.examples.basic.schelling.agents import SchellingAgent

from tests.services import ROOT

PAGE = ROOT / "examples" / "models" / "mesa.json"
RUNS = 300


def play_wealth(seed: int) -> dict[str, float]:
    """Mesa's example as it is: each agent moves and gives at once, in random order."""
    model = BoltzmannWealth(seed=seed)
    for _ in range(125):
        model.step()
    return {"gini": model.compute_gini()}


def play_wealth_in_halves(seed: int) -> dict[str, float]:
    """Its agents, all of whom move before the first of them gives."""
    model = BoltzmannWealth(seed=seed)
    for _ in range(125):
        model.agents.shuffle_do("move")
        model.agents.shuffle_do(lambda agent: agent.give_money() if agent.wealth > 0 else None)
    return {"gini": model.compute_gini()}


def play_segregation(seed: int) -> dict[str, float]:
    """Mesa's agents, 320 of them, half of each kind, in a square of 20."""
    model: Any = mesa.Model(seed=seed)
    model.grid, model.happy = OrthogonalMooreGrid((20, 20), random=model.random, capacity=1), 0
    cells = list(model.grid.all_cells)
    model.random.shuffle(cells)
    for number, cell in enumerate(cells[:320]):
        SchellingAgent(model, cell, number % 2)
    content = []
    for step in range(13):
        model.happy = 0
        model.agents.do("assign_state")
        content.append(model.happy / 320)
        if step < 12:
            model.agents.shuffle_do("step")
    shares = [
        statistics.fmean(other.type == agent.type for other in around)
        for agent in model.agents
        if (around := list(agent.cell.get_neighborhood(radius=1).agents))
    ]
    figures = {"content at first": content[0], "content after one": content[1], "content": content[-1]}
    return {**figures, "alike": statistics.fmean(shares)}


def play_flock(seed: int) -> dict[str, float]:
    """Mesa's boids with other weights, which order sooner; all look around before the first of them flies on."""
    model: Any = BoidFlockers(cohere=0.01, separate=0.05, match=0.3, seed=seed)
    figures = {}
    for step in range(1, 41):
        fly_all(model)
        if step in (10, 40):
            headings = [agent.direction / np.linalg.norm(agent.direction) for agent in model.agents]
            figures[f"order after {step}"] = float(np.linalg.norm(np.mean(headings, axis=0)))
    around = statistics.fmean(len(agent.get_neighbors_in_radius(10)[0]) for agent in model.agents)
    return {**figures, "neighbours": around}


def fly_all(model: Any) -> None:
    """One step of all boids, each among others that stand still: Mesa's own, undone for the others' sake."""
    after = []
    for agent in model.agents:
        position, direction = agent.position.copy(), agent.direction.copy()
        agent.direction = direction.copy()  # what it turns in place
        agent.step()
        after.append((agent.position.copy(), agent.direction))
        agent.position, agent.direction = position, direction
    for agent, (position, direction) in zip(model.agents, after, strict=True):
        agent.position, agent.direction = position, direction


PLAYED: Mapping[str, Callable[[int], dict[str, float]]] = {
    "wealth-grid": play_wealth,
    "wealth-halves": play_wealth_in_halves,
    "segregation": play_segregation,
    "flock": play_flock,
}


def measure(model: str, runs: int, first_seed: int = 0) -> dict[str, list[float]]:
    """Each figure of so many runs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        played = [PLAYED[model](seed) for seed in range(first_seed, first_seed + runs)]
    return {name: [one[name] for one in played] for name in played[0]}


def main() -> None:
    """Write the file."""
    figures: dict[str, dict[str, tuple[float, float, int]]] = {}
    for model in PLAYED:
        measured = measure(model, RUNS)
        figures[model] = {
            name: (round(statistics.fmean(values), 6), round(statistics.stdev(values), 6), RUNS)
            for name, values in measured.items()
        }
    PAGE.write_text(json.dumps({"source": f"Mesa {mesa.__version__}", "figures": figures}, indent=1) + "\n")


if __name__ == "__main__":
    main()
