"""Depths: how many listeners, one after the other, led to a row. Recorded with the row, so that a replay knows them."""

from dataclasses import replace

from env_server.model.changes import Changes, Extra


def depth_of(changes: Changes, row: int) -> int:
    """The depth of a row; 0 = no listener led to it."""
    extra = changes.extras.get(row)
    return 0 if extra is None else extra.depth


def deepen(changes: Changes, first_row: int, depth: int) -> None:
    """Gives all rows from `first_row` on this depth."""
    for row in range(first_row, len(changes)):
        changes.extras[row] = replace(changes.extras.get(row) or Extra(), depth=depth)


def deepen_aggregates(changes: Changes, first_row: int) -> None:
    """Gives the rows of aggregates, which end a group from `first_row` on, the depth of what may have changed them.

    That is the greatest one in the aggregate's environment and below it, so that a chain that leads over an aggregate
    is cut too.
    """
    deepest: dict[str, int] = {}
    for row, extra in changes.extras.items():
        if extra.depth and row < first_row:
            path = changes.places[changes.path[row]].path
            deepest[path] = max(deepest.get(path, 0), extra.depth)
    if not deepest:
        return
    for row in range(first_row, len(changes)):
        path = changes.places[changes.path[row]].path
        below = path.rstrip("/") + "/"
        depth = max((deepest[one] for one in deepest if one == path or one.startswith(below)), default=0)
        if depth:
            changes.extras[row] = replace(changes.extras.get(row) or Extra(), depth=depth)
