"""What a question about who is near lacks is said before any server is asked."""

from __future__ import annotations

import pytest
from ecumene.cli import app
from ecumene.cli.near import show_distance


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--radius", "1"], "near what?"),
        (["--key", "ann", "--at", "1,2", "--radius", "1"], "--key and --at: give one of the two"),
        (["--key", "ann"], "how near?"),
        (["--box", "0,0,1,1", "--key", "ann"], "--box asks for all inside"),
        (["--box", "0,0,1,1", "--radius", "1"], "--box asks for all inside"),
        (["--box", "0,0,1"], "'0,0,1' is no box"),
        (["--key", "ann", "--radius", "1", "--nearest", "2"], "--radius and --nearest: give one of them"),
        (["--at", "3,there", "--adjacent"], "'3,there' is no position"),
        (["--key", "ann", "--nearest", "0"], "--nearest"),
    ],
)
def test_half_a_question_is_a_usage_error(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert app.main(["near", "/town", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_metres_on_the_earth_keep_their_digits() -> None:
    assert [show_distance(distance) for distance in (None, 1.5, 1_106_600.877)] == [None, 1.5, 1_106_601]
