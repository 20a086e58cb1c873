"""`python -m distributary` is the command `distributary`."""

import sys

from distributary.cli.main import main

sys.exit(main())
