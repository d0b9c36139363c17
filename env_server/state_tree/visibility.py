"""Visibility: whether the group that an op names may see what the op reads, and change what it writes.

Told before anything else of the op, and again at the moment of its effect, since grants may have gone while it waited.
What an operation of a behaviour does by itself is not looked at: it has the server's authority, on behalf of who may
invoke it.
"""

from collections.abc import Iterable
from typing import Final

from env_server.model.environments import Access, Gate
from env_server.model.errors import DeniedView
from env_server.model.frames import Frame
from env_server.model.operations import Code, Precondition, Write
from env_server.model.timelines import ClockDeclaration
from env_server.model.views import View
from env_server.state_tree.grants import Grants

_LAST_ENTRY_WRITE: Final = int(Code.PLACE)
_PLACELESS: Final = frozenset(
    (
        Code.REFUSED,
        Code.ACKNOWLEDGE,
        Code.GRANT_LEASE,
        Code.REVOKE_LEASE,
        Code.CREATE_SUBSCRIPTION,
        Code.SEEK_SUBSCRIPTION,
        Code.DELETE_SUBSCRIPTION,
    )
)
"""Ops on what lies in no environment."""


def view_of_op(grants: Grants, frame: Frame, index: int) -> View | None:
    """The view that the op takes; None = it sees everything."""
    return None if frame.groups is None else grants.view_of(frame.groups[index])


def allows_all(grants: Grants, frame: Frame) -> bool:
    """Whether every op may have its effect, and none of them can change what the others may; may say no too often.

    Costs one look at each distinct place, however many ops there are.
    """
    groups, paths = frame.groups, frame.paths
    assert groups is not None
    for group, place, code in set(zip(groups, frame.path, frame.codes, strict=True)):
        if code == Code.QUERY:
            continue  # looked at one by one anyway
        if code > _LAST_ENTRY_WRITE or not group or grants.access(group, paths[place]) < Access.WRITE:
            return False
    return True


def check_visible(grants: Grants, frame: Frame, index: int) -> None:
    """Accepts an op of a frame with groups.

    Raises:
        DeniedView.
    """
    assert frame.groups is not None
    group, path, code = frame.groups[index], frame.paths[frame.path[index]], frame.codes[index]
    if not group:
        raise DeniedView("", path, "see")
    argument = frame.arguments[index]
    match code:
        case Code.QUERY:
            check_seen(grants, group, path)
        case Code.TRANSACT:
            _check_tests(grants, group, "", argument.preconditions)  # type: ignore[attr-defined]
            _check_writes(grants, group, (*argument.writes, *argument.otherwise))  # type: ignore[attr-defined]
        case _:
            companions = argument.companions if code == Code.INVOKE else ()  # type: ignore[attr-defined]
            _check_writes(grants, group, (Write(path, "", Code(code), argument), *companions))
    if frame.preconditions is not None:
        _check_tests(grants, group, path, frame.preconditions.get(index, ()))


def check_seen(grants: Grants, group: str, path: str) -> None:
    """Accepts that a group is told of what is at a path.

    Raises:
        DeniedView.
    """
    if not grants.access(group, path):
        raise DeniedView(group, path, "see")


def _check_writes(grants: Grants, group: str, writes: Iterable[Write]) -> None:
    for write in writes:
        if write.code not in _PLACELESS and grants.access(group, write.path) < Access.WRITE:
            raise DeniedView(group, write.path, "change")
        _check_tests(grants, group, write.path, write.preconditions)
        for gate in _gates(write):
            if gate.members_path:
                check_seen(grants, group, gate.members_path)
        clock = _clock(write)
        if clock is not None and clock.participants_path:
            check_seen(grants, group, clock.participants_path)


def _check_tests(grants: Grants, group: str, path: str, tests: Iterable[Precondition]) -> None:
    for test in tests:
        if test.path or path:
            check_seen(grants, group, test.path or path)


def _gates(write: Write) -> tuple[Gate, ...]:
    """Gates that the write declares."""
    if write.code == Code.REGISTER_ENVIRONMENT:
        return write.argument.declaration.gates  # type: ignore[attr-defined]
    if write.code == Code.UPDATE_ENVIRONMENT:
        return write.argument.set_gates  # type: ignore[attr-defined]
    return ()


def _clock(write: Write) -> ClockDeclaration | None:
    """The clock that the write declares."""
    if write.code == Code.REGISTER_ENVIRONMENT:
        return write.argument.declaration.clock  # type: ignore[attr-defined]
    if write.code == Code.UPDATE_ENVIRONMENT:
        return write.argument.clock  # type: ignore[attr-defined]
    return None
