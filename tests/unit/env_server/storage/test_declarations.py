"""Declarations come back as they were."""

import pytest

from env_server.model.environments import Aggregate, Declaration, Function, Gate, GateCause, Scope
from env_server.model.values import Json
from env_server.storage.declarations import decode_declaration, encode_declaration

FULL = Declaration(
    kind="auction",
    labels={"city": "Zürich", "": "x"},
    config=Json(b'{ "rate" : 1.0 }'),
    schema=Json(b'{"type": "number"}'),
    aggregates=(
        Aggregate("n", Function.COUNT, Scope.CHILDREN),
        Aggregate("h", Function.HISTOGRAM, in_generation=True, bounds=(0.1, 0.2, 3.0), field=("a/b", "")),
    ),
    gates=(
        Gate("idle"),
        Gate("done", 10, 500).begin(7, 3, None).open(9, GateCause.DEADLINE),
    ),
)


@pytest.mark.parametrize("declaration", [Declaration(), FULL, Declaration(config=Json(b'"\xed\xa0\x80"'))])
def test_a_declaration_comes_back(declaration: Declaration) -> None:
    data = encode_declaration(declaration)
    returned = decode_declaration(data)
    assert data
    assert returned == declaration
    assert returned.config.text == declaration.config.text


def test_defaults_cost_nothing() -> None:
    assert encode_declaration(Declaration()) == b"{}"
