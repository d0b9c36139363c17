"""The tour of a world: its code runs against a real server, and shows what it says it shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.services import ServerProcess

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tour.md"
WRITTEN_FOR = "127.0.0.1:7170"
SHOWN = (
    "{'sky': 'clear', 'degrees': 23} 3 ['the market opens']",
    "ENTRY_SET {'sky': 'grey'}",
    "bounced: False",
    "open: False\nopen: True 30.0",
    "the plan of red\ngroup /arena/red may not see /arena/blue",
    "['is this on?']",
    "{'sky': 'grey'} True\nTrue",
)


def test_the_code_of_the_tour_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    with ServerProcess(tmp_path / "data") as server:
        code = "\n".join(blocks).replace(WRITTEN_FOR, server.address)
        exec(compile(code, str(PAGE), "exec"), {"__name__": "tour"})
    printed = capsys.readouterr().out
    for part in SHOWN:
        assert part in printed
