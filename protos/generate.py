"""Generate the Python code of the contract; run by `make protos`, in the generator's own venv.

The generator is pinned old (grpcio-tools 1.71), so that its code loads on every protobuf from 5.29
to 7. It wants protobuf < 6 itself and therefore lives apart from the development environment.

    generate.py           write protos/gen/python
    generate.py --check   write to a temporary folder, name every difference, exit 1 if there is one
"""

from __future__ import annotations

import filecmp
import shutil
import sys
import tempfile
from importlib import resources
from pathlib import Path

PROTOS = Path(__file__).resolve().parent
GENERATED = PROTOS / "gen" / "python"
PACKAGES = ("env_api", "agent_api", "env_storage")
PLUGINS = ("protoc-gen-mypy", "protoc-gen-mypy_grpc")


def main(arguments: list[str]) -> int:
    """Generate or check; returns the exit code."""
    if arguments not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="ecumene-protos-") as scratch:
        fresh = Path(scratch)
        generate(fresh)
        if not arguments:
            replace(GENERATED, fresh)
            return 0
        differences = find_differences(GENERATED, fresh)
    for line in differences:
        print(f"{line}; run: make protos", file=sys.stderr)
    return 1 if differences else 0


def generate(target: Path) -> None:
    """Write messages, services and type stubs of every .proto; the import path is the proto path."""
    from grpc_tools import protoc

    sources = sorted(source for package in PACKAGES for source in (PROTOS / package).glob("v*/*.proto"))
    with_services = [source for source in sources if "\nservice " in source.read_text(encoding="utf-8")]
    plugins = [f"--plugin={name}={Path(sys.executable).parent / name}" for name in PLUGINS]
    includes = [f"-I{PROTOS}", f"-I{resources.files('grpc_tools') / '_proto'}", *plugins]
    run_protoc(protoc, [*includes, f"--python_out={target}", f"--mypy_out=quiet:{target}"], sources)
    run_protoc(protoc, [*includes, f"--grpc_python_out={target}", f"--mypy_grpc_out=quiet:{target}"], with_services)
    for folder in sorted({source.parent.relative_to(PROTOS) for source in sources}):
        for package in (folder, folder.parent):
            (target / package / "__init__.py").write_text("", encoding="utf-8")


def run_protoc(protoc: object, options: list[str], sources: list[Path]) -> None:
    """Run the compiler in this process; its own messages say what is wrong."""
    if sources and protoc.main(["protoc", *options, *map(str, sources)]) != 0:  # type: ignore[attr-defined]
        sys.exit(1)


def replace(target: Path, fresh: Path) -> None:
    """Make the packages in `target` equal to those in `fresh`; files of removed protos go."""
    for name in PACKAGES:
        shutil.rmtree(target / name, ignore_errors=True)
        if (fresh / name).is_dir():
            shutil.copytree(fresh / name, target / name)


def find_differences(committed: Path, fresh: Path) -> list[str]:
    """One line a file that is stale, missing or left over."""
    names = list_files(committed) | list_files(fresh)
    return [
        f"{name}: {describe(committed / name, fresh / name)}"
        for name in sorted(names)
        if not is_same(committed / name, fresh / name)
    ]


def is_same(committed: Path, fresh: Path) -> bool:
    """Whether both files exist with the same bytes."""
    return committed.is_file() and fresh.is_file() and filecmp.cmp(committed, fresh, shallow=False)


def describe(committed: Path, fresh: Path) -> str:
    """What is wrong with a generated file."""
    if not fresh.is_file():
        return "no .proto makes this file any more"
    return "differs from its .proto" if committed.is_file() else "was never generated"


def list_files(folder: Path) -> set[str]:
    """Names of the generated files below a folder, relative to it."""
    files = (path for name in PACKAGES for path in (folder / name).rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix() for path in files if "__pycache__" not in path.parts}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
