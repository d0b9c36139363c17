"""Spatial indexes in one process: `python spatial_load.py LIBRARY POINTS RADIUS NEAREST QUERIES`, one JSON line.

POINTS is a file: a list of pairs, JSON. `rtree`: libspatialindex through Rtree, a point taken out and put in again for
each move, and one query for each entry. `scipy_batch`: cKDTree, made anew from all points and asked for all at once, as
programs do that hold all agents in one array; `scipy_each`: asked for one after the other. Microseconds of CPU each.
Their spaces are no toruses; that costs them nothing.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Points = Sequence[tuple[float, float]]


def measure_rtree(points: Points, radius: float, nearest: int, queries: int) -> dict[str, float]:
    """Boxes instead of circles, which is less work than ours."""
    from rtree import index

    tree = index.Index(((number, (x, y, x, y), None) for number, (x, y) in enumerate(points)))
    few = list(enumerate(points[:queries]))

    def move() -> None:
        for number, (x, y) in few:
            tree.delete(number, (x, y, x, y))
            tree.insert(number, (x + 0.5, y + 0.5, x + 0.5, y + 0.5))

    figures = {"move_plain": _take(queries, move)}
    knn = _take(queries, lambda: [list(tree.nearest((x, y, x, y), nearest)) for _, (x, y) in few])
    boxes = [(x - radius, y - radius, x + radius, y + radius) for _, (x, y) in few]
    near = _take(queries, lambda: [list(tree.intersection(box)) for box in boxes])
    return figures | {"knn": knn, "radius": near}


def measure_scipy(points: Points, radius: float, nearest: int, queries: int, *, batch: bool) -> dict[str, float]:
    """Distances of a whole array at once, or of one point at a time."""
    import numpy as np
    from scipy.spatial import cKDTree

    places = np.array(points)
    if batch:
        knn = _take(len(places), lambda: cKDTree(places).query(places, k=nearest))
        near = _take(len(places), lambda: cKDTree(places).query_ball_point(places, radius))
        return {"knn": knn, "radius": near, "neighbours": near, "knn_table": knn}
    tree = cKDTree(places)
    few = places[:queries]
    knn = _take(queries, lambda: [tree.query(place, k=nearest) for place in few])
    near = _take(queries, lambda: [tree.query_ball_point(place, radius) for place in few])
    return {"knn": knn, "radius": near}


def _take(count: int, work: Callable[[], Any]) -> float:
    start_s = time.process_time()
    work()
    return 1e6 * (time.process_time() - start_s) / count


def main(library: str, path: str, radius: float, nearest: int, queries: int) -> dict[str, float]:
    """What one library needs."""
    with Path(path).open(encoding="ascii") as file:
        points = json.load(file)
    if library == "rtree":
        return measure_rtree(points, radius, nearest, queries)
    return measure_scipy(points, radius, nearest, queries, batch=library == "scipy_batch")


if __name__ == "__main__":
    library, path, radius, *counts = sys.argv[1:]
    sys.stdout.write(json.dumps(main(library, path, float(radius), *map(int, counts))) + "\n")
