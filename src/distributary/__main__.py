"""`python -m distributary` is the command `distributary`."""

import sys

from distributary.cli import main

sys.exit(main())
