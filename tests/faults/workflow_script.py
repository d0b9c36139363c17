"""A script with a flow, to be killed: `python -m tests.faults.workflow_script ADDRESS`."""

from __future__ import annotations

import sys
import threading

from ecumene import workflows

from tests.workflow_actors import Teller


def main(address: str) -> None:
    """Begin calls, say so, and wait for the end."""
    with workflows.connect(address, limits=workflows.FlowLimits(lease_ttl_s=2.0)) as flow:
        tellers = workflows.spawn(Teller, 10)
        workflows.resolve([teller.tell(1) for teller in tellers])
        running = [teller.tell_later("never", 600) for teller in tellers]
        print(flow.name, len(running), flush=True)
        threading.Event().wait(600)


if __name__ == "__main__":
    main(sys.argv[1])
