"""The page on workflows: its code runs, with a real server and host where it asks for one."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import pytest
from ecumene import workflows

from tests.services import ServerProcess
from tests.workflow_hosts import HostChild

PROGRAM = "workflows_page"
PAGE = Path(__file__).resolve().parents[3] / "docs" / "workflows.md"


def test_the_code_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 5, "actors, methods, values, failures, effects"
    (tmp_path / "workflows_page.py").write_text("\n".join(blocks), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with ServerProcess(tmp_path / "data") as server:
        monkeypatch.setenv("ECUMENE_SERVER", server.address)
        # The host must not run what the page does besides its classes: that would be endless.
        (tmp_path / "host").mkdir()
        scripts = re.compile(r"^with workflows.*?(?=^\S|\Z)", re.DOTALL | re.MULTILINE)
        classes = "\n".join(scripts.sub("", block) for block in blocks)
        (tmp_path / "host" / "workflows_page.py").write_text(classes, encoding="utf-8")
        host = HostChild(server.address, "page", "--path", str(tmp_path / "host"), "--module", PROGRAM).wait_ready()
        try:
            importlib.import_module("workflows_page")
        finally:
            sys.modules.pop("workflows_page", None)
            assert host.stop() == 0


def test_errors_and_limits_of_the_page_are_those_of_the_code() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for name in re.findall(r"\b[A-Z]\w+Error\b", page):
        assert hasattr(workflows, name) or name in ("TypeError", "ZeroDivisionError", "AssertionError"), name
    told = set(re.findall(r"^\| (\w+Error) \|", page, re.MULTILINE))
    unlisted = {"WorkflowError", "NoHostError", "NoWorldError", "ValueRefusedError", "ValueTooLargeError"}
    assert told == {name for name in workflows.__all__ if name.endswith("Error")} - unlisted
    limits = workflows.FlowLimits()
    assert f"`FlowLimits.results_max` ({limits.results_max:,})" in page
    assert f"`results_bytes_max` ({limits.results_bytes_max >> 20} MiB)" in page
    assert f"`VALUE_BYTES_MAX` ({workflows.VALUE_BYTES_MAX:,})" in page
