"""Records give back exactly what went in, whatever the columns look like, in few bytes and little time."""

import math
import random
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from env_server.model.changes import Changes, Extra, KeptAnswer, KeptOutcome, Place, SentRows
from env_server.model.environments import Aggregate, Declaration, Function, Gate
from env_server.model.frames import Answer, Listed, Written
from env_server.model.values import NOTHING, Json
from env_server.storage.errors import DataLoss
from env_server.storage.records import decode_record, encode_record

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
INTEGERS = st.integers(-(2**63), 2**63 - 1)
DOCUMENTS = st.sampled_from([Json(b"{}"), Json(b'{"a": [1, 2]}'), Json(b"[ ]")])
POSITIONS = st.one_of(st.just(()), st.tuples(FLOATS), st.tuples(FLOATS, FLOATS))
PLAIN = st.one_of(st.none(), st.booleans(), INTEGERS, FLOATS, TEXT, st.binary(max_size=8), DOCUMENTS, st.just(NOTHING))
VALUES = PLAIN | POSITIONS
NUMBERS = st.integers(0, 2**63)


@st.composite
def make_groups(draw: st.DrawFn) -> Changes:
    """Groups whose columns are constant, default, or varied; values of one kind or of several."""
    count = draw(st.integers(0, 6))

    def column(elements: st.SearchStrategy) -> list:
        if draw(st.booleans()):
            return [draw(elements)] * count
        return [draw(elements) for _ in range(count)]

    base = draw(st.integers(0, 2**40))
    revisions = sorted(base + draw(st.integers(1, count)) for _ in range(count)) if count else []
    if draw(st.booleans()):
        revisions = list(range(base + 1, base + count + 1))
    labels = st.dictionaries(TEXT, TEXT, max_size=2)
    times = st.none() | INTEGERS
    places = [Place(draw(NUMBERS), draw(TEXT), draw(labels), draw(times)) for _ in range(draw(st.integers(1, 3)))]
    one_kind = st.sampled_from(
        [st.none(), st.booleans(), INTEGERS, FLOATS, TEXT, DOCUMENTS, st.just(NOTHING), POSITIONS]
    )
    return Changes(
        number=draw(st.integers(1, 2**40)),
        base_revision=base,
        last_revision=revisions[-1] if revisions else base,
        wall_ns=draw(INTEGERS),
        places=places if count else [],
        path=column(st.integers(0, len(places) - 1)),
        revisions=revisions,
        types=column(st.integers(1, 21)),
        keys=column(TEXT),
        values=column(draw(st.one_of(st.just(VALUES), one_kind))),
        versions=column(NUMBERS),
        producers=column(TEXT),
        producer_seqs=column(NUMBERS),
        actors=column(TEXT),
        causes=column(TEXT),
        principals=column(TEXT),
        sent=[SentRows(draw(st.integers(0, count - 1)), draw(st.integers(1, count)), draw(TEXT))] if count else [],
    )


@given(make_groups())
def test_a_group_comes_back(group: Changes) -> None:
    data = encode_record(group)
    returned = decode_record(data)
    assert returned == replace(group, size_bytes=len(data))
    assert list(map(exact, returned.values)) == list(map(exact, group.values))


def exact(value: object) -> object:
    """What equality of values does not tell: types, the sign of zero, the bytes of a document."""
    sign = math.copysign(1, value) if isinstance(value, float) else 0
    return type(value), sign, value.text if isinstance(value, Json) else value


def test_what_only_few_rows_have_comes_back() -> None:
    declaration = Declaration(
        kind="market",
        labels={"a": "b"},
        config=Json(b'{"x" : 1}'),
        schema=Json(b"true"),
        aggregates=(Aggregate("mean", Function.MEAN, bounds=(0.5, 1.0), field=("a", "b")),),
        gates=(Gate("round", 3, 1000).begin(5, None, 10),),
    )
    group = float_group(3, random.Random(1))
    group.extras = {
        0: Extra(declaration=declaration),
        2: Extra(declaration=Declaration(), changed_fields=("labels", "config"), stream_items_max=7),
        1: Extra(stream_items_max=4),
    }
    group.outcomes = [KeptOutcome("p", 2**63, Written(1, 2, "three", 4, False))]
    group.answers = [KeptAnswer("c", 9, Answer(9, 2, 10, outcomes=[Listed(1, Written(3, 1), True)], versions=[1, 2]))]
    data = encode_record(group)
    assert decode_record(data) == replace(group, size_bytes=len(data))


def test_constant_columns_are_stored_once() -> None:
    one = encode_record(float_group(1, random.Random(1)))
    group = float_group(1000, random.Random(1))
    group.keys = ["the same key"] * 1000
    group.values = [1.5] * 1000
    group.producers = ["p"] * 1000
    group.versions = group.producer_seqs = [3] * 1000
    assert len(encode_record(group)) < len(one) + 40


def test_revisions_without_rows_are_a_defect() -> None:
    with pytest.raises(ValueError, match="no rows"):
        encode_record(Changes(number=1, base_revision=4, last_revision=5))


@pytest.mark.parametrize("data", [b"", b"\xff\xff", encode_record(Changes(1, 0))[:-1] + b"\x80"])
def test_other_bytes_are_data_loss(data: bytes) -> None:
    with pytest.raises(DataLoss):
        decode_record(data)


def test_encoding_a_row_costs_less_than_a_message_object() -> None:
    """The bound is ten times what an idle machine needs (0.17 µs), so that only a loop a row can break it."""
    group = float_group(1000, random.Random(1))
    spent_s = []
    for _ in range(20):
        start = time.thread_time()
        encode_record(group)
        spent_s.append(time.thread_time() - start)
    assert min(spent_s) / 1000 < 1.7e-6


def float_group(rows: int, rng: random.Random) -> Changes:
    """Sets of floats by agents with their own producers, as in a round."""
    return Changes(
        number=7,
        base_revision=1000,
        last_revision=1000 + rows,
        wall_ns=17,
        places=[Place(1, "/town", {})],
        path=[0] * rows,
        revisions=list(range(1001, 1001 + rows)),
        types=[4] * rows,
        keys=[f"agent-{rng.randrange(10**6)}" for _ in range(rows)],
        values=[rng.random() for _ in range(rows)],
        versions=[rng.randrange(9) for _ in range(rows)],
        producers=[f"agent-{rng.randrange(10**6)}" for _ in range(rows)],
        producer_seqs=[rng.randrange(1000) for _ in range(rows)],
        actors=[""] * rows,
        causes=[""] * rows,
        principals=["token"] * rows,
    )
