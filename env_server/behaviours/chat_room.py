"""A chat room: who has joined speaks, and hears what was said since.

    /room   member.<name>   {"since": number of the first message that the member hears}
            history         stream of {"member", "text"}; the number of a message is its sequence in the stream

To be told of messages as they come, watch the stream `history`. Someone whose presence hangs on a lease registers a
member (an entry of kind MEMBER) named after itself in the room: it joins thereby, and leaves when its lease ends.
"""

from typing import Annotated, Any, ClassVar

from pydantic import Field, TypeAdapter
from typing_extensions import TypedDict

from env_server.behaviours.behaviour import Behaviour, Target, listener, operation
from env_server.behaviours.context import Context
from env_server.behaviours.event import Event
from env_server.behaviours.kept_state import get_kept
from env_server.model.changes import EventType
from env_server.model.entries import StreamEnds

HISTORY = "history"
_PREFIX = "member."
Name = Annotated[str, Field(min_length=1, max_length=64)]
Text = Annotated[str, Field(min_length=1, max_length=4000)]


class _Membership(TypedDict):
    since: int


_MEMBERSHIP = TypeAdapter(_Membership)


def _membership(path: str, member: str) -> list[Target]:
    return [Target(path, _PREFIX + member)]


class ChatRoom(Behaviour):
    """A room in which members speak and hear each other."""

    kind: ClassVar[str] = "chat_room"

    @operation(writes=_membership)
    async def join(self, ctx: Context, member: Name) -> dict[str, Any]:
        """Makes someone a member, who hears what is said from now on. Joining twice changes nothing."""
        known = get_kept(ctx, _PREFIX + member, _MEMBERSHIP)
        if known is None:
            known = _Membership(since=_next_message(ctx))
            ctx.set(_PREFIX + member, dict(known))
        return {"member": member, **known}

    @operation(writes=_membership)
    async def leave(self, ctx: Context, member: Name) -> None:
        """Ends a membership; what was said remains. Refused with `not_a_member`."""
        _check_member(ctx, member)
        ctx.delete(_PREFIX + member)

    @operation(writes=lambda path, member, text: [Target(path, HISTORY)])
    async def speak(self, ctx: Context, member: Name, text: Text) -> dict[str, int]:
        """Says something to all members. Refused with `not_a_member`."""
        _check_member(ctx, member)
        ctx.append(HISTORY, {"member": member, "text": text})
        return {"message": _next_message(ctx)}

    @operation(reads_only=True)
    async def members(self, ctx: Context) -> list[str]:
        """Names of all members, sorted."""
        return sorted(key.removeprefix(_PREFIX) for key in ctx.entries() if key.startswith(_PREFIX))

    @operation(reads_only=True)
    async def history(
        self,
        ctx: Context,
        member: Name,
        after: Annotated[int, Field(ge=0)] = 0,
        limit: Annotated[int, Field(ge=1, le=1000)] = 100,
    ) -> list[dict[str, Any]]:
        """What the member hears: messages since it joined, after the message `after`, oldest first.

        Refused with `not_a_member`.
        """
        since = _check_member(ctx, member)["since"]
        heard = ctx.items(HISTORY, max(since, after + 1), limit)
        return [{"message": number, **said} for number, said in heard]

    @listener(
        types=[EventType.MEMBER_JOINED, EventType.MEMBER_LEFT, EventType.MEMBER_EXPIRED],
        writes=lambda path, event: _membership(path, event.key),
    )
    async def follow_presence(self, ctx: Context, event: Event) -> None:
        """Lets those join and leave whose presence hangs on a lease."""
        is_member = ctx.entry(_PREFIX + event.key) is not None
        if event.type is EventType.MEMBER_JOINED and not is_member:
            ctx.set(_PREFIX + event.key, {"since": _next_message(ctx)})
        elif event.type is not EventType.MEMBER_JOINED and is_member:
            ctx.delete(_PREFIX + event.key)


def _next_message(ctx: Context) -> int:
    stream = ctx.entry(HISTORY)
    return stream.value.next if stream is not None and isinstance(stream.value, StreamEnds) else 1


def _check_member(ctx: Context, member: str) -> _Membership:
    known = get_kept(ctx, _PREFIX + member, _MEMBERSHIP)
    if known is None:
        ctx.refuse("not_a_member", f"{member} has not joined", member=member)
    return known
