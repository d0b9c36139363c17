"""Whether every clock and every timer that is kept can be taken up again by a server."""

import math

from env_server.model.changes import FactKind
from env_server.model.timelines import ClockState, Timer
from env_server.offline.contents import NONSENSE, Problems, State
from env_server.state_tree.nodes import Node
from env_server.storage import layout
from env_server.timeline import facts


def check_timelines(state: State, problems: Problems) -> None:
    """Each declared clock has its fact and each fact its declaration; timers are on a clock of where they were set."""
    _check_clocks(state, problems)
    _check_timers(state, problems)


def _check_clocks(state: State, problems: Problems) -> None:
    nodes, kept = state.tree.nodes.by_number, state.facts[FactKind.CLOCK]
    for node in nodes.values():
        if node.declaration.clock is not None and str(node.number) not in kept:
            problems.add(layout.ENVIRONMENTS, f"environment {node.number}", "declares a clock that is not kept")
    for key, fact in kept.items():
        where = f"clock of environment {key}"
        try:
            clock, number = facts.decode_clock(fact), int(key)
            is_right = _is_clock(clock) and facts.encode_clock(clock) == fact and str(number) == key
        except NONSENSE as error:
            problems.add(layout.FACTS, where, f"makes no sense ({type(error).__name__}: {error})")
            continue
        owner = nodes.get(number)
        if not is_right:
            problems.add(layout.FACTS, where, "is not as a clock is kept")
        elif owner is None or owner.declaration.clock is None:
            problems.add(layout.FACTS, where, "is kept, and nobody declares it")


def _check_timers(state: State, problems: Problems) -> None:
    nodes = state.tree.nodes.by_number
    for key, fact in state.facts[FactKind.TIMER].items():
        where = f"timer {key!r}"
        try:
            owner, name, timer = facts.decode_timer(key, fact)
            is_right = _is_timer(timer) and facts.encode_timer(owner, timer) == fact and facts.key_of(name) == key
        except NONSENSE as error:
            problems.add(layout.FACTS, where, f"makes no sense ({type(error).__name__}: {error})")
            continue
        place = nodes.get(name[0])
        if not is_right:
            problems.add(layout.FACTS, where, "is not as a timer is kept")
        elif place is None:
            problems.add(layout.FACTS, where, f"environment {name[0]} is not there")
        elif not _has_clock(place, owner):
            what = f"is on a clock of environment {owner}, and none is declared there, or it is not above"
            problems.add(layout.FACTS, where, what)


def _has_clock(node: Node | None, owner: int) -> bool:
    """Whether the environment `owner` has a clock, and lies at the node or above it."""
    while node is not None and node.number != owner:
        node = node.parent
    return node is not None and node.declaration.clock is not None


def _is_clock(clock: ClockState) -> bool:
    times = (clock.now_ns,) if clock.target_ns is None else (clock.now_ns, clock.target_ns)
    return all(type(ns) is int for ns in times) and math.isfinite(clock.rate) and clock.rate > 0


def _is_timer(timer: Timer) -> bool:
    counts = timer.every_ns, timer.fired, timer.left_out
    return type(timer.due_ns) is type(timer.order) is int and all(type(one) is int and one >= 0 for one in counts)
