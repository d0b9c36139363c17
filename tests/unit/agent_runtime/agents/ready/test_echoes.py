"""What counts as told, in several languages, and what does not."""

from __future__ import annotations

import pytest

from agent_runtime.agents.ready.echoes import Value, find_missing, is_form_of, normalise


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (34, "At 34, she is"),
        (34, "a 34-year-old"),
        (34, "ihr Alter: ٣٤"),
        (34, "３４歳の看護師"),
        (30000, "earns 30,000 a year"),
        (30000, "verdient 30.000 Euro"),
        (30000, "gagne 30 000 euros"),
        (1.5, "has 1,5 children"),
        (28345.23, "earns about 28,350 dollars"),
        (0, "has 0 children"),
        (-3, "owes -3 units"),
        ("nurse", "two NURSES"),
        ("bachelor's degree", "holds a Bachelor\u2019s Degree in law"),
        ("Managers, officials, and proprietors (n.e.c.)", "one of the managers and officials, a proprietor"),
        ("weiblich", "eine weibliche Person"),
        ("Lehrer", "sie ist Lehrerin"),
        ("Straße", "an der STRASSE"),
        ("看護師", "彼女は 看護師 です"),
        ("ครู", "เขาเป็นครูที่โรงเรียน"),
        ("Äthiopien", "aus A\u0308thiopien"),
        ("d'Ivoire", "Côte d\u2019Ivoire"),
        ("no", "there is no doubt"),
        ("☕", "likes ☕ much"),
    ],
)
def test_told_in_other_forms(value: Value, text: str) -> None:
    assert find_missing({"it": value}, text) == ()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (34, "she is 134"),
        (34, "she is 3.4"),
        (34, "she is thirty-four"),
        (28345.23, "earns 27,000"),
        ("male", "a female nurse"),
        ("man", "the manager"),
        ("married", "is unmarried"),
        ("nurse", "she is a norse"),
        ("primary school", "went to school"),
        ("看護師", "彼女は医師です"),
        ("nurse", ""),
    ],
)
def test_not_told(value: Value, text: str) -> None:
    assert find_missing({"it": value}, text) == ("it",)


def test_other_words_may_tell_a_value_and_missing_ones_keep_their_order() -> None:
    words = {"female": ["she", "woman"], "7": ["seven"]}
    attributes: dict[str, Value] = {"b": "female", "a": 7, "c": "x-ray"}
    assert find_missing(attributes, "She is seven.", words) == ("c",)
    assert find_missing(attributes, "Nothing", words) == ("b", "a", "c")
    assert find_missing({}, "") == ()


def test_words_of_one_stem_are_forms_of_one() -> None:
    assert is_form_of("engineer", "engineers")
    assert not is_form_of("cat", "cats"), "too short to be guessed"
    assert not is_form_of("teacher", "teal")
    assert normalise("  Tür\u2013zu  ") == "tür-zu"
