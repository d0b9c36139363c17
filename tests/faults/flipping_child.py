"""A process that flips one bit of a world's file at a time and verifies it: LMDB may end it, as it may end any reader.

python -m tests.faults.flipping_child DIRECTORY SEED FIRST COUNT     a line a flip: its number and what verify said
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

from env_server.offline.verify import verify
from env_server.storage import layout
from env_server.storage.errors import StorageFormat


def main(directory: Path, seed: int, first: int, count: int) -> None:
    """Verifies flips `first` to `count` - 1; the file is whole again afterwards, unless the process ends before."""
    data = directory / layout.DATA_FILE
    whole = (directory / "whole").read_bytes()
    for number in range(first, count):
        rng = random.Random(f"{seed}-{number}")
        content = bytearray(whole)
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        data.write_bytes(content)
        try:
            told = "whole" if verify(directory).is_whole else "damaged"
        except StorageFormat:
            told = "damaged"
        if data.read_bytes() != content:
            told = "changed"
        print(number, told, flush=True)
    data.write_bytes(whole)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
