"""A world in this process, on a memory disk and a manual clock, driven op by op.

stand = Stand()
stand.do(Op("/town", "mood", Code.SET, "calm"))     one frame of one op, durable on return
stand.kill(); stand.open()                           as a crash and a restart
"""

from __future__ import annotations

import itertools
from typing import Any

from env_server.behaviours.behaviour import Behaviour
from env_server.behaviours.registry import Behaviours
from env_server.clocks.manual_clock import ManualClock
from env_server.model.changes import Changes
from env_server.model.errors import WorldError
from env_server.model.frames import EntryRead, Outcome
from env_server.model.limits import Limits
from env_server.model.values import NOTHING, Nothing, Value
from env_server.pipeline import World
from env_server.storage.memory import MemoryCommitLog, MemoryDisk
from env_server.testing.ops import Op, Sent, get, make_frame


class Stand:
    """One world, its disk and its clock."""

    def __init__(self, *behaviours: Behaviour, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.behaviours = Behaviours(list(behaviours))
        self.disk = MemoryDisk()
        self._machines = 1
        self.clock = ManualClock(origin="machine 1")
        self.fatal: list[BaseException] = []
        self._histories = itertools.count(1)
        self._starts = 0
        self.log: MemoryCommitLog
        self.world: World
        self.open()

    def install(self, *behaviours: Behaviour) -> None:
        """From the next opening on these behaviours are installed, and no others."""
        self.behaviours = Behaviours(list(behaviours))

    def open(self) -> None:
        """Opens the world on what the disk holds."""
        self.log = log = MemoryCommitLog.open(
            self.disk, self.clock, self.limits, lambda: f"history-{next(self._histories)}"
        )

        async def read_log(from_revision: int, bytes_max: int) -> list[Changes]:
            return log.read(from_revision, bytes_max)

        self._starts += 1
        start_mark = str(self._starts)
        self.world = World("main", log, self.clock, self.limits, self.behaviours, read_log, start_mark=start_mark)
        log.start(call=lambda call, argument: call(argument), on_durable=self.world.durable, on_fatal=self.fatal.append)

    def kill(self, outage_s: float | None = None) -> None:
        """Ends the world as SIGKILL would: what is not durable is gone, and nothing of it happens any more.

        The next opening comes so much later on the same machine; None = on another one, whose clock begins anew.
        """
        self.log.kill()
        self._change_clock(outage_s)

    def reopen(self, outage_s: float | None = None) -> None:
        """A crash and a restart; see kill."""
        self.kill(outage_s)
        self.open()

    def stop(self, outage_s: float | None = None) -> None:
        """A clean stop; see kill."""
        stopped: list[bool] = []
        self.world.stop(lambda: stopped.append(True))
        self.clock.settle()
        assert stopped
        self.log.close()
        self._change_clock(outage_s)

    def _change_clock(self, outage_s: float | None) -> None:
        if outage_s is None:
            self._machines += 1
            self.clock = ManualClock(origin=f"machine {self._machines}")
        else:
            self.clock = ManualClock(self.clock.monotonic_ns() + round(outage_s * 1e9), self.clock.origin())

    def send(self, *ops: Op, client_id: str = "", seq: int = 0, deadline_s: float = 0.0) -> Sent:
        """Hands a frame to the world; nothing of it is durable or answered yet."""
        frame = make_frame(ops, client_id, seq)
        if deadline_s:
            frame.deadline_ns = self.clock.monotonic_ns() + round(deadline_s * 1e9)
        return self.resend(Sent(frame))

    def resend(self, before: Sent) -> Sent:
        """Hands the same frame to the world once more."""
        sent = Sent(before.frame)
        self.world.execute(sent.frame, sent.parts.append)
        return sent

    def do(self, *ops: Op, client_id: str = "", seq: int = 0) -> Sent:
        """Sends a frame and lets everything happen that needs no time."""
        sent = self.send(*ops, client_id=client_id, seq=seq)
        self.clock.settle()
        return sent

    def done(self, *ops: Op) -> list[Outcome]:
        """The outcomes of ops of which none may fail."""
        sent = self.do(*ops)
        outcomes = [sent.outcome(index) for index in range(len(ops))]
        for outcome in outcomes:
            assert not isinstance(outcome, WorldError), outcome
        return outcomes

    def value(self, path: str, key: str) -> Value | Nothing | object:
        """An entry's value as a read sees it; NOTHING when it is absent."""
        outcome = self.do(get(path, key)).outcome()
        return outcome.entry.value if isinstance(outcome, EntryRead) else NOTHING

    def records(self) -> list[Changes]:
        """All that the log holds."""
        return self.log.read(self.log.first_revision, 1 << 62) if self.world.durable_revision else []

    def rows(self) -> list[tuple[int, int, str, str, Any]]:
        """All rows of the log: revision, type, path, key, value."""
        return [
            (
                *(changes.revisions[row], int(changes.types[row]), changes.places[changes.path[row]].path, key),
                changes.told_value(row),
            )
            for changes in self.records()
            for row, key in enumerate(changes.keys)
        ]
