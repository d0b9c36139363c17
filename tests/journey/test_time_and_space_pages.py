"""The pages about time and about space: their code runs against a real server, and shows what they say it shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ecumene.cli import app

from tests.services import ServerProcess

DOCS = Path(__file__).resolve().parents[2] / "docs"
WRITTEN_FOR = "127.0.0.1:7170"
SHOWN = {
    "time.md": (
        "advanced to 6 h",
        "the market's clock is /town",
        "/town weather at 8 h\n/town/market wheat at 8 h",
        "the first bus came at minute 490",
        "last of all noon {'bell': 12}",
        "['bus']",
        "stepped to minute 730",
        "the clock of /town is paused",
        "gates shut until True",
        "arcade runs at 3600.0",
        "the suburb heeds the town: 60 min",
        "the lab's clock shows 1 h\nthe lab's clock shows 3 h",
        "without anybody: it has no participants in /lab/staff",
    ),
    "space.md": (
        "['bob'] (6.0, 5.0)",
        "ann at (9.0, 5.0)",
        "REGION_ENTERED ann market",
        "PROXIMITY_ENTERED",
        "no room for dora in a cell of 2",
        "moved 3 of 3",
        "ann meets ['bob']",
        "home -> bridge -> work, 4.5 away",
        "1107 km from Rome to Paris",
    ),
}


@pytest.mark.parametrize("name", SHOWN)
def test_the_code_of_a_page_runs(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python in one go; then the commands, one after the other, but those that need a terminal of their own."""
    page = (DOCS / name).read_text(encoding="utf-8")
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    code = "\n".join(text for language, text in blocks if language == "python")
    commands = [line.split() for language, text in blocks if not language for line in text.splitlines()]
    with ServerProcess(tmp_path / "data") as server:
        monkeypatch.setenv("ECUMENE_SERVER", server.address)
        exec(compile(code.replace(WRITTEN_FOR, server.address), name, "exec"), {"__name__": "page"})
        printed = capsys.readouterr().out
        for part in SHOWN[name]:
            assert part in printed
        assert commands
        for program, *arguments in commands:
            assert program == "ecumene"
            if arguments[:2] != ["env", "watch"]:
                assert app.main(arguments) == 0, capsys.readouterr().err
