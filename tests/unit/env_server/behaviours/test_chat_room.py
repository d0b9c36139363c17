"""The chat room: who hears what, and who may speak."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from env_server.behaviours.chat_room import ChatRoom
from env_server.model.entries import EntryKind
from env_server.model.errors import InvalidRequest, OperationRefused
from env_server.model.operations import Code, GrantLease, RegisterEntry
from env_server.testing import BehaviourStand, behaviour_stand
from tests.engine import Op


@pytest.fixture
def stand() -> Iterator[BehaviourStand]:
    with behaviour_stand(ChatRoom) as stand:
        stand.register("/room", kind="chat_room")
        yield stand


def test_a_member_hears_what_was_said_since_it_joined(stand: BehaviourStand) -> None:
    assert stand.invoke("/room", "join", member="ada") == {"member": "ada", "since": 1}
    assert stand.invoke("/room", "speak", member="ada", text="is anybody there?") == {"message": 1}
    assert stand.invoke("/room", "join", member="bob") == {"member": "bob", "since": 2}
    stand.invoke("/room", "speak", member="bob", text="I am")
    assert stand.invoke("/room", "history", member="bob") == [{"message": 2, "member": "bob", "text": "I am"}]
    texts = [one["text"] for one in stand.invoke("/room", "history", member="ada")]
    assert texts == ["is anybody there?", "I am"]
    assert [one["message"] for one in stand.invoke("/room", "history", member="ada", after=1)] == [2]
    assert len(stand.invoke("/room", "history", member="ada", limit=1)) == 1
    assert stand.items("/room", "history")[0] == {"member": "ada", "text": "is anybody there?"}


def test_membership_begins_and_ends(stand: BehaviourStand) -> None:
    for member in ("bob", "ada", "ada"):
        stand.invoke("/room", "join", member=member)
    assert stand.invoke("/room", "members") == ["ada", "bob"]
    stand.invoke("/room", "speak", member="ada", text="bye")
    stand.invoke("/room", "leave", member="ada")
    assert stand.invoke("/room", "members") == ["bob"]
    for operation, more in (("speak", {"text": "again"}), ("leave", {}), ("history", {})):
        with pytest.raises(OperationRefused) as caught:
            stand.invoke("/room", operation, member="ada", **more)
        assert caught.value.metadata["code"] == "not_a_member"
    assert stand.invoke("/room", "join", member="ada")["since"] == 2, "what was said before is not heard again"


@pytest.mark.parametrize("text", ["", "x" * 4001])
def test_a_message_has_a_length(stand: BehaviourStand, text: str) -> None:
    stand.invoke("/room", "join", member="ada")
    with pytest.raises(InvalidRequest):
        stand.invoke("/room", "speak", member="ada", text=text)


def test_a_room_is_the_same_after_a_restart(stand: BehaviourStand) -> None:
    stand.invoke("/room", "join", member="ada")
    stand.invoke("/room", "speak", member="ada", text="hello")
    stand.kill_and_restart()
    assert stand.invoke("/room", "history", member="ada")[0]["text"] == "hello"


def test_presence_under_a_lease_joins_and_leaves(stand: BehaviourStand) -> None:
    granted = stand.engine.do(Op("", "", Code.GRANT_LEASE, GrantLease(10_000, "worker"))).written
    member = RegisterEntry(EntryKind.MEMBER, value=None, lease=granted.revision)
    stand.engine.done(Op("/room", "eve", Code.REGISTER_ENTRY, member))
    assert stand.invoke("/room", "members") == ["eve"]
    stand.invoke("/room", "speak", member="eve", text="here")
    stand.advance(12.0)
    assert stand.invoke("/room", "members") == []
    assert not stand.failures()
