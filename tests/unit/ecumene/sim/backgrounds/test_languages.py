"""What is known of languages is sound, and of most nothing is known."""

from __future__ import annotations

import pytest
from ecumene.sim.backgrounds.languages import find_language, list_languages


@pytest.mark.parametrize("name", list_languages())
def test_each_sentence_tells_its_value_and_nothing_else_is_left_open(name: str) -> None:
    language = find_language(name)
    for attribute, sentences in language.sentences.items():
        assert len(set(sentences)) == len(sentences) >= 2
        for sentence in sentences:
            filled = sentence.replace("{value}", "VALUE").replace("{name}", "NAME")
            assert "VALUE" in filled
            assert ("NAME" in filled) == (attribute == "")
            assert "{" not in filled
    assert set(language.same.values()) <= language.sentences.keys()


def test_names_of_attributes_may_be_others() -> None:
    english = find_language("ENGLISH")
    assert english.find_sentences("Job") == english.find_sentences("occupation")
    assert english.find_sentences("hobby") == english.sentences[""]
    assert find_language("Tok Pisin").find_sentences("age") == ("{name}: {value}.",)
