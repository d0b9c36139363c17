"""What a start brings back from the log alone, before anything was ever saved to the state tables."""

from __future__ import annotations

from env_server.model.limits import Limits
from env_server.pipeline.recovery import load_world
from env_server.storage.memory import MemoryCommitLog
from tests.engine import Stand, new_environment, put
from tests.told_world import tell_state


def test_the_root_knows_its_revisions_after_a_crash_before_the_first_save() -> None:
    stand = Stand()
    stand.done(new_environment("/a"), put("/a", "k", 1))
    before = tell_state(stand.world._tree)
    assert before["environments"]["/"]["created"] == 1
    stand.reopen()
    assert tell_state(stand.world._tree) == before


def test_a_world_is_loaded_without_being_served() -> None:
    stand = Stand()
    stand.done(new_environment("/a"), put("/a", "k", 1))
    before = tell_state(stand.world._tree)
    stand.kill()
    log = MemoryCommitLog.open(stand.disk, stand.clock, Limits(), lambda: "wrong")
    recovery = load_world(log, Limits())
    assert tell_state(recovery.tree) == before
    assert recovery.recovered.history == "history-1"
    assert recovery.recovered.restored_from is None
    log.close()
