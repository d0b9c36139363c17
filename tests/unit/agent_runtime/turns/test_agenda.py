"""Rows by time, against a dict."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from agent_runtime.model.wakes import NEVER_NS
from agent_runtime.turns.agenda import SINGLE_MAX, Agenda

ROWS = 12
TIMES = st.one_of(st.integers(-3, 9), st.just(NEVER_NS))
STEPS = st.one_of(
    st.tuples(st.just("set"), st.integers(0, ROWS - 1), TIMES),
    st.tuples(st.just("many"), st.dictionaries(st.integers(0, ROWS - 1), TIMES, max_size=ROWS), st.none()),
    st.tuples(st.just("take"), st.integers(-4, 10), st.none()),
)


@given(steps=st.lists(STEPS, max_size=30))
def test_it_wakes_whom_a_dict_of_times_would(steps: list[tuple[str, object, object]]) -> None:
    agenda, model = Agenda(ROWS), dict.fromkeys(range(ROWS), NEVER_NS)
    for kind, what, at_ns in steps:
        if kind == "set":
            assert isinstance(what, int) and isinstance(at_ns, int)
            agenda.set(what, at_ns)
            model[what] = at_ns
        elif kind == "many":
            assert isinstance(what, dict)
            agenda.set_many(np.array(list(what), dtype=np.int32), np.array(list(what.values()), dtype=np.int64))
            model.update(what)
        else:
            assert isinstance(what, int)
            due = sorted((at, row) for row, at in model.items() if at <= what)
            taken = agenda.take_due(what)
            assert [(at, row) for at, rows in taken for row in rows.tolist()] == due
            assert [at for at, _ in taken] == sorted({at for at, _ in due})
            model.update((row, NEVER_NS) for _, row in due)
        wanted = [at for at in model.values() if at != NEVER_NS]
        assert agenda.next_ns == (min(wanted) if wanted else None)
        assert agenda.due.tolist() == list(model.values())


def test_who_is_set_to_and_fro_is_woken_once() -> None:
    agenda = Agenda(2)
    for at_ns in (5, 7, 5, NEVER_NS, 5):
        agenda.set(1, at_ns)
    assert [(at, rows.tolist()) for at, rows in agenda.take_due(9)] == [(5, [1])]
    assert agenda.next_ns is None


def test_rows_that_come_and_go_leave_nothing_behind() -> None:
    agenda = Agenda(3)
    agenda.set(2, 10)
    for _ in range(1000):
        agenda.set(1, 10)
        agenda.set(1, 11)
        agenda.set(1, NEVER_NS)
    assert len(agenda._crowds[10].single) <= SINGLE_MAX + 1
    assert [(at, rows.tolist()) for at, rows in agenda.take_due(99)] == [(10, [2])]
