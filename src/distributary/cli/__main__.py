"""`python -m distributary.cli` is the command `distributary`."""

import sys

from distributary.cli.main import main

sys.exit(main())
