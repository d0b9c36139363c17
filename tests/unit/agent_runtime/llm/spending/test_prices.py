"""Money in whole microdollars."""

from __future__ import annotations

from agent_runtime.llm.spending import FREE, Price, Tally


def test_a_call_costs_its_tokens_rounded_up() -> None:
    price = Price(prompt=150_000, completion=600_000)
    assert price.count_microdollars(1_000_000, 0) == 150_000
    assert price.count_microdollars(100, 10) == 21
    assert price.count_microdollars(1, 0) == 1
    assert price.count_microdollars(0, 0) == FREE.count_microdollars(10**9, 10**9) == 0


def test_sums_are_kept_by_model_and_phase() -> None:
    tally = Tally()
    for model, phase in (("a", ""), ("a", "plan"), ("a", "plan"), ("b", "plan")):
        tally.add(model, phase, attempts=2, prompt_tokens=10, completion_tokens=5, microdollars=3)
    plan = tally.by_model_and_phase()["a", "plan"]
    assert (plan.questions, plan.attempts, plan.prompt_tokens, plan.microdollars) == (2, 4, 20, 6)
    total = tally.total()
    assert (total.questions, total.completion_tokens, total.microdollars) == (4, 20, 12)
