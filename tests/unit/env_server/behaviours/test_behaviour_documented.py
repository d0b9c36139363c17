"""The page on behaviours: its code runs."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[4] / "docs" / "behaviours.md"


def test_the_code_of_the_page_runs() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 5, "an operation, a listener, both in time and space, two tests"
    exec(compile("\n".join(blocks), str(PAGE), "exec"), {"__name__": "documented"})
