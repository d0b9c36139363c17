"""Who takes part in a clock, by its entries, and whose reports count."""

from __future__ import annotations

import time
from typing import Any

import pytest

from env_server.model.environments import Access, Grant
from env_server.model.errors import Reason
from env_server.model.limits import Limits
from env_server.model.operations import Code, Delete, EnvironmentUpdate, GrantLease, RegisterEntry, Transact, Write
from env_server.model.spaces import Grid, Space
from env_server.model.timelines import ClockDeclaration, ClockMode
from env_server.model.values import Json
from env_server.pipeline.timekeeping.participation import Participation
from tests.attended import Worker, held_by, make_town, now_ns, timer
from tests.engine import Op, Stand, drop, new_environment, put

WORKERS = "/town/workers"


def reasons(worker: Worker) -> list[Reason]:
    return [void.error.reason for void in worker.voids]


def test_two_who_join_in_one_transaction_are_two() -> None:
    stand = make_town()
    worker = Worker(stand)
    stand.done(timer("/town", "dawn", 50))
    joins = tuple(Write(WORKERS, key, Code.SET, None) for key in ("ann", "bob"))
    revision = stand.done(Op("/", "", Code.TRANSACT, Transact(writes=joins)))[0].revision  # type: ignore[union-attr]
    worker.report("ann", revision)
    assert now_ns(stand) == 0
    worker.report("bob", revision)
    assert now_ns(stand) == 50 and not worker.voids


def test_a_join_that_is_taken_back_leaves_nobody_to_wait_for() -> None:
    stand = make_town()
    worker = Worker(stand)
    stand.done(timer("/town", "dawn", 50))
    ann = worker.join("ann")
    failing = Transact(writes=(Write(WORKERS, "ghost", Code.SET, None), Write("/nowhere", "x", Code.SET, 1)))
    stand.do(Op("/", "", Code.TRANSACT, failing))
    worker.report("ann", ann)
    assert now_ns(stand) == 50
    worker.report("ghost", stand.world.revision)
    assert reasons(worker) == [Reason.PARTICIPANT_NOT_FOUND]


@pytest.mark.parametrize("hears", [None, {"hears": [{"path_prefix": "/town"}]}, {"hears": [{"key_glob": "k"}]}])
def test_a_commit_of_which_all_rows_were_taken_back_is_heard_by_nobody(hears: dict[str, object] | None) -> None:
    """That they failed is kept for whoever repeats them."""
    stand = make_town()
    worker = Worker(stand)
    stand.done(timer("/town", "dawn", 50))
    ann = worker.join("ann", hears)
    failing = Transact(writes=(Write("/town", "k", Code.SET, None), Write("/nowhere", "x", Code.SET, 1)))
    sent = stand.do(Op("/", "", Code.TRANSACT, failing, producer="p", seq=1))
    assert sent.done and not stand.fatal
    worker.report("ann", ann)
    assert now_ns(stand) == 50


def test_a_clock_that_is_taken_back_with_its_transaction_does_not_jump() -> None:
    stand = Stand()
    stand.done(new_environment("/town"), new_environment("/town/workers"))
    clock = EnvironmentUpdate(clock=ClockDeclaration(ClockMode.EVENT_DRIVEN, participants_path=WORKERS))
    writes = (Write("/town", "", Code.UPDATE_ENVIRONMENT, clock), Write("/nowhere", "x", Code.SET, 1))
    stand.do(Op("/", "", Code.TRANSACT, Transact(writes=writes)))
    worker = Worker(stand)
    worker.report("bob", worker.join("bob"))
    assert reasons(worker) == [Reason.CLOCK_NOT_FOUND]
    stand.done(Op("/town", "", Code.UPDATE_ENVIRONMENT, clock), timer("/town", "dawn", 50))
    worker.report("bob", worker.join("bob"))
    assert now_ns(stand) == 50


def test_who_sets_an_entry_again_fences_its_reporter() -> None:
    stand = make_town()
    first, second = Worker(stand), Worker(stand)
    stand.done(timer("/town", "dawn", 50))
    before = first.join("bob")
    first.report("bob", before, busy=True)
    after = second.join("bob")
    assert reasons(first) == [Reason.FENCED] and first.voids[0].set_revision == before
    first.report("bob", before)
    assert reasons(first) == [Reason.FENCED] * 2 and now_ns(stand) == 0
    second.report("bob", after)
    assert now_ns(stand) == 50


def test_who_moves_about_goes_on_to_be_heard() -> None:
    stand = make_town()
    stand.done(Op(WORKERS, "", Code.UPDATE_ENVIRONMENT, EnvironmentUpdate(space=Space(Grid(8, 8)))))
    worker = Worker(stand)
    stand.done(timer("/town", "dawn", 50))
    joined = worker.join("bob")
    worker.report("bob", joined, busy=True)
    stand.done(Op(WORKERS, "bob", Code.MOVE, (1.0, 1.0)))
    assert not worker.voids and now_ns(stand) == 0
    worker.report("bob", joined)
    assert not worker.voids and now_ns(stand) == 50
    stand.reopen()
    again = Worker(stand)
    again.report("bob", joined, busy=True)
    assert not again.voids


def test_nobody_is_told_that_a_clock_is_gone_before_that_is_on_the_disk() -> None:
    """Who was told so would report no more, and the clock be there again after a kill, and wait for it."""
    stand = make_town()
    stand.done(new_environment("/staff"))
    clock = ClockDeclaration(ClockMode.EVENT_DRIVEN, participants_path="/staff")
    stand.done(new_environment("/other", clock=clock))
    worker = Worker(stand, "/other")
    worker.report("bob", worker.join("bob", place="/staff"))
    stand.send(drop("/other", ""))
    while stand.world.durable_revision < stand.world.revision:
        assert not worker.voids
        stand.clock.step()
    stand.clock.settle()
    assert [void.error.reason for void in worker.voids] == [Reason.CLOCK_NOT_FOUND]


def test_an_entry_that_is_deleted_and_made_again_has_another_reporter() -> None:
    """Its version is the same as before; its revision is not."""
    stand = make_town()
    worker = Worker(stand)
    before = worker.join("bob")
    worker.report("bob", before)
    stand.done(drop(WORKERS, "bob"))
    assert reasons(worker) == [Reason.PARTICIPANT_NOT_FOUND]
    worker.join("bob")
    worker.report("bob", before)
    assert reasons(worker)[1:] == [Reason.FENCED] and held_by(stand) == ("bob: no report",)


def test_a_member_goes_with_its_lease_and_others_are_not_held_up() -> None:
    stand = make_town()
    worker = Worker(stand)
    stand.done(timer("/town", "dawn", 50))
    lease = stand.done(Op("/", "", Code.GRANT_LEASE, GrantLease(2_000)))[0].revision  # type: ignore[union-attr]
    joined = stand.done(Op(WORKERS, "tool", Code.REGISTER_ENTRY, RegisterEntry(4, lease=lease)))[0]
    ann = worker.join("ann")
    worker.report("ann", ann)
    worker.report("tool", joined.revision, busy=True)  # type: ignore[union-attr]
    stand.clock.advance(1.0)
    assert now_ns(stand) == 0
    stand.clock.advance(2.0)
    assert reasons(worker) == [Reason.PARTICIPANT_NOT_FOUND]
    assert "ann: has consumed" in held_by(stand)[0], "it hears that the other has expired"
    worker.report("ann", ann)
    assert now_ns(stand) == 50


def test_who_does_not_know_of_refused_ops_has_said_nothing() -> None:
    stand = make_town()
    worker = Worker(stand)
    ann, bob, eve = worker.join("ann"), worker.join("bob"), worker.join("eve")
    worker.report("ann", ann, refusals=1)
    worker.report("bob", bob, refusals=2)
    worker.report("eve", eve)
    stand.world.timekeeping.end_behind(worker, 2)
    assert held_by(stand) == ("ann: no report",) and not worker.voids
    worker.report("ann", ann, refusals=2)
    assert held_by(stand) == ("nothing is due",)


def test_reports_end_with_the_stream_and_with_the_server() -> None:
    stand = make_town()
    worker = Worker(stand)
    bob = worker.join("bob")
    worker.report("bob", bob)
    worker.end()
    stand.done(timer("/town", "dawn", 50))
    stand.clock.advance(1)
    assert now_ns(stand) == 0 and held_by(stand) == ("bob: no report",) and not worker.voids
    again = Worker(stand)
    again.report("bob", bob, busy=True)
    stand.reopen()
    assert held_by(stand) == ("bob: no report",)
    once_more = Worker(stand)
    once_more.report("bob", bob, consumed_revision=bob)
    assert held_by(stand) == (f"bob: has consumed {bob} of {stand.world.revision}",), "who heard what is not known"
    once_more.report("bob", bob)
    assert now_ns(stand) == 50


def test_the_last_of_two_streams_counts_and_its_end() -> None:
    stand = make_town()
    one, two = Worker(stand), Worker(stand)
    bob = one.join("bob")
    one.report("bob", bob)
    two.report("bob", bob, busy=True)
    one.end()
    assert held_by(stand) == ("bob: busy",)
    two.end()
    assert held_by(stand) == ("bob: no report",)


@pytest.mark.parametrize(
    ("path", "key", "reason"),
    [
        ("/nowhere", "bob", Reason.ENVIRONMENT_NOT_FOUND),
        ("town", "bob", Reason.INVALID_PATH),
        ("/town/workers", "bob", Reason.CLOCK_NOT_FOUND),
        ("/manual", "bob", Reason.CLOCK_MODE_MISMATCH),
        ("/town", "eve", Reason.PARTICIPANT_NOT_FOUND),
        ("/town", "", Reason.PARTICIPANT_NOT_FOUND),
    ],
)
def test_a_report_of_what_is_not_there_is_refused(path: str, key: str, reason: Reason) -> None:
    stand = make_town()
    stand.done(new_environment("/manual", clock=ClockDeclaration(ClockMode.MANUAL)))
    worker = Worker(stand, path)
    bob = worker.join("bob")
    worker.report(key, bob)
    assert reasons(worker) == [reason]


def test_nobody_has_consumed_what_is_not_there_yet() -> None:
    stand = make_town()
    worker = Worker(stand)
    bob = worker.join("bob")
    worker.report("bob", bob, consumed_revision=bob + 1)
    assert reasons(worker) == [Reason.REVISION_IN_FUTURE]


def test_a_value_that_cannot_be_understood_holds_the_clock_and_says_why() -> None:
    stand = make_town()
    worker = Worker(stand)
    for number, part in enumerate(({"types": ["no_such"]}, {"key_glob": "["}, {"path_prefix": "town"}, {"path": "/"})):
        bob = worker.join("bob", {"hears": [part]})
        worker.report("bob", bob)
        assert reasons(worker) == [Reason.INVALID_VALUE] * (number + 1)
        assert held_by(stand)[0].startswith("bob: ") and held_by(stand) != ("bob: no report",)


def test_more_than_may_take_part_make_the_clock_stand_until_they_are_fewer() -> None:
    stand = Stand(limits=Limits(participants_max=3))
    stand.done(new_environment("/town", clock=ClockDeclaration(ClockMode.EVENT_DRIVEN)))
    worker = Worker(stand)
    stand.done(timer("/town", "dawn", 50))
    joined = [worker.join(f"w{number}", {"hears": []}, "/town") for number in range(3)]
    for number in range(2):
        worker.report(f"w{number}", joined[number])
    stand.done(put("/town", "w3", Json.of({"hears": []})))
    assert reasons(worker) == [Reason.PARTICIPANT_QUOTA] * 2
    worker.report("w2", joined[2])
    assert reasons(worker)[2:] == [Reason.PARTICIPANT_QUOTA] and "participants_max" in held_by(stand)[0]
    stand.done(drop("/town", "w3"))
    for number in range(3):
        assert now_ns(stand) == 0
        worker.report(f"w{number}", joined[number])
    assert now_ns(stand) == 50


def test_what_was_to_be_heard_while_there_were_too_many_has_to_be_consumed() -> None:
    """Nobody counted it for entries that were there all the time."""
    stand = Stand(limits=Limits(participants_max=1))
    clock = ClockDeclaration(ClockMode.EVENT_DRIVEN, participants_path="/workers")
    stand.done(new_environment("/far"), new_environment("/workers"), new_environment("/town", clock=clock))
    stand.done(timer("/town", "dawn", 50))
    worker = Worker(stand)
    bob = worker.join("bob", {"hears": [{"path_prefix": "/far"}]}, "/workers")
    stand.done(put("/workers", "ann", 1))
    heard = stand.done(put("/far", "news", 1))[0].revision  # type: ignore[union-attr]
    stand.done(drop("/workers", "ann"))
    worker.report("bob", bob, consumed_revision=heard - 1)
    assert now_ns(stand) == 0 and held_by(stand)[0].startswith(f"bob: has consumed {heard - 1} of ")
    worker.report("bob", bob)
    assert now_ns(stand) == 50 and not worker.voids


def test_a_group_may_report_where_it_may_write_until_that_is_withdrawn() -> None:
    stand = make_town()
    stand.done(new_environment("/east"), timer("/town", "dawn", 50))
    worker = Worker(stand)
    bob = worker.join("bob")
    worker.report("bob", bob, group="/east")
    assert reasons(worker) == [Reason.PERMISSION_DENIED]
    grants = (Grant("/east", Access.READ),)
    stand.done(Op("/town", "", Code.UPDATE_ENVIRONMENT, EnvironmentUpdate(set_grants=grants)))
    worker.report("bob", bob, group="/east")
    assert reasons(worker) == [Reason.PERMISSION_DENIED] * 2
    grants = (Grant("/east", Access.WRITE),)
    stand.done(Op(WORKERS, "", Code.UPDATE_ENVIRONMENT, EnvironmentUpdate(set_grants=grants)))
    worker.report("bob", bob, group="/east", busy=True)
    assert held_by(stand) == ("bob: busy",)
    stand.done(Op(WORKERS, "", Code.UPDATE_ENVIRONMENT, EnvironmentUpdate(remove_grants=("/east",))))
    assert reasons(worker) == [Reason.PERMISSION_DENIED] * 3 and held_by(stand) == ("bob: no report",)
    stand.reopen()
    worker = Worker(stand)
    worker.report("bob", bob, group="/east")
    assert reasons(worker) == [Reason.PERMISSION_DENIED] and now_ns(stand) == 0


def test_a_group_is_not_told_who_takes_part_where_it_may_not_look() -> None:
    stand = make_town()
    stand.done(new_environment("/town/east"))
    Worker(stand).join("bob")
    see = stand.world.timekeeping.see
    assert see("/town").participants_path == WORKERS and see("/town").held_by == ("bob: no report",)
    seen = see("/town", "/town/east")
    assert seen.participants_path == "" and "bob" not in " ".join(seen.held_by) and seen.held_by


def test_a_participant_in_a_group_hears_what_that_sees() -> None:
    stand = Stand()
    stand.done(new_environment("/east"), new_environment("/west"))
    stand.done(
        Op(
            "/",
            "",
            Code.UPDATE_ENVIRONMENT,
            EnvironmentUpdate(clock=ClockDeclaration(ClockMode.EVENT_DRIVEN, participants_path="/east")),
        )
    )
    stand.done(timer("/east", "dawn", 50))
    worker = Worker(stand, "/")
    bob = worker.join("bob", {"group": "/east"}, "/east")
    stand.done(put("/west", "secret", 1))
    worker.report("bob", bob, group="/east", consumed_revision=bob)
    assert now_ns(stand, "/") == 50


def test_a_place_that_is_made_anew_has_its_new_participants() -> None:
    stand = make_town()
    worker = Worker(stand)
    stand.done(timer("/town", "dawn", 50))
    bob = worker.join("bob")
    worker.report("bob", bob, busy=True)
    stand.done(drop(WORKERS, ""), new_environment(WORKERS), put(WORKERS, "ann", None))
    assert held_by(stand) == ("ann: no report",) and reasons(worker) == [Reason.PARTICIPANT_NOT_FOUND]
    stand.done(Op(WORKERS, "ann", Code.DELETE_ENTRY, Delete()))
    assert held_by(stand) == (f"it has no participants in {WORKERS}",)


def test_its_place_must_exist_and_belongs_to_this_mode() -> None:
    stand = Stand()
    for clock in (
        ClockDeclaration(ClockMode.EVENT_DRIVEN, participants_path="/nowhere"),
        ClockDeclaration(ClockMode.MANUAL, participants_path="/"),
    ):
        refused = stand.do(new_environment("/town", clock=clock)).outcome()
        assert refused.reason is Reason.INVALID_FIELD  # type: ignore[union-attr]
    stand.done(new_environment("/town", clock=ClockDeclaration(ClockMode.EVENT_DRIVEN, participants_path="/town")))


def test_ten_thousand_take_part_at_a_cost_that_is_not_their_square() -> None:
    stand = make_town()
    worker = Worker(stand)
    stand.done(timer("/town", "dawn", 50, every_ns=50))
    keys = [f"w{number}" for number in range(10_000)]
    revisions = {}
    for start in range(0, len(keys), 1000):
        some = keys[start : start + 1000]
        for key, done in zip(some, stand.done(*(put(WORKERS, key, None) for key in some)), strict=True):
            revisions[key] = done.revision  # type: ignore[union-attr]
    begun = time.process_time()
    for round_ in range(3):
        consumed = stand.world.durable_revision
        for key in keys:
            worker.say(key, revisions[key], consumed_revision=consumed)
        stand.clock.settle()
        assert now_ns(stand) == 50 * (round_ + 1)
    took_us = (time.process_time() - begun) / 3 / len(keys) * 1e6
    print(f"{took_us:.0f} us a report")
    assert not worker.voids and took_us < 200


def test_very_many_are_found_in_steps_after_a_restart_and_nothing_passes_who_was_not_found_yet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stand = make_town()
    stand.done(timer("/town", "dawn", 50))
    hears = Json(b'{"hears": [{"path_prefix": "/town", "key_glob": "news"}]}')
    joined = stand.done(*(put(WORKERS, f"w{number}", hears) for number in range(2000)))
    stand.reopen()
    taken: list[int] = [0]
    take, step = Participation._take, stand.clock.step

    def count(self: Participation, attended: Any, key: str, entry: Any) -> None:
        taken[-1] += 1
        take(self, attended, key, entry)

    def begin() -> None:
        taken.append(0)
        step()

    monkeypatch.setattr(Participation, "_take", count)
    monkeypatch.setattr(stand.clock, "step", begin)
    worker = Worker(stand)
    assert held_by(stand) == (f"2000 more in {WORKERS} are to be looked at",)
    stand.clock.step()
    news = stand.done(put("/town", "news", 1))[0].revision  # type: ignore[union-attr]
    while not stand.clock.idle:
        stand.clock.step()
    assert sum(taken) == 2000 and max(taken) == 512
    for consumed in (news - 1, news):
        for number, done in enumerate(joined):
            worker.say(f"w{number}", done.revision, consumed_revision=consumed)  # type: ignore[union-attr]
        stand.clock.settle()
        assert now_ns(stand) == (50 if consumed == news else 0)
    assert not worker.voids
