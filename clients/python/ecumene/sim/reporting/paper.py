"""What models did in the same game in a published study: its figures, and which of them belong beside a run.

Very Large-Scale Multi-Agent Simulation in AgentScope, arXiv 2407.17789v2.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ecumene.sim.specs.population import PROMPTED
from ecumene.sim.specs.spec import RunSpec

SOURCE = "Very Large-Scale Multi-Agent Simulation in AgentScope, arXiv 2407.17789v2"
TOLERANCE = 3.0
"""How far apart two of its own tables are for one condition (19.15 and 16.72): nearer than that tells nothing."""
PROMPTS = {
    "P1": "rules, answer at once",
    "P2": "rules, think step by step",
    "P3": "P2, and all players are rational",
    "P4": "P3, and all try to guess each other's strategy and adapt",
}
FIRST_ROUNDS: Mapping[str, Mapping[str, tuple[float, float, float]]] = {
    "Llama3-8B": {
        "P1": (55.89, 17.72, 43),
        "P2": (49.85, 14.99, 50),
        "P3": (47.84, 13.72, 50),
        "P4": (47.09, 14.26, 47),
    },
    "Llama3-70B": {
        "P1": (50.30, 2.79, 50),
        "P2": (34.18, 9.98, 33),
        "P3": (36.11, 22.06, 33.33),
        "P4": (17.15, 20.21, 10),
    },
    "Mistral 8x7B": {
        "P1": (36.63, 15.34, 34),
        "P2": (37.57, 19.17, 33.32),
        "P3": (35.19, 25.19, 33),
        "P4": (24.42, 27.19, 20),
    },
    "Mistral 8x22B": {
        "P1": (31.69, 8.25, 33.33),
        "P2": (19.89, 20.62, 20),
        "P3": (7.62, 16.92, 0.01),
        "P4": (7.94, 16.95, 0.01),
    },
    "Qwen2-7B": {
        "P1": (66.96, 10.95, 75),
        "P2": (32.57, 19.49, 33),
        "P3": (26.45, 20.25, 25),
        "P4": (28.38, 21.02, 28),
    },
    "Qwen2-72B": {"P1": (50.56, 2.52, 50), "P2": (19.15, 8.39, 19), "P3": (8.15, 8.47, 6.85), "P4": (8.85, 8.08, 9.87)},
}
"""Model -> prompt -> mean, standard deviation, median of round 1, ratio 2/3, about 1,000 agents."""
FIVE_ROUNDS: Mapping[str, Mapping[str, tuple[float, ...]]] = {
    "Llama3-70B": {
        "P1": (50.30, 56.71, 39.16, 25.59, 16.80),
        "P2": (34.18, 23.37, 14.00, 7.90, 4.19),
        "P3": (36.11, 22.59, 12.50, 6.48, 3.15),
        "P4": (17.15, 12.65, 7.38, 3.49, 1.48),
    },
    "Mistral 8x22B": {
        "P1": (31.69, 27.47, 22.16, 19.58, 17.75),
        "P2": (19.89, 13.94, 9.32, 6.78, 5.34),
        "P3": (7.62, 6.02, 4.53, 3.47, 2.53),
        "P4": (7.94, 6.44, 4.89, 3.56, 2.62),
    },
    "Qwen2-72B": {
        "P1": (50.56, 42.94, 35.30, 29.95, 25.16),
        "P2": (19.15, 11.06, 6.11, 3.43, 2.02),
        "P3": (8.15, 4.04, 1.55, 0.76, 0.14),
        "P4": (8.85, 4.44, 1.69, 0.84, 0.15),
    },
}
"""Model -> prompt -> means of five rounds."""
MIXED: Sequence[tuple[float, float, float, float]] = (
    (32.91, 19.75, 18.83, 15.90),
    (17.58, 15.12, 13.85, 10.35),
    (9.46, 9.71, 8.55, 6.16),
    (5.30, 6.06, 5.13, 3.67),
    (3.01, 3.79, 2.99, 2.18),
)
"""Round by round: means of 500 each of Llama, Mistral and Qwen who play together (P2), and the winning number."""
GROUPS = (39.36, 21.14, 40.75, 22.50)
"""Where the three play as groups (P6), round 1: the number of each, and the winning number."""
TEMPERATURES: Mapping[float, tuple[float, float]] = {
    0.05: (15.42, 6.50),
    0.25: (15.27, 7.22),
    0.5: (18.54, 7.74),
    1.0: (16.72, 8.20),
}
"""Temperature -> mean, standard deviation of 1,000 Qwen2-72B with P2, round 1."""
LARGEST_DIFFERENCE = "largest difference of group means"
_PROMPT = re.compile(r"(?:^|-)p([1-8])(?:-|$)")


@dataclass(frozen=True, slots=True)
class PaperFact:
    """One published figure that belongs beside a run: of what, which, and its value in words."""

    condition: str
    figure: str
    value: str


def is_classic(spec: RunSpec) -> bool:
    """Whether the game is that of its main tables: two thirds of the mean."""
    return math.isclose(spec.game.ratio, 2 / 3, rel_tol=1e-6) and spec.game.offset == 0


def find_prompts(spec: RunSpec) -> dict[str, str]:
    """Group -> its prompt (P1 to P8), for groups whose template bears such a name."""
    found = {}
    for group in spec.population.groups:
        prompt = group.dump_parameters().get("prompt") if group.agent == PROMPTED else None
        if isinstance(prompt, Mapping):
            prompt = prompt.get("name")
        if isinstance(prompt, str) and (match := _PROMPT.search(prompt)):
            found[group.name] = f"P{match[1]}"
    return found


def is_same_model(published: str, recorded: str) -> bool:
    """Whether a recorded model's name tells the model and the size of a published one, however it is written."""
    name = re.sub(r"[^a-z0-9]", "", recorded.casefold()).replace("mixtral", "mistral")
    return re.sub(r"[^a-z0-9]", "", published.casefold()) in name


def list_facts(spec: RunSpec) -> list[PaperFact]:
    """Figures of conditions outside of the main tables that a spec repeats; none if there are none."""
    ratio, offset = spec.game.ratio, spec.game.offset
    facts: list[PaperFact] = []
    if math.isclose(ratio, 1 / 2) and offset == 0:
        facts.append(PaperFact("ratio 1/2", "winning number, round 1", "6.21"))
    if math.isclose(ratio, 0.51) and offset == 0:
        facts.append(PaperFact("ratio 51/100", "winning number, round 1", "11.85"))
        told = "ratio 51/100, told that it is a variant of a well-known game"
        facts.append(PaperFact(told, "winning number, round 1", "6.46"))
    if math.isclose(ratio, 1 / 2) and offset == 5:
        facts.append(PaperFact("target 5 + mean/2", "best responses from a mean of 50", "30, 20, 15, 12.5, 11.25 → 10"))
        facts.append(
            PaperFact("target 5 + mean/2", "round 1", "some Qwen2-72B and Mistral 8x22B agents name 10 at once")
        )
    if is_classic(spec):
        facts += _list_population_facts(spec)
    return facts


def _list_population_facts(spec: RunSpec) -> Iterator[PaperFact]:
    prompts = set(find_prompts(spec).values())
    if not prompts or prompts & {"P1", "P2"}:
        yield PaperFact("Qwen2-72B", "winning number, round 1", "33.70 (P1), 12.76 (P2)")
    temperatures = {group.temperature for group in spec.population.groups}
    for temperature, (mean, std) in TEMPERATURES.items():
        if temperature in temperatures and "P2" in prompts:
            condition = f"Qwen2-72B, P2, temperature {temperature:g}"
            yield PaperFact(condition, "mean / std, round 1", f"{mean:.2f} / {std:.2f}")
    texts = " ".join(f"{group.name} {group.persona}" for group in spec.population.groups).casefold()
    if "phd" in texts and "primary" in texts:
        told = "8.24 (Qwen2-72B), 5.72 (Llama3-70B), 3.49 (Mistral 8x22B); it falls with the level"
        yield PaperFact("education, 5 levels × 200", LARGEST_DIFFERENCE, told)
    if "professor" in texts and "athlete" in texts:
        yield PaperFact("occupations, 6 × 200", "lowest means", "game-theory professors and economists")
    if re.search(r"\b(seven|7)[ -]?year", texts):
        yield PaperFact("a seven-year-old", "reasoning", "several steps, as of an adult: the role is not held")
