"""tests/unit mirrors the source: whoever reads a module knows where its tests are, and back.

`env_server/storage/log.py` is tested by `tests/unit/env_server/storage/test_log.py`; a long one may be
split into `test_log_<aspect>.py`; `test_storage.py` beside the folder tests the package as a whole.
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE_PLACES = ("", "clients/python", "clients/manager")


def find_strays(root: Path) -> list[str]:
    """Unit tests for which there is no module or package."""
    unit = root / "tests" / "unit"
    tests = sorted(unit.rglob("test_*.py"))
    return [path.relative_to(root).as_posix() for path in tests if not has_source(root, path.relative_to(unit))]


def has_source(root: Path, test: Path) -> bool:
    """Whether a module of the test's name, or of the beginning of it, exists at the same place."""
    words = test.stem.removeprefix("test_").split("_")
    names = ["_".join(words[:count]) for count in range(len(words), 0, -1)]
    folders = [root / place / test.parent for place in SOURCE_PLACES]
    return any(
        (folder / f"{name}.py").is_file() or (folder / name / "__init__.py").is_file()
        for folder in folders
        for name in names
    )


def find_misnamed(root: Path) -> list[str]:
    """Files with tests that pytest would never collect."""
    return [
        path.relative_to(root).as_posix()
        for path in sorted((root / "tests").rglob("*.py"))
        if not path.name.startswith("test_") and "\ndef test_" in path.read_text(encoding="utf-8")
    ]


def test_every_unit_test_has_its_source() -> None:
    assert find_strays(ROOT) == []


def test_no_test_is_hidden_from_pytest() -> None:
    assert find_misnamed(ROOT) == []


def test_a_planted_stray_is_found(tmp_path: Path) -> None:
    write(tmp_path / "env_server/storage/log.py")
    write(tmp_path / "clients/python/ecumene/cli/__init__.py")
    for name in ("test_log.py", "test_log_torn_tail.py", "test_logs.py"):
        write(tmp_path / "tests/unit/env_server/storage" / name)
    write(tmp_path / "tests/unit/ecumene/test_cli.py")
    write(tmp_path / "tests/unit/test_log.py")
    assert find_strays(tmp_path) == [
        "tests/unit/env_server/storage/test_logs.py",
        "tests/unit/test_log.py",
    ]


def test_a_planted_hidden_test_is_found(tmp_path: Path) -> None:
    write(tmp_path / "tests/journey/story.py", '"""A story."""\ndef test_it(): ...\n')
    assert find_misnamed(tmp_path) == ["tests/journey/story.py"]


def write(path: Path, text: str = "") -> None:
    """Create a file and its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
