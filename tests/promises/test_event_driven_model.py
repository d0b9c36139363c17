"""No jump of an event-driven clock passes what is on its way, and the clock always comes to where nothing is due."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from env_server.key_queues.queues import KeyQueues
from env_server.model.changes import Changes
from env_server.pipeline.commits.commits import Commits
from env_server.pipeline.listeners.listening import Listening
from env_server.pipeline.timekeeping.clocks import Clocks
from env_server.pipeline.timekeeping.hearings import Hearings
from env_server.pipeline.timekeeping.jumping import Jumping
from env_server.pipeline.timekeeping.participation import _QUIET_TYPES, Participation
from env_server.pipeline.world import World
from env_server.state_tree.tree import Tree
from env_server.timeline.participants import Participants
from tests.promises.attended_country import AttendedCountry
from tests.promises.attended_machine import AttendedTown, Wrong, judged

SEEDS = 60
STEPS = 250
Plant = Callable[[pytest.MonkeyPatch], None]


def run(seed: int, monkeypatch: pytest.MonkeyPatch, kind: type[AttendedTown] = AttendedTown) -> AttendedTown:
    print(f"seed {seed}")
    with monkeypatch.context() as patched:
        town = judged(kind(seed), patched)
        town.run(STEPS)
    return town


def test_every_jump_is_one_that_everybody_has_let(monkeypatch: pytest.MonkeyPatch) -> None:
    towns = [run(seed, monkeypatch) for seed in range(SEEDS)]
    assert sum(town.jumps for town in towns) > 5 * SEEDS, "too few to say anything"
    assert sum(town.ahead for town in towns) > SEEDS / 2, "too few behind ops that are not on the disk"


def test_every_jump_of_two_clocks_is_one_that_everybody_has_let(monkeypatch: pytest.MonkeyPatch) -> None:
    countries = [run(seed, monkeypatch, AttendedCountry) for seed in range(SEEDS // 2)]
    assert sum(country.jumps for country in countries) > 2 * SEEDS, "too few to say anything"
    assert sum(country.ahead for country in countries) > SEEDS / 4, "too few behind ops that are not on the disk"


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_every_jump_of_many_countries_is_one_that_everybody_has_let(monkeypatch: pytest.MonkeyPatch) -> None:
    jumps = sum(run(seed, monkeypatch, AttendedCountry).jumps for seed in range(SEEDS, 40 * SEEDS))
    assert jumps > 5 * 39 * SEEDS, "too few to say anything"


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_every_jump_of_many_is_one_that_everybody_has_let(monkeypatch: pytest.MonkeyPatch) -> None:
    jumps = sum(run(seed, monkeypatch).jumps for seed in range(SEEDS, 40 * SEEDS))
    assert jumps > 5 * 39 * SEEDS, "too few to say anything"


def ignore_what_is_heard(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(Participants, "owed", lambda self, participant: participant.set_revision)


def ignore_what_is_not_durable(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(World, "_is_quiet", lambda self: True)


def ignore_what_is_in_flight(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(Commits, "is_durable", property(lambda self: not self._tree.changes.keys))


def ignore_what_is_heard_of_it(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(Hearings, "any_hears", lambda self, changes: False)


def keep_reports_of_ended_streams(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(Participation, "end_reports", lambda self, reporter: None)


def forget_to_look_again(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(Jumping, "look_again", lambda self: None)


def forget_sums_that_are_owed(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(Tree, "owes_aggregates", property(lambda self: False))


def forget_who_waits_or_runs(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(KeyQueues, "is_empty", property(lambda self: True))


def forget_who_comes_and_goes(patched: pytest.MonkeyPatch) -> None:
    def may_concern(self: Participation, changes: Changes) -> bool:
        return not _QUIET_TYPES.issuperset(changes.types) or self._hearings.any_hears(changes)

    patched.setattr(Participation, "_may_concern", may_concern)


def forget_that_somebody_was_granted_more(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(Hearings, "heed_grants", lambda self: [])


def forget_the_clock_above(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(Clocks, "bound", lambda self, line: None)


def forget_listeners(patched: pytest.MonkeyPatch) -> None:
    patched.setattr(Listening, "any_listens", property(lambda self: False))
    patched.setattr(Listening, "is_behind", property(lambda self: False))


def note_the_open_commit_for_good(patched: pytest.MonkeyPatch) -> None:
    """What was found in a group that still grows is kept with it."""

    def any_hears(self: Hearings, changes: Changes) -> bool:
        selected = (hears.matcher.select(changes) for hears in self._routes.find(changes))
        return any(rows is None or bool(rows) for rows in selected)

    patched.setattr(Hearings, "any_hears", any_hears)


@pytest.mark.parametrize(
    "plant",
    [
        ignore_what_is_heard,
        ignore_what_is_not_durable,
        ignore_what_is_in_flight,
        ignore_what_is_heard_of_it,
        keep_reports_of_ended_streams,
        forget_to_look_again,
    ],
)
def test_a_planted_fault_is_caught(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    find(plant, monkeypatch, AttendedTown)


@pytest.mark.parametrize(
    "plant",
    [
        forget_sums_that_are_owed,
        forget_who_waits_or_runs,
        forget_who_comes_and_goes,
        forget_that_somebody_was_granted_more,
        forget_the_clock_above,
        forget_listeners,
        note_the_open_commit_for_good,
    ],
)
def test_a_fault_that_is_planted_in_a_country_is_caught(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    find(plant, monkeypatch, AttendedCountry)


def find(plant: Plant, monkeypatch: pytest.MonkeyPatch, kind: type[AttendedTown]) -> None:
    """Some seed notices it."""
    plant(monkeypatch)
    for seed in range(10 * SEEDS):
        try:
            run(seed, monkeypatch, kind)
        except Wrong as wrong:
            print(f"seed {seed}: {wrong}")
            return
    pytest.fail("nobody has noticed")
