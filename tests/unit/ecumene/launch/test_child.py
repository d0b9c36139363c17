"""What runs in the process of a service before the service does."""

from __future__ import annotations

import subprocess
import sys


def test_a_service_that_needs_no_client_starts_without_one() -> None:
    code = (
        "import sys; import ecumene.launch.child;"
        "print([name for name in ('grpc', 'ecumene.client', 'asyncio') if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True).stdout
    assert shown == "[]\n"
