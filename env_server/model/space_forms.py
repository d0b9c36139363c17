"""Spaces as JSON: in events of environments, and in what is stored of them. Edges are columns, as in the contract."""

from typing import Any

from env_server.model.spaces import (
    Area,
    Box,
    Disc,
    Geo,
    Graph,
    Grid,
    Neighbourhood,
    NodeSet,
    Plane,
    Proximity,
    Region,
    Shape,
    Space,
)


def space_form(space: Space) -> dict[str, Any]:
    """What JSON needs of a space; defaults are left out."""
    kind, shape = _shape_form(space.shape)
    form: dict[str, Any] = {kind: shape}
    if space.regions:
        form["regions"] = {region.name: _area_form(region.area) for region in space.regions}
    if space.proximities:
        form["proximities"] = {proximity.name: _proximity_form(proximity) for proximity in space.proximities}
    return form


def space_of(form: dict[str, Any]) -> Space:
    """The space of `space_form`.

    Raises:
        ValueError, KeyError, TypeError: it is none.
    """
    return Space(
        _shape_of(form),
        tuple(Region(name, _area_of(area)) for name, area in form.get("regions", {}).items()),
        tuple(
            Proximity(name, part["distance"], part.get("key_glob", ""), part.get("other_key_glob", ""))
            for name, part in form.get("proximities", {}).items()
        ),
    )


def _shape_form(shape: Shape) -> tuple[str, dict[str, Any]]:
    form: dict[str, Any]
    match shape:
        case Grid():
            form = {"width": shape.width, "height": shape.height, "neighbourhood": shape.neighbourhood.name.lower()}
            return "grid", _with(form, torus=shape.torus, capacity=shape.capacity)
        case Plane():
            form = {"x_min": shape.x_min, "y_min": shape.y_min, "x_max": shape.x_max, "y_max": shape.y_max}
            return "plane", _with(form, torus=shape.torus)
        case Geo():
            return "geo", {}
        case Graph():
            form = {"nodes": shape.nodes}
            if shape.edges:
                form["from"], form["to"], weights = map(list, zip(*shape.edges, strict=True))
                if any(weight != 1.0 for weight in weights):
                    form["weights"] = weights
            return "graph", _with(form, directed=shape.directed, names=list(shape.names), capacity=shape.capacity)


def _shape_of(form: dict[str, Any]) -> Shape:
    if "grid" in form:
        grid = form["grid"]
        neighbourhood = Neighbourhood[grid["neighbourhood"].upper()]
        return Grid(grid["width"], grid["height"], neighbourhood, grid.get("torus", False), grid.get("capacity", 0))
    if "plane" in form:
        plane = form["plane"]
        bounds = plane["x_min"], plane["y_min"], plane["x_max"], plane["y_max"]
        return Plane(*bounds, plane.get("torus", False))
    if "geo" in form:
        return Geo()
    graph = form["graph"]
    starts, ends = graph.get("from", ()), graph.get("to", ())
    weights = graph.get("weights") or [1.0] * len(starts)
    edges = tuple(zip(starts, ends, weights, strict=True))
    names = tuple(graph.get("names", ()))
    return Graph(graph["nodes"], edges, graph.get("directed", False), names, graph.get("capacity", 0))


def _area_form(area: Area) -> dict[str, Any]:
    match area:
        case Box():
            return {"box": {"low": area.low, "high": area.high}}
        case Disc():
            return {"disc": {"centre": area.centre, "radius": area.radius}}
        case NodeSet():
            return {"nodes": sorted(area.nodes)}


def _area_of(form: dict[str, Any]) -> Area:
    if "box" in form:
        return Box(tuple(form["box"]["low"]), tuple(form["box"]["high"]))
    if "disc" in form:
        return Disc(tuple(form["disc"]["centre"]), form["disc"]["radius"])
    return NodeSet(frozenset(form["nodes"]))


def _proximity_form(proximity: Proximity) -> dict[str, Any]:
    globs = {"key_glob": proximity.key_glob, "other_key_glob": proximity.other_key_glob}
    return _with({"distance": proximity.distance}, **globs)


def _with(form: dict[str, Any], **parts: Any) -> dict[str, Any]:
    """The form with those parts that say something."""
    return form | {name: part for name, part in parts.items() if part}
