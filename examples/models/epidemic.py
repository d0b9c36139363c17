"""An epidemic: who has contact with infected people may be infected, is infectious for one step, and then immune.

python examples/models/epidemic.py --seeds 30               # everybody meets everybody
python examples/models/epidemic.py --seeds 300 --graph karate

Well mixed, of n people each infects another with chance R0 / n, and an outbreak comes to the share z of those that it
could infect with z = 1 − exp(−R0·z) (Reed-Frost; Kermack and McKendrick 1927). On a graph each edge passes an infection
on or not, once, so that all are infected in the end who are joined to the first by edges that do: bond percolation.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from playing import between, make_parser, play_and_tell
from stage import Known, find_place, name_agents

from agent_runtime.agents.agent import GroupInfo, RuleAgents
from agent_runtime.model.draws import Draw

if TYPE_CHECKING:
    from ecumene import Event
    from ecumene.sim.steps import Steps

FIRST_OF_CROWD = 24
"""So many that an outbreak with an R0 of 1.5 dies out at once in one of a thousand million runs."""
PERCOLATIONS = 20_000


class People(RuleAgents):
    """Say 1 if they are infected in this step. They see everybody's state as one line: S, I or R.

    Parameters: `chance` that an infectious contact infects; `contacts`, for each place those places that it meets, or
    none: everybody.
    """

    def __init__(self, group: GroupInfo) -> None:
        super().__init__(group)
        self._chance: float = group.parameters["chance"]
        self._contacts: Sequence[Sequence[int]] | None = group.parameters.get("contacts")

    def decide_many(self, agent_ids: Sequence[str], event: Event) -> Sequence[float]:
        """One draw each: to be infected by k infectious contacts has the chance 1 − (1 − chance)^k."""
        told: Any = event.value
        people: str = told["people"]
        of_all = people.count("I")
        answers = []
        for agent_id in agent_ids:
            place = find_place(agent_id)
            met = of_all if self._contacts is None else sum(people[other] == "I" for other in self._contacts[place])
            escapes = (1 - self._chance) ** met
            caught = people[place] == "S" and Draw(told["seed"], agent_id, told["round"], 0).random() >= escapes
            answers.append(int(caught))
        return answers


class Epidemic:
    """What both kinds share: an outbreak until nobody is infectious."""

    agent = "epidemic:People"
    resumable = False

    def __init__(self, name: str, count: int, parameters: Mapping[str, Any], first: int) -> None:
        self.name = name
        self.agents = name_agents(name, count)
        self.parameters = parameters
        self.first = first

    async def play(self, steps: Steps) -> dict[str, float]:
        """Infect the first, and go on until it is over."""
        people = ["S"] * len(self.agents)
        for place in random.Random(steps.seed).sample(range(len(people)), self.first):
            people[place] = "I"
        while "I" in people:
            said = await steps.take({"people": "".join(people)})
            people = [
                "R" if one == "I" else "I" if new else one for one, new in zip(people, said.values(), strict=True)
            ]
        return self.measure(people.count("R"))

    def measure(self, infected: int) -> dict[str, float]:
        """Figures of an outbreak of that size."""
        raise NotImplementedError


class MixedEpidemic(Epidemic):
    """Everybody meets everybody."""

    meanings: Mapping[str, str] = {"share infected": "share of all people who were ever infected"}

    def __init__(self, r0: float, count: int = 4000) -> None:
        super().__init__(f"epidemic-r{r0:g}", count, {"chance": r0 / count}, FIRST_OF_CROWD)
        self.r0 = r0

    def measure(self, infected: int) -> dict[str, float]:
        """The share of all that were ever infected."""
        return {"share infected": infected / len(self.agents)}

    def list_known(self) -> dict[str, Known]:
        """The equation's share, with those infected at first; its deviation by von Bahr and Martin-Löf 1980.

        Reed-Frost chains drawn by themselves, 100,000 each: means within 0.05 deviations of it for 4,000 people (0.08
        for 1,000), deviations within 2 %.
        """
        count = len(self.agents)
        share = solve_final_size(self.r0, self.first / count)
        well = 1 - share
        deviation = math.sqrt(share * well / count) / (1 - self.r0 * well)
        plain = solve_final_size(self.r0)
        return {
            "share infected": Known(share, deviation, f"R0 {self.r0:g}; {plain:.4f} without the {self.first} first")
        }


class GraphEpidemic(Epidemic):
    """People who meet their neighbours in a graph; anybody is the first, all equally likely."""

    meanings: Mapping[str, str] = {"infected": "people who were ever infected, the first one among them"}

    def __init__(self, graph_name: str, chance: float) -> None:
        self.graph = load_graph(graph_name)
        self.chance = chance
        contacts = [sorted(self.graph.neighbors(place)) for place in range(len(self.graph))]
        parameters = {"chance": chance, "contacts": contacts}
        super().__init__(f"epidemic-{graph_name}-{chance:g}", len(self.graph), parameters, first=1)

    def measure(self, infected: int) -> dict[str, float]:
        """How many were ever infected, the first counted in."""
        return {"infected": infected}

    def list_known(self) -> dict[str, Known]:
        """By percolations with networkx."""
        sizes = percolate(self.graph, self.chance, PERCOLATIONS)
        mean, deviation = statistics.fmean(sizes), statistics.pstdev(sizes)
        return {"infected": Known(mean, deviation, f"{PERCOLATIONS:,} percolations", len(self.agents) - 1)}


def solve_final_size(r0: float, first: float = 0.0) -> float:
    """The largest z with 1 − z = (1 − first)·exp(−r0·z): the share that is ever infected, if `first` was at first."""
    size = 1.0
    for _ in range(10_000):
        size = 1 - (1 - first) * math.exp(-r0 * size)
    return size


def load_graph(name: str) -> Any:
    """A social graph of networkx, with numbers as nodes: karate, miserables, florentine."""
    import networkx as nx

    graphs = {
        "karate": nx.karate_club_graph,
        "miserables": nx.les_miserables_graph,
        "florentine": nx.florentine_families_graph,
    }
    return nx.convert_node_labels_to_integers(graphs[name](), ordering="sorted")


def percolate(graph: Any, chance: float, runs: int, seed: int = 1) -> list[int]:
    """Sizes of the part that a random node is in, when each edge stays with a chance: no steps, no agents."""
    import networkx as nx

    drawn = random.Random(seed)
    sizes = []
    for _ in range(runs):
        left = nx.Graph(edge for edge in graph.edges() if drawn.random() < chance)
        node = drawn.randrange(len(graph))
        sizes.append(len(nx.node_connected_component(left, node)) if node in left else 1)
    return sizes


def _main() -> None:
    parser = make_parser(__doc__, {**MixedEpidemic.meanings, **GraphEpidemic.meanings})
    r0 = "whom one infects, on average, as long as nobody is immune; above 0 (default: 1.5)"
    parser.add_argument("--r0", type=between(0.01, 100), metavar="R0", help=r0)
    parser.add_argument("--graph", choices=["karate", "miserables", "florentine"], help="who knows whom, instead")
    chance = "with --graph: that a contact infects (default: 0.2)"
    parser.add_argument("--chance", type=between(0, 1), metavar="P", help=chance)
    asked = parser.parse_args()
    if asked.graph and asked.r0 is not None:
        parser.error("--r0 is of those who meet everybody: with --graph give --chance")
    if not asked.graph and asked.chance is not None:
        parser.error("--chance is of the contacts in a --graph: without one give --r0")
    if asked.graph:
        play_and_tell(parser, GraphEpidemic(asked.graph, 0.2 if asked.chance is None else asked.chance), asked)
    else:
        play_and_tell(parser, MixedEpidemic(1.5 if asked.r0 is None else asked.r0), asked)


if __name__ == "__main__":
    _main()
