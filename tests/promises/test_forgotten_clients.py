"""P9 for clients that the world has forgotten: whatever is lost, killed and forgotten, no frame is executed twice.

More clients than a world remembers send frames, each of which adds one to a key of its own. Answers get lost, links are
cut, the world is killed after any step or stopped, and clients come again with what was not answered, as the contract
says: with the position at which the oldest of it was sent first.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from env_server.idempotency.sessions import Sessions
from env_server.model.errors import SessionExpired
from env_server.model.limits import Limits
from env_server.model.values import NOTHING
from tests.engine import Sent, Stand, add

SESSIONS_MAX = 4
CLIENTS = 9
STEPS = 150
RUNS, RUNS_LONG = 40, 2000


@dataclass
class Client:
    """A client as the contract wants it: says what it will send again, and fails what it may not."""

    name: str
    seq: int = 0
    position: int = 0
    is_open: bool = False
    unanswered: dict[int, tuple[int, Sent | None]] = field(default_factory=dict)
    """By number: the position at which it was sent first, and what the last try was told."""
    answered: set[int] = field(default_factory=set)
    expired: set[int] = field(default_factory=set)

    def come(self, stand: Stand) -> None:
        """Opens a stream and sends again what is not answered."""
        since = min((position for position, _ in self.unanswered.values()), default=0)
        try:
            welcomed = stand.world.open_session(self.name, since)
        except SessionExpired:
            assert since, "who sends nothing again is never refused"
            self.expired.update(self.unanswered)
            self.unanswered.clear()
            welcomed = stand.world.open_session(self.name, 0)
        self.is_open, self.position = True, welcomed.position
        for seq, (position, _) in self.unanswered.items():
            self.unanswered[seq] = (position, self._send(stand, seq))

    def send(self, stand: Stand) -> None:
        """Sends a new frame."""
        self.seq += 1
        self.unanswered[self.seq] = (self.position, self._send(stand, self.seq))

    def leave(self, stand: Stand) -> None:
        """The link is cut; answers that were not heard are lost."""
        stand.world.close_session(self.name)
        self.forget_answers()

    def forget_answers(self) -> None:
        self.is_open = False
        self.unanswered = {seq: (position, None) for seq, (position, _) in self.unanswered.items()}

    def hear(self, stand: Stand) -> None:
        """Takes the answers that have come; acknowledges now and then."""
        for seq, (_, sent) in list(self.unanswered.items()):
            if sent is not None and sent.done:
                assert sent.written.value == 1, f"frame {seq} of {self.name} was executed twice"
                self.answered.add(seq)
                del self.unanswered[seq]
        if self.answered and not self.unanswered:
            stand.world.acknowledge(self.name, max(self.answered))

    def check(self, stand: Stand) -> None:
        """What was answered was done once, what was not at most once."""
        for seq in range(1, self.seq + 1):
            value = stand.value("/", f"{self.name}-{seq}")
            assert value in (1, NOTHING), f"frame {seq} of {self.name} was executed twice"
            assert value == 1 or seq not in self.answered, f"frame {seq} of {self.name} was answered and is lost"

    def _send(self, stand: Stand, seq: int) -> Sent:
        return stand.send(add("/", f"{self.name}-{seq}", 1), client_id=self.name, seq=seq)


def run_clients(chance: random.Random) -> int:
    """One run; how many frames had to be given up."""
    stand = Stand(limits=Limits(sessions_max=SESSIONS_MAX, replay_ops_max=chance.choice((20, 500_000))))
    stand.clock.settle()
    clients = [Client(f"c{number}") for number in range(CLIENTS)]
    for _ in range(STEPS):
        client = chance.choice(clients)
        action = chance.random()
        if action < 0.55:
            if not client.is_open:
                client.come(stand)
            client.send(stand)
        elif action < 0.7:
            for _ in range(chance.randrange(6)):
                stand.clock.step()
            client.hear(stand)
        elif action < 0.95:
            if chance.random() < 0.5:
                stand.clock.settle()
            if client.is_open:
                client.leave(stand)
        else:
            if chance.random() < 0.6:
                stand.kill()
            else:
                stand.stop()
            stand.open()
            for one in clients:
                one.forget_answers()
        assert len(stand.world._sessions) <= max(SESSIONS_MAX, sum(one.is_open for one in clients))
    for client in clients:
        if not client.is_open:
            client.come(stand)
        stand.clock.settle()
        client.hear(stand)
        assert not client.unanswered
        client.leave(stand)
    stand.reopen()
    for client in clients:
        client.check(stand)
    return sum(len(client.expired) for client in clients)


def test_no_frame_of_a_forgotten_client_is_executed_twice(seed: int) -> None:
    chance = random.Random(seed)
    assert sum(run_clients(random.Random(chance.getrandbits(64))) for _ in range(RUNS)) > 0, "some were forgotten"


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_no_frame_of_a_forgotten_client_is_executed_twice_in_many_runs(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(RUNS_LONG):
        run_clients(random.Random(chance.getrandbits(64)))


@pytest.mark.parametrize("bug", ["nothing is noted", "the note is not saved", "the note is too low"])
def test_a_planted_bug_is_noticed(bug: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    forget, round_ = Sessions.forget_idle, Sessions.round

    def forget_less(sessions: Sessions, coming: int = 0) -> None:
        before = sessions._forgotten
        forget(sessions, coming)
        sessions._forgotten = before if bug == "nothing is noted" else max(before, sessions._forgotten - 3)

    if bug == "the note is not saved":
        monkeypatch.setattr(
            Sessions, "round", lambda one: {name: mark for name, mark in round_(one).items() if name[0] != "~"}
        )
    else:
        monkeypatch.setattr(Sessions, "forget_idle", forget_less)
    chance = random.Random(seed)
    with pytest.raises(AssertionError, match="twice"):
        for _ in range(500 * RUNS):  # it ends with the first that is found
            run_clients(random.Random(chance.getrandbits(64)))
