"""The command ``watersmeet``. Exit codes: 0 done, 1 refused or failed checks, 2 wrong usage, 130 interrupted."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from watersmeet.cli.bench.suite import SUITES, Options, Suite, run_suite
from watersmeet.cli.demo.in_process import join_in_process
from watersmeet.cli.demo.market import DEFAULT_ROWS
from watersmeet.cli.demo.on_spark import join_on_spark
from watersmeet.spec.errors import WatersmeetError

__all__ = ["main"]

INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    options = _parser().parse_args(arguments)
    command: Callable[[argparse.Namespace], int] = options.command
    try:
        return command(options)
    except WatersmeetError as error:
        print(f"watersmeet: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nwatersmeet: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output, `head` for one, has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="watersmeet",
        description="Join streams over sliding windows: on equality, on a band, on any comparison.",
        epilog="Try `watersmeet demo` first. `watersmeet COMMAND --help` says more about a command.",
    )
    parser.add_argument("--version", action="version", version=f"watersmeet {_version()}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    demo = commands.add_parser(
        "demo",
        help="join generated trades and quotes, live, and prove the result",
        description="Joins generated trades and quotes on a local Spark and checks the number of pairs independently.",
    )
    demo.add_argument(
        "--rows", type=_positive, default=DEFAULT_ROWS, help="rows of both streams (default: %(default)s)"
    )
    demo.add_argument("--seed", type=int, default=1, help="seed of the generated rows (default: %(default)s)")
    demo.add_argument("--in-process", action="store_true", help="join in this process, without Spark")
    demo.set_defaults(command=_demo)

    bench = commands.add_parser(
        "bench",
        help="measure, in one run with what it is compared to",
        description="Runs the experiments of a suite. Each prints its tables and writes a JSON file and plots.",
    )
    suites = bench.add_subparsers(title="suites", metavar="SUITE", required=True)
    for name, suite in SUITES.items():
        _add_suite(suites.add_parser(name, help=suite.about, description=f"Measures {suite.about}."), name, suite)
    return parser


def _add_suite(parser: argparse.ArgumentParser, name: str, suite: Suite) -> None:
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
            "--data", type=Path, help="folder of real data, with ticks/ in it (default: ../shared/data if it is there)"
        )
    parser.set_defaults(
        data=None,
        command=lambda given: run_suite(suite, Options(given.quick, given.out, given.data), only=given.only),
    )


def _version() -> str:
    try:
        return version("watersmeet")
    except PackageNotFoundError:  # run from a source tree that was never installed
        return "(not installed)"


def _demo(given: argparse.Namespace) -> int:
    show = join_in_process if given.in_process else join_on_spark
    return show(rows=given.rows, seed=given.seed)


def _positive(text: str) -> int:
    try:
        number = int(text.replace("_", "").replace(",", ""))
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return number


if __name__ == "__main__":
    sys.exit(main())
