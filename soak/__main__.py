"""``python -m soak``: runs both halves of the soak, or one, and prints the summary.

It takes up what an earlier soak has left in its folder. ``replay`` runs one case or one query again, by its seed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console

from soak.processes import check_cases
from soak.record import Record, summary_of, table_of


def main() -> int:
    """Parse the arguments and run."""
    parser = argparse.ArgumentParser(prog="python -m soak", description=__doc__)
    parser.add_argument("--only", choices=["cases", "queries"], help="one half alone")
    parser.add_argument("--cases", type=int, default=200_000, help="generated cases, those done before included")
    parser.add_argument("--kills", type=int, default=200, help="kills on Spark, those done before included")
    parser.add_argument("--minutes", type=float, default=600.0, help="most minutes for either half")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes that check cases")
    parser.add_argument("--folder", type=Path, default=Path("soak-results"), help="where results are kept")
    parser.add_argument("--replay-case", type=int, metavar="SEED", help="run one case again and show it")
    parser.add_argument("--replay-query", type=int, metavar="SEED", help="run one query again and show it")
    given = parser.parse_args()
    if given.replay_case is not None:
        from soak.cases import check, draw_case  # noqa: PLC0415 -- loads the kernels

        print(draw_case(given.replay_case))
        print(check(given.replay_case))
        return 0
    if given.replay_query is not None:
        from soak.queries import soak_queries  # noqa: PLC0415 -- needs PySpark

        with tempfile.TemporaryDirectory() as folder:
            record = Record(Path(folder), "queries")
            soak_queries(record, 0, time.monotonic(), [given.replay_query])
            print(json.dumps(record.lines, indent=2))
        return 0
    cases, queries = Record(given.folder, "cases"), Record(given.folder, "queries")
    if given.only != "queries":
        check_cases(cases, given.cases, given.workers, time.monotonic() + given.minutes * 60)
    if given.only != "cases":
        from soak.queries import soak_queries  # noqa: PLC0415 -- needs PySpark

        soak_queries(queries, given.kills, time.monotonic() + given.minutes * 60)
    summary = summary_of(cases, queries)
    (given.folder / "summary.json").write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    Console().print(table_of(summary))
    return bool(summary["failures"])


if __name__ == "__main__":
    sys.exit(main())
