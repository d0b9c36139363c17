"""Write sets: the keys that an op writes, from the request alone."""

from collections.abc import Iterable

from env_server.key_queues.queues import Key
from env_server.model.names import ROOT
from env_server.model.operations import Code, Write
from env_server.state_tree.tree import Tree


def keys_of(tree: Tree, path: str, key: str, code: int) -> list[Key]:
    """Queue keys of one write. Environments that do not exist have none: such a write fails, or registers a child.

    Registering and deleting a child queue on its parent's declarations; deleting also on all of the child and of what
    is below it.
    """
    node = tree.nodes.by_path.get(path)
    if code >= Code.EMIT:  # names no place, or writes nothing there
        return []
    if code not in (Code.REGISTER_ENVIRONMENT, Code.DELETE_ENVIRONMENT):
        return [] if node is None else [(node.number, key)]
    keys: list[Key] = []
    parent = tree.nodes.by_path.get(path.rpartition("/")[0] or ROOT)
    if parent is not None:
        keys.append((parent.number, ""))
    if code == Code.DELETE_ENVIRONMENT and node is not None:
        keys.append((node.number, None))
        keys.extend((below.number, None) for below in node.descendants())
    return keys


def keys_of_writes(tree: Tree, writes: Iterable[Write]) -> list[Key]:
    """Queue keys of all writes of a transaction."""
    return [key for write in writes for key in keys_of(tree, write.path, write.key, write.code)]
