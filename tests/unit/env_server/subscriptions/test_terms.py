"""Terms."""

from __future__ import annotations

from env_server.model.changes import Fact, FactKind
from env_server.model.values import Json
from env_server.subscriptions.terms import KEY, Terms


class FakeLedger:
    """Facts as they are written; `durable` of them survive."""

    revision = 0
    group_number = 1
    journal = None

    def __init__(self) -> None:
        self.facts: list[Fact] = []

    def note_fact(self, kind: FactKind, key: str, value: bytes | None) -> None:
        self.facts.append(Fact(kind, key, value))

    def tell_subscription(self, name: str, told: Json) -> None:
        raise AssertionError("terms tell nothing")


def test_no_term_that_was_told_is_given_again_whatever_survives() -> None:
    """A term may be told once its reservation, the last fact before it, is durable; a crash keeps a prefix of facts."""
    ledger = FakeLedger()
    terms = Terms(ledger, None)
    drawn = [(terms.draw(), len(ledger.facts)) for _ in range(3000)]
    assert [term for term, _ in drawn] == list(range(1, 3001))
    assert len(ledger.facts) <= 4, "a fact for many terms"
    for survived in range(len(ledger.facts) + 1):
        stored = ledger.facts[survived - 1].value if survived else None
        after = Terms(FakeLedger(), stored).draw()
        assert all(after > term for term, written in drawn if written <= survived)


def test_the_reservation_has_a_name_that_no_subscription_has() -> None:
    ledger = FakeLedger()
    Terms(ledger, b"2048").draw()
    assert ledger.facts == [Fact(FactKind.SUBSCRIPTION, KEY, b"3072")]
    assert "/" in KEY
