"""Spaces from the wire are what was sent, and what makes no sense is refused by the name of its field."""

from __future__ import annotations

from typing import Any

import pytest
from env_api.v1 import space_pb2 as pb

from env_server.model.errors import Reason, WorldError
from env_server.model.limits import Limits
from env_server.model.spaces import Grid, Neighbourhood, Space
from env_server.rpc.decode.spaces import decode_space
from env_server.rpc.encode.spaces import encode_space
from tests.unit.env_server.model.test_space_forms import SPACES

LIMITS = Limits()


@pytest.mark.parametrize("space", SPACES)
def test_a_space_is_the_same_after_the_wire(space: Space) -> None:
    message = pb.Space.FromString(encode_space(space).SerializeToString())
    assert decode_space(message, LIMITS, "space") == space


def test_a_grid_is_one_of_moore_when_it_does_not_say() -> None:
    assert decode_space(pb.Space(grid=pb.Grid(width=2, height=3)), LIMITS, "space").shape == Grid(
        2, 3, Neighbourhood.MOORE
    )


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, Reason.INVALID_FIELD),
        ({"grid": {"width": 1, "height": 1, "neighbourhood": 9}}, Reason.INVALID_FIELD),
        ({"graph": {"nodes": 2, "from": [0], "to": []}}, Reason.INVALID_FIELD),
        ({"graph": {"nodes": 2, "from": [0], "to": [1], "weights": [1, 2]}}, Reason.INVALID_FIELD),
        ({"graph": {"nodes": 2, "from": [0], "to": [1], "weights": [float("nan")]}}, Reason.INVALID_FIELD),
        ({"graph": {"nodes": 2, "names": ["x" * (1 << 20)]}}, Reason.LIMIT_EXCEEDED),
        ({"geo": {}, "regions": [{"name": "r"}]}, Reason.INVALID_FIELD),
        ({"geo": {}, "regions": [{"name": "r", "box": {"low": [1, 1]}}]}, Reason.INVALID_FIELD),
        ({"geo": {}, "regions": [{"name": "", "disc": {}}]}, Reason.INVALID_FIELD),
        ({"geo": {}, "regions": [{"name": "r", "disc": {}}] * 2}, Reason.INVALID_FIELD),
        ({"geo": {}, "proximities": [{"name": "p"}] * 2}, Reason.INVALID_FIELD),
        ({"geo": {}, "proximities": [{"name": f"p{n}"} for n in range(17)]}, Reason.LIMIT_EXCEEDED),
    ],
)
def test_what_makes_no_sense_is_refused(fields: dict[str, Any], reason: Reason) -> None:
    with pytest.raises(WorldError) as caught:
        decode_space(pb.Space(**fields), LIMITS, "register.space")
    assert caught.value.reason is reason
