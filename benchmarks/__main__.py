"""``python -m benchmarks SUITE``: runs the experiments of a suite; the doors are ``make bench-…``."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.papers.beside import NAMES, run_papers
from benchmarks.suite import SUITES, Options, Suite, run_suite
from watersmeet.cli.main import guarded

__all__ = ["main"]

PAPERS: Final = "the figures of the five papers, ours beside theirs"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a suite and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="benchmarks",
        description="Runs the experiments of a suite. Each prints its tables and writes a JSON file and plots.",
    )
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: what has been measured is written
    suites = parser.add_subparsers(title="suites", metavar="SUITE", required=True)
    for name, suite in SUITES.items():
        _add_suite(suites.add_parser(name, help=suite.about, description=f"Measures {suite.about}."), name, suite)
    _add_papers(suites.add_parser("papers", help=PAPERS, description=f"Draws {PAPERS}; runs what has no result yet."))
    given = parser.parse_args(arguments)
    return guarded(parser.prog, lambda: given.command(given))


def _add_suite(parser: argparse.ArgumentParser, name: str, suite: Suite) -> None:
    parser.set_defaults(data=None, against=None)  # of suites that have no such option
    parser.epilog = f"Experiments: {', '.join(suite.experiments)}."
    parser.add_argument("--quick", action="store_true", help="much smaller sizes; goals are not judged")
    parser.add_argument(
        "--out", type=Path, default=Path("bench-results") / name, help="folder to write to (default: %(default)s)"
    )
    parser.add_argument(
        "--only", nargs="+", metavar="NAME", choices=tuple(suite.experiments), help="run only these experiments"
    )
    if name == "kernels":
        parser.add_argument(
            "--data",
            type=Path,
            default=os.environ.get("WATERSMEET_DATA"),
            help="folder of real data, with ticks/ in it (default: WATERSMEET_DATA, without which ticks are generated)",
        )
    if any(experiment.against is not None for experiment in suite.experiments.values()):
        parser.add_argument(
            "--against",
            type=Path,
            metavar="SRC",
            help="compare with an older tree of the package in one run: the folder with its watersmeet/",
        )
    parser.set_defaults(
        command=lambda given: run_suite(
            suite, Options(given.quick, given.out, given.data, given.against), only=given.only
        )
    )


def _add_papers(parser: argparse.ArgumentParser) -> None:
    parser.epilog = f"Figures: {', '.join(NAMES)}."
    parser.add_argument("--quick", action="store_true", help="much smaller sizes; shapes are not judged")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("bench-results"),
        help="folder with results, to write to (default: %(default)s)",
    )
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=NAMES, help="draw only these papers or figures")
    parser.set_defaults(command=lambda given: run_papers(Options(given.quick, given.out), given.only))


if __name__ == "__main__":
    sys.exit(main())
