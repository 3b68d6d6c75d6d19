"""Hours of random joins, in this process and on Spark with kills: ``python -m soak`` (``make soak``).

The oracle and the domains are those of the tests; the package is the one of this tree, installed or not.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / folder) for folder in ("src", "tests")]
