"""Opinions: all listen to those whose opinion is near enough to their own, and take the mean of what they hear.

python examples/models/opinion.py --seeds 30                  # everybody hears everybody
python examples/models/opinion.py --confidence 0.1
python examples/models/opinion.py --graph karate              # people hear whom they know, whatever they think

Bounded confidence (Hegselmann and Krause 2002): opinions from 0 to 1, and who listens only to those at most
`--confidence` away ends in one of a few camps, the more of them the less confidence there is. On a graph on which all
listen to all they know (DeGroot 1974) one opinion is left: the mean of the first ones, each as often as its holder
knows people, and once more.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from epidemic import load_graph
from playing import between, make_parser, play_and_tell
from stage import Known, find_place, name_agents

from agent_runtime.agents.agent import GroupInfo, RuleAgents

if TYPE_CHECKING:
    from ecumene import Event
    from ecumene.sim.steps import Steps

STILL = 1e-9
"""Nobody has changed by more: it is over."""
APART = 1e-4
"""Opinions that differ by more are of different camps."""
DRAWN = 2_000
FEW_CAMPS = 3


class Citizens(RuleAgents):
    """Say the mean of the opinions that they listen to, their own among them.

    Parameters: `confidence`; `known`, for each place those places that it hears, or none: everybody.
    """

    def __init__(self, group: GroupInfo) -> None:
        super().__init__(group)
        self._confidence: float = group.parameters["confidence"]
        self._known: Sequence[Sequence[int]] | None = group.parameters.get("known")

    def decide_many(self, agent_ids: Sequence[str], event: Event) -> Sequence[float]:
        """All hear the opinions of before, whoever has answered already."""
        told: Any = event.value
        opinions: list[float] = told["opinions"]
        return [listen(opinions, place, self._confidence, self._known) for place in map(find_place, agent_ids)]


class Opinions:
    """People whose opinions are drawn evenly from 0 to 1, until nobody changes any more."""

    agent = "opinion:Citizens"
    meanings: Mapping[str, str] = {
        "camps": "opinions that are left, those within 0.0001 of each other taken for one",
        "largest camp": "share of people in it",
        "mean": "of the opinions that are left",
    }
    resumable = False

    def __init__(self, confidence: float = 0.2, people: int = 50, *, graph_name: str = "") -> None:
        graph = load_graph(graph_name) if graph_name else None
        self.name = f"opinion-{graph_name or 'all'}-{confidence:g}"
        self.agents = name_agents(self.name, people if graph is None else len(graph))
        self.confidence = confidence
        self.known = None if graph is None else [sorted(graph.neighbors(place)) for place in range(len(graph))]
        self.parameters = {"confidence": confidence} | ({} if self.known is None else {"known": self.known})

    def begin(self, seed: int) -> list[float]:
        """What everybody thinks at first."""
        chance = random.Random(seed)
        return [chance.random() for _ in self.agents]

    async def play(self, steps: Steps) -> dict[str, float]:
        """Until nobody changes any more."""
        opinions, is_over = self.begin(steps.seed), False
        while not is_over:
            said: Any = await steps.take({"opinions": opinions})
            after = list(said.values())
            is_over = is_still(opinions, after)
            opinions = after
        return measure(opinions)

    def list_known(self) -> dict[str, Known]:
        """Of as many societies that are drawn without agents; their mean opinion by DeGroot, where that is exact."""
        ends = [measure(self.settle(self.begin(seed))) for seed in range(-DRAWN, 0)]
        known = {}
        for name in self.meanings:
            drawn = [end[name] for end in ends]
            mean, deviation = statistics.fmean(drawn), statistics.pstdev(drawn)
            # Numbers of many camps are as good as normally distributed, those of one or two are not.
            widest = 1.0 if name != "camps" else 0.0 if mean > FEW_CAMPS else 1 / self.confidence
            known[name] = Known(mean, deviation, f"{DRAWN:,} drawn societies", widest)
        return known

    def settle(self, opinions: list[float]) -> list[float]:
        """What is left of some opinions, without anybody who is asked."""
        while True:
            after = [listen(opinions, place, self.confidence, self.known) for place in range(len(opinions))]
            if is_still(opinions, after):
                return after
            opinions = after


def listen(opinions: Sequence[float], place: int, confidence: float, known: Sequence[Sequence[int]] | None) -> float:
    """What the one at a place thinks next."""
    own = opinions[place]
    around = opinions if known is None else [own, *(opinions[other] for other in known[place])]
    heard = [opinion for opinion in around if abs(opinion - own) <= confidence]
    return math.fsum(heard) / len(heard)


def is_still(before: Sequence[float], after: Sequence[float]) -> bool:
    """Whether nobody has changed."""
    return all(abs(old - new) <= STILL for old, new in zip(before, after, strict=True))


def measure(opinions: Sequence[float]) -> dict[str, float]:
    """The figures of a society that is at rest."""
    ordered = sorted(opinions)
    borders = [0, *(place for place in range(1, len(ordered)) if ordered[place] - ordered[place - 1] > APART)]
    sizes = [end - start for start, end in zip(borders, [*borders[1:], len(ordered)], strict=True)]
    return {
        "camps": len(sizes),
        "largest camp": max(sizes) / len(ordered),
        "mean": math.fsum(ordered) / len(ordered),
    }


def find_consensus(model: Opinions, opinions: Sequence[float]) -> float:
    """The opinion that is left on a graph in one piece on which all listen to all they know (DeGroot 1974)."""
    assert model.known is not None
    weights = [len(others) + 1 for others in model.known]
    return math.fsum(weight * opinion for weight, opinion in zip(weights, opinions, strict=True)) / sum(weights)


def _main() -> None:
    parser = make_parser(__doc__, Opinions.meanings)
    away = "how far an opinion may be away to be heard (default: 0.2, with --graph 1: all are heard)"
    parser.add_argument("--confidence", type=between(0, 1), metavar="E", help=away)
    parser.add_argument("--graph", choices=["karate", "miserables", "florentine"], help="who knows whom, instead")
    asked = parser.parse_args()
    confidence = asked.confidence if asked.confidence is not None else 1.0 if asked.graph else 0.2
    play_and_tell(parser, Opinions(confidence, graph_name=asked.graph or ""), asked)


if __name__ == "__main__":
    _main()
