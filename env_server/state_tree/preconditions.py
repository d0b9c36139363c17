"""Preconditions: tested in the loop step in which the op takes effect."""

from typing import Final

from env_server.model.entries import Entry
from env_server.model.errors import Fenced, FenceFallen, GateClosed, NotFound, PreconditionFailed
from env_server.model.frames import Frame
from env_server.model.names import check_segment, split_path
from env_server.model.operations import Precondition, Test
from env_server.state_tree.nodes import Node
from env_server.state_tree.tree import Tree
from env_server.state_tree.visibility import check_visible

_FENCING: Final = (Test.LEASE_OWNER, Test.CREATED_REVISION)
"""Tests of who holds a lock: who fails one must not try again under the same lease."""


def check_preconditions(tree: Tree, path: str, key: str, tests: tuple[Precondition, ...]) -> None:
    """Tests all conditions; those that name no place apply to (`path`, `key`).

    Raises:
        PreconditionFailed: the first that does not hold, with what it met.
        GateClosed: a generation that the gate does not collect.
        NotFound: the environment of a version, value or generation test is absent.
        InvalidRequest: nothing can have that path or key.
    """
    for test in tests:
        _check(tree, test.path or path, test.key or ("" if test.path else key), test)


def check_conditions(tree: Tree, frame: Frame, index: int, path: str, key: str) -> None:
    """Tests everything that the frame asks of the state for its op `index`. Raises as the functions below.

    Raises:
        DeniedView, Fenced: see check_allowed.
    """
    check_allowed(tree, frame, index)
    if frame.preconditions is not None and index in frame.preconditions:
        check_preconditions(tree, path, key, frame.preconditions[index])
    if frame.gate_generations is not None and frame.gate_generations[index]:
        node = tree.nodes.find(path)
        if frame.gate_generations[index] != node.open_generation:
            raise gate_closed(node, frame.gate_generations[index])
    if frame.expect_versions is not None and frame.expect_versions[index]:
        check_version(tree, tree.nodes.find(path), key, frame.expect_versions[index])


def check_allowed(tree: Tree, frame: Frame, index: int) -> None:
    """Whether whoever sends the op may let it have its effect as the state is now.

    Raises:
        DeniedView: the op's group may not do it.
        FenceFallen: the op's fence has fallen.
    """
    if frame.groups is not None:
        check_visible(tree.grants, frame, index)
    if frame.fence is not None and frame.fence[index]:
        check_fence(tree, frame.fences[frame.fence[index] - 1])


def all_fences_hold(tree: Tree, frame: Frame) -> bool:
    """Whether no op of the frame is stopped by a fence as the state is now."""
    try:
        for fence in frame.fences:
            check_fence(tree, fence)
    except Fenced:
        return False
    return True


def check_fence(tree: Tree, fence: Precondition) -> None:
    """The entry must be the one that the fence means.

    Raises:
        FenceFallen: it is another one, or gone with its environment.
    """
    try:
        _check(tree, fence.path, fence.key, fence)
    except Fenced as fallen:
        raise FenceFallen(str(fallen), **fallen.metadata) from None
    except NotFound:
        raise FenceFallen(
            f"{fence.key!r} of {fence.path} is gone", path=fence.path, key=fence.key, revision=str(tree.revision)
        ) from None


def check_version(tree: Tree, node: Node, key: str, expected: int) -> None:
    """The entry, or without a key the environment, must have the version `expected`.

    Raises:
        PreconditionFailed: it has another one, or is absent.
        InvalidRequest: INVALID_KEY: no entry can have it.
    """
    entry = node.entries.get(key)
    if entry is None or entry[1] != expected:
        found = entry if key else node
        version, revision = (0, tree.revision) if found is None else (found.version, found.modified)
        if version == expected:
            return
        if key and entry is None:
            check_segment(key, tree.limits)
        raise PreconditionFailed("version", version=version, revision=revision, expected=str(expected))


def gate_closed(node: Node, asked: int) -> GateClosed:
    """Why a report for generation `asked` is refused."""
    gate = node.gate
    if gate is None:
        return GateClosed(node.path, asked=asked, generation=0, opened=True)
    return GateClosed(node.path, asked=asked, generation=gate.generation, opened=gate.opened)


def _check(tree: Tree, path: str, key: str, test: Precondition) -> None:
    kind = test.test
    if kind is Test.GATE_GENERATION:
        node = tree.nodes.find(path)
        if node.open_generation != test.operand:
            raise gate_closed(node, test.operand)  # type: ignore[arg-type]
        if node.gate is not None and node.gate.begin_revision > tree.revision:
            # What this op writes has the revision of the begin, and would count for no generation.
            error = gate_closed(node, test.operand)  # type: ignore[arg-type]
            error.message += ", begun by this very op, so from the next revision on"
            raise error
        return
    node_or_none = tree.nodes.by_path.get(path)
    if node_or_none is None and kind not in (Test.EXISTS, Test.ABSENT):
        tree.nodes.find(path)
    found: Entry | Node | None = node_or_none
    if key and node_or_none is not None:
        found = node_or_none.entries.get(key)
    if node_or_none is None:
        split_path(path, tree.limits)
    if key and found is None:
        check_segment(key, tree.limits)
    version, revision = (0, tree.revision) if found is None else (found.version, found.modified)
    if kind is Test.EXISTS:
        holds = found is not None
    elif kind is Test.ABSENT:
        holds = found is None
    elif kind is Test.VERSION:
        holds = version == test.operand
    elif kind is Test.LEASE_OWNER:
        holds = isinstance(found, Entry) and found.lease == test.operand and _is_held(tree, found)
    elif kind is Test.CREATED_REVISION:
        holds = (
            found is not None
            and found.created == test.operand
            and (isinstance(found, Node) or not found.lease or _is_held(tree, found))
        )
    else:
        holds = isinstance(found, Entry) and _equal(found.value, test.operand)
    if not holds and kind in _FENCING:
        met = {"version": str(version), "revision": str(revision)}
        raise Fenced(f"{key!r} of {path} is no longer yours", path=path, key=key, **met)
    if not holds:
        expected = str(test.operand) if kind is Test.VERSION else ""
        raise PreconditionFailed(kind.name.lower(), version=version, revision=revision, expected=expected)


def _is_held(tree: Tree, entry: Entry) -> bool:
    """Whether the entry's lease lives: what is left of an ended one is nobody's, until it is swept away."""
    return tree.holdings.leases.lives(entry.lease)


def _equal(left: object, right: object) -> bool:
    """Equal in kind and value: 1 is not 1.0, True is not 1."""
    return type(left) is type(right) and left == right
