"""Weights: never less than what is sent, whatever stands in a row, and not much more for what is plain."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from env_server.model.entries import VALUE, Entry, StreamItem
from env_server.model.environments import (
    Access,
    Aggregate,
    Declaration,
    EnvironmentState,
    Function,
    Gate,
    GateCause,
    GateState,
    Grant,
)
from env_server.model.frames import EntryPage, EnvironmentPage, StreamPage
from env_server.model.spaces import Box, Disc, Graph, Grid, NodeSet, Plane, Proximity, Region, Space
from env_server.model.timelines import ClockDeclaration, ClockMode
from env_server.model.values import Json
from env_server.rpc.encode.values import encode_read
from env_server.state_tree.reads.weights import weigh_entry, weigh_environment, weigh_item, weigh_text

BIG = 1 << 62
names = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=42)
documents = st.binary(max_size=300).map(lambda noise: Json(b'"' + noise.hex().encode() + b'"'))
values = st.none() | st.booleans() | st.integers(-BIG, BIG) | st.floats() | names | st.binary(max_size=99) | documents
pointers = st.lists(st.text("ab/~", max_size=9), max_size=5).map(tuple)
aggregates = st.builds(
    Aggregate,
    names,
    st.sampled_from(Function),
    in_generation=st.booleans(),
    bounds=st.lists(st.floats(), max_size=9).map(tuple),
    field=pointers,
)
gates = st.builds(
    Gate, names, *[st.just(BIG)] * 3, st.booleans(), st.sampled_from(GateCause), *[st.just(BIG)] * 2, members_path=names
)
floats = st.floats(allow_nan=False)
corners = st.tuples(floats, floats)
edges = st.lists(st.tuples(st.just(2**32 - 1), st.just(2**32 - 1), floats), max_size=9).map(tuple)
shapes = (
    st.just(Grid(2**32 - 1, 2**32 - 1, torus=True, capacity=2**32 - 1))
    | st.builds(Plane, floats, floats, floats, floats, st.just(True))
    | st.builds(Graph, st.just(2**32 - 1), edges, st.just(True), st.lists(st.text('ä"', max_size=300)).map(tuple))
)
areas = (
    st.builds(Box, corners, corners)
    | st.builds(Disc, corners, floats)
    | st.builds(NodeSet, st.frozensets(st.integers(0, 2**32 - 1)))
)
spaces = st.builds(
    Space,
    shapes,
    st.lists(st.builds(Region, names, areas), max_size=4).map(tuple),
    st.lists(st.builds(Proximity, names, floats, names, names), max_size=4).map(tuple),
)
clocks = st.builds(ClockDeclaration, st.sampled_from(ClockMode), st.just(-BIG), floats, st.just(True), st.just(BIG))
declarations = st.builds(
    Declaration,
    names,
    st.dictionaries(names, names, max_size=5),
    documents,
    st.none() | documents,
    st.lists(aggregates, max_size=4).map(tuple),
    st.lists(gates, max_size=1).map(tuple),
    st.lists(st.builds(Grant, names, st.sampled_from(Access)), max_size=4).map(tuple),
    st.just(BIG),
    clock=st.none() | clocks,
    space=st.none() | spaces,
)


def size_of(page: EntryPage | EnvironmentPage | StreamPage) -> int:
    return len(encode_read(page).SerializeToString())


@given(names, declarations)
def test_an_environment_weighs_at_least_what_it_takes(path: str, declaration: Declaration) -> None:
    told = tuple(GateState(gate, BIG) for gate in declaration.gates)
    state = EnvironmentState(path, BIG, declaration, BIG, BIG, BIG, BIG, BIG, told)
    taken = size_of(EnvironmentPage([state], "", 0))
    assert taken <= weigh_environment(state)


@given(names, names, values)
def test_entries_and_items_weigh_at_least_what_they_take(path: str, key: str, value: object) -> None:
    entry = Entry(value, BIG, BIG, BIG, VALUE, BIG)  # type: ignore[arg-type]
    assert size_of(EntryPage(path, [(key, entry)], "", 0)) <= weigh_text(path) + weigh_entry((key, entry))
    item = StreamItem(BIG, value, BIG)  # type: ignore[arg-type]
    assert size_of(StreamPage([item], 0, 0)) <= weigh_item(item)


def test_a_plain_child_weighs_little() -> None:
    plain = EnvironmentState("/town/house", 7, Declaration(), 1, 2, 3, 4, 5, ())
    assert weigh_environment(plain) < 200
