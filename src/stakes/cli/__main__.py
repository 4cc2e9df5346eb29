"""`python -m stakes.cli`."""

import sys

from stakes.cli import main

sys.exit(main())
