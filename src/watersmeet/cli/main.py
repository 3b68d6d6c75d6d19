"""The command ``watersmeet``. Exit codes: 0 done, 1 refused or failed checks, 2 wrong usage, 130 interrupted."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence

from watersmeet import __version__
from watersmeet.cli.demo.in_process import join_in_process
from watersmeet.cli.demo.market import DEFAULT_ROWS
from watersmeet.cli.demo.on_spark import join_on_spark
from watersmeet.spec.errors import WatersmeetError

__all__ = ["main", "run_command"]

INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    return run_command(_parser(), arguments)


def run_command(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> int:
    """Run the ``command`` that a parser's arguments choose; return its exit code."""
    options = parser.parse_args(arguments)
    command: Callable[[argparse.Namespace], int] = options.command
    try:
        return command(options)
    except WatersmeetError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"\n{parser.prog}: interrupted", file=sys.stderr)
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
    parser.add_argument("--version", action="version", version=f"watersmeet {__version__}")
    parser.set_defaults(command=lambda _: _help(parser))
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")

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
    return parser


def _help(parser: argparse.ArgumentParser) -> int:
    """Show what the commands are; that is what no command asks for."""
    parser.print_help()
    return 0


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
