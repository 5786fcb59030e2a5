"""Let `python -m pytest_failure_taxonomy` do what `failure-taxonomy` does."""

import sys

from pytest_failure_taxonomy.cli.main import main

sys.exit(main())
