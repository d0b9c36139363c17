"""Conditions have short names, and letters for pictures."""

from __future__ import annotations

from ecumene.sim.reporting.sweep_reading import name_condition, name_letter, shorten_fields


def test_fields_are_named_by_as_much_of_their_ends_as_tells_them_apart() -> None:
    fields = ["game.ratio", "population.groups.a.parameters.level", "population.groups.b.parameters.level", "seed"]
    short = shorten_fields(fields)
    assert list(short.values()) == ["ratio", "a.parameters.level", "b.parameters.level", "seed"]
    assert shorten_fields(["population.groups[0].count", "population.groups[1].count"]) == {
        "population.groups[0].count": "0.count",
        "population.groups[1].count": "1.count",
    }
    assert name_condition({"game.ratio": 0.5, "seed": "x"}, short) == "ratio = 0.5, seed = x"
    assert name_condition({}, {}) == "all runs"


def test_letters_go_on_beyond_the_alphabet() -> None:
    assert [name_letter(place) for place in (0, 25, 26, 53)] == ["A", "Z", "A2", "B3"]
