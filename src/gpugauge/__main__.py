"""`python -m gpugauge`."""

import sys

from gpugauge.cli import main

sys.exit(main())
