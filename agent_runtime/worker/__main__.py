"""`python -m agent_runtime.worker`; see `program`."""

import gc
import sys

gc.disable()  # all that is imported stays: looking through it again and again is a quarter of a start
from agent_runtime.worker.program import main  # noqa: E402

gc.freeze()
gc.enable()
sys.exit(main())
