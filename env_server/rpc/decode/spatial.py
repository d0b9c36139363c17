"""Questions about spaces from the wire."""

from env_api.v1 import queries_pb2

from env_server.model.errors import InvalidRequest, Reason
from env_server.model.limits import Limits
from env_server.model.names import check_count, check_segment
from env_server.model.operations import Distance, Nearby, Neighbours
from env_server.rpc.decode.spaces import decode_box


def decode_nearby(message: queries_pb2.Nearby, limits: Limits) -> Nearby:
    """Who is near.

    Raises:
        InvalidRequest: INVALID_FIELD.
        LimitExceeded: page_items_max.
    """
    which = _check_which(message, "query.nearby", limits)
    check_count(message.limit, "page_items_max", limits)
    return Nearby(
        position=tuple(message.position) or None,
        radius=message.radius if which == "radius" else None,
        nearest=message.nearest,
        box=decode_box(message.box, "query.nearby.box") if which == "box" else None,
        adjacent=message.adjacent,
        hops=message.hops,
        limit=message.limit,
    )


def decode_distance(message: queries_pb2.Distance, limits: Limits) -> Distance:
    """How far it is."""
    start, end = tuple(getattr(message, "from")), tuple(message.to)
    return Distance(start or None, message.from_key, end or None, message.to_key, message.hops)


def decode_neighbours(message: queries_pb2.Neighbours, limits: Limits) -> Neighbours:
    """Everybody's neighbours. Raises as `decode_nearby`, and INVALID_KEY."""
    which = _check_which(message, "query.neighbours", limits)
    for key in message.keys:
        check_segment(key, limits, Reason.INVALID_KEY, "query.neighbours.keys")
    radius = message.radius if which == "radius" else None
    return Neighbours(radius, message.nearest, message.adjacent, tuple(message.keys), message.hops)


def _check_which(message: queries_pb2.Nearby | queries_pb2.Neighbours, field: str, limits: Limits) -> str:
    which = message.WhichOneof("which")
    if which is None:
        raise InvalidRequest(Reason.INVALID_FIELD, f"{field}.which", "must be set")
    if which in ("nearest", "adjacent") and not getattr(message, which):
        raise InvalidRequest(Reason.INVALID_FIELD, f"{field}.{which}", "must not be 0 or false when set")
    check_count(message.nearest, "page_items_max", limits)
    return which
