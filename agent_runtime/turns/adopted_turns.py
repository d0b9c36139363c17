"""Turns that were taken before, by an earlier owner or life: what is recorded of them, as it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ecumene.client.records import TurnStatus, read_report

from agent_runtime.actions.settlement import ADOPTED
from agent_runtime.model.actions import REPORT, Action
from agent_runtime.model.notices import Ask
from agent_runtime.ownership.history import DoneTurn
from agent_runtime.turns.deciding import all_numbers
from agent_runtime.turns.ends import TurnEnd
from agent_runtime.turns.remembering import recall_turn
from agent_runtime.turns.turn import Turn

ADOPTED_ACTION = "adopted"
"""What an earlier turn did and its name is not known of."""


class AlikeTurns(NamedTuple):
    """Turns of rule agents that are recorded together: their places, reports and revisions."""

    end: TurnEnd
    places: list[int]
    values: list[Any]
    revisions: list[int]


def read_done(turn: Turn, done: DoneTurn) -> tuple[TurnEnd, Sequence[Action]]:
    """How a turn ended that was taken before, and what it did. What its agent then remembered is given back to it."""
    if done.state is not None:
        end = recall_turn(turn, done.state)
        return end, turn.actions
    ask = turn.notice.ask
    report = None if ask is None else done.find_report(ask.path, turn.agent_id)
    status, is_answer = read_report(None if report is None else report.value)
    effects = [effect for effect in done.effects if is_answer or effect is not report]
    actions = [
        Action(REPORT if effect is report else ADOPTED_ACTION, effect.path, effect.key, effect.value)
        for effect in effects
    ]
    return TurnEnd(status, ADOPTED), actions


def group_done(ask: Ask, ids: Sequence[str], known: Mapping[int, DoneTurn]) -> list[AlikeTurns]:
    """Turns of rule agents that were taken before, by the place of each among `ids`: together what ended alike."""
    alike: dict[tuple[TurnStatus, bool], AlikeTurns] = {}
    for place, done in known.items():
        report = done.find_report(ask.path, ids[place])
        value, revision = (None, 0) if report is None else (report.value, report.revision)
        status = read_report(value)[0]
        kind = (status, all_numbers([value]))
        turns = alike.setdefault(kind, AlikeTurns(TurnEnd(status, ADOPTED), [], [], []))
        turns.places.append(place)
        turns.values.append(value)
        turns.revisions.append(revision)
    return list(alike.values())
