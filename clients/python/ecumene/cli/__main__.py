"""`python -m ecumene.cli`: the command line where the script is not on the path."""

import sys

from ecumene.cli.app import main

sys.exit(main())
