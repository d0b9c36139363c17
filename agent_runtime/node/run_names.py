"""Names of runs that come from outside: over the wire, or from what others have written into the world."""

from __future__ import annotations

import re

from agent_runtime.model.refusals import refuse_field
from agent_runtime.settings import RUN_NAME

_PATTERN = re.compile(RUN_NAME)


def is_run_name(run: str) -> bool:
    """Whether a run may be called so: such a name leads to no other folder or path than its own."""
    return run[-1:] != "\n" and _PATTERN.match(run) is not None


def check_run_name(run: str) -> None:
    """Raises NodeError (INVALID_FIELD) for what is no name of a run."""
    if not is_run_name(run):
        raise refuse_field("run", "is no name of a run: A-Z a-z 0-9 first, then also . _ -, at most 80")
