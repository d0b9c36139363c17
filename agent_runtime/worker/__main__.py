"""`python -m agent_runtime.worker`; see `program`."""

import sys

from agent_runtime.worker.program import main

sys.exit(main())
