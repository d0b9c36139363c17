"""Environments of Python peers: one a set of packages, a reason when it cannot be made."""

from __future__ import annotations

from pathlib import Path

import pytest
from ecumene.bench.peers.absence import PeerAbsentError
from ecumene.bench.peers.venvs import choose_directory, make_python


def test_other_packages_get_another_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first, second = choose_directory("peer", ["a==1"]), choose_directory("peer", ["a==2"])
    assert first != second
    assert first.is_relative_to(tmp_path)


async def test_one_that_is_complete_is_used_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    directory = choose_directory("peer", ["no-such-package-anywhere==1"])
    directory.mkdir(parents=True)
    (directory / ".complete").touch()
    assert await make_python("peer", ["no-such-package-anywhere==1"]) == str(directory / "bin" / "python")


async def test_what_cannot_be_installed_is_absent_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(PeerAbsentError, match="it cannot be installed: ERROR"):
        await make_python("peer", ["no-such-package-anywhere==1"])
    assert not (choose_directory("peer", ["no-such-package-anywhere==1"]) / ".complete").exists()
