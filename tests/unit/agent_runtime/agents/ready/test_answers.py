"""An answer is a number that may be named; thoughts come first and stay apart."""

from __future__ import annotations

import json

import pytest
from pydantic import BaseModel, ValidationError

from agent_runtime.agents.ready import NumberAnswer, ReasonedAnswer


@pytest.mark.parametrize("number", ["0", "100", "33.333", "1e1"])
def test_a_number_in_range_is_taken(number: str) -> None:
    assert NumberAnswer.model_validate_json(f'{{"number": {number}}}').number == float(number)


@pytest.mark.parametrize("number", ["-0.1", "100.1", "1e999", "NaN", "null", '"about 33"', "[33]"])
def test_a_number_out_of_range_is_refused(number: str) -> None:
    with pytest.raises(ValidationError):
        NumberAnswer.model_validate_json(f'{{"number": {number}}}')


@pytest.mark.parametrize("answer", [NumberAnswer, ReasonedAnswer])
def test_the_schema_tells_the_range_and_asks_for_thoughts_before_the_number(answer: type[BaseModel]) -> None:
    schema = answer.model_json_schema()
    assert (schema["properties"]["number"]["minimum"], schema["properties"]["number"]["maximum"]) == (0, 100)
    assert list(schema["properties"])[-1] == "number"
    assert schema["required"] == list(schema["properties"])
    assert json.dumps(schema)
