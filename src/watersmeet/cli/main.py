"""The command ``watersmeet``.

Exit codes: 0 done, or ended as asked; 1 refused, failed, or something is missing here; 2 wrong usage or a wrong job
file; 130 interrupted.

Typer reads the arguments and nothing else: a command returns what is to be done, and that is done outside of it, where
errors become one message and an exit code. What a command needs is imported when it is chosen.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from watersmeet import __version__
from watersmeet.cli.demo.in_process import join_in_process
from watersmeet.cli.demo.market import DEFAULT_ROWS
from watersmeet.cli.demo.on_spark import join_on_spark
from watersmeet.cli.extras import WrongUsageError, load
from watersmeet.jobs.problems import JobError
from watersmeet.spec.errors import WatersmeetError

__all__ = ["guarded", "main"]

PROGRAM: Final = "watersmeet"
WRONG: Final = 2
INTERRUPTED: Final = 130
LOOPBACK: Final = "127.0.0.1"

Command = Callable[[], int]
JobArgument = Annotated[Path, typer.Argument(metavar="JOB", help="A job file, in TOML.", show_default=False)]

app = typer.Typer(
    name=PROGRAM,
    help="Join streams over sliding windows: on equality, on a band, on any comparison.",
    epilog="Try `watersmeet demo` first. `watersmeet COMMAND --help` says more about a command.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    try:
        chosen = app(arguments, prog_name=PROGRAM, standalone_mode=False)
    except typer.TyperException as error:
        commands = ", ".join(command.name or "" for command in app.registered_commands)
        print(f"{PROGRAM}: {error.format_message()}\n  allowed: commands {commands}", file=sys.stderr)
        print(f"  next step: `{PROGRAM} --help`, or `{PROGRAM} COMMAND --help`", file=sys.stderr)
        raise SystemExit(WRONG) from None
    if not callable(chosen):  # the code of --help and --version, which have been done
        raise SystemExit(chosen)
    return guarded(PROGRAM, chosen)


def guarded(program: str, command: Command) -> int:
    """Run a command and return its exit code; an error becomes a message under the program's name."""
    try:
        return command()
    except JobError as error:  # says in which file
        print(error, file=sys.stderr)
        return WRONG
    except WatersmeetError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return WRONG if isinstance(error, WrongUsageError) else 1
    except KeyboardInterrupt:
        print(f"\n{program}: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output, `head` for one, has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _version(wanted: bool) -> None:  # noqa: FBT001 -- as Typer calls it
    if wanted:
        print(f"{PROGRAM} {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _start(
    context: typer.Context,
    *,
    version: Annotated[  # noqa: ARG001 -- its callback does it
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> Command:
    """Show what the commands are; that is what no command asks for."""

    def show_help() -> int:
        print(context.get_help())
        return 0

    return show_help


def _positive(text: str | int) -> int:
    """Return a number of rows; Typer gives the default, which is a number, like a text."""
    try:
        number = int(str(text).replace("_", "").replace(",", ""))
    except ValueError:
        number = 0
    if number < 1:
        raise typer.BadParameter(f"{text!r} is not a whole number of at least 1")
    return number


@app.command("demo")
def demo(
    *,
    rows: Annotated[int, typer.Option(parser=_positive, metavar="N", help="Rows of both streams.")] = DEFAULT_ROWS,
    seed: Annotated[int, typer.Option(help="Seed of the generated rows.")] = 1,
    in_process: Annotated[bool, typer.Option("--in-process", help="Join in this process, without Spark.")] = False,
) -> Command:
    """join generated trades and quotes, live, and prove the result"""  # noqa: D400, D403 -- a line of the help
    show = join_in_process if in_process else join_on_spark
    return lambda: show(rows=rows, seed=seed)


@app.command("run")
def run(
    job: JobArgument,
    *,
    ui: Annotated[
        int | None, typer.Option(metavar="PORT", min=0, max=65_535, help="Show a live page; 0: on a free port.")
    ] = None,
    ui_host: Annotated[
        str | None,
        typer.Option(metavar="HOST", help="Its address; another one needs a token.", show_default=LOOPBACK),
    ] = None,
    ui_token: Annotated[
        str | None, typer.Option(metavar="TOKEN", envvar="WATERSMEET_UI_TOKEN", help="What its clients have to know.")
    ] = None,
) -> Command:
    """run the job of a file on Spark, until it ends or is asked to"""  # noqa: D400, D403
    if ui_host is not None and ui is None:
        raise typer.BadParameter(f"--ui-host {ui_host} without --ui PORT, which shows the page")

    def run_it() -> int:
        jobs = _jobs("run")
        code: int = jobs.run(job, None if ui is None else jobs.Page(ui, ui_host or LOOPBACK, ui_token))
        return code

    return run_it


@app.command("explain")
def explain(job: JobArgument) -> Command:
    """say in plain words what a job will do"""  # noqa: D400, D403
    return lambda: _jobs("explain").explain(job)


@app.command("init")
def init(job: Annotated[Path, typer.Argument(metavar="JOB", help="The file to write.")] = Path("job.toml")) -> Command:
    """write a job with comments, which runs as it stands"""  # noqa: D400, D403
    return lambda: _jobs("init").init(job)


@app.command("schema")
def schema() -> Command:
    """print the JSON schema of job files"""  # noqa: D400, D403
    return lambda: _jobs("schema").schema()


@app.command("doctor")
def doctor(
    job: Annotated[
        Path | None,
        typer.Argument(metavar="[JOB]", help="A job whose Spark settings are looked at.", show_default=False),
    ] = None,
) -> Command:
    """look at Java, PySpark, memory, disk and settings, and say what to change"""  # noqa: D400, D403

    def examine() -> int:
        from watersmeet.cli.doctor import examine as look  # noqa: PLC0415 -- needs more than other commands

        return look(job)

    return examine


@app.command("warm-up")
def warm_up(
    cache: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Where to keep what is compiled; beside the package if not given."),
    ] = None,
) -> Command:
    """compile all kernels once, for an image or a new machine"""  # noqa: D400, D403

    def compile_all() -> int:
        from watersmeet.cli.warm_up import warm_up as compile_kernels  # noqa: PLC0415 -- as above

        return compile_kernels(cache)

    return compile_all


def _jobs(command: str) -> Any:  # noqa: ANN401 -- a module
    """Return the commands of jobs; raise if what they need is not installed."""
    for package in ("pydantic", "pyspark"):
        load(package, needed_for=f"`watersmeet {command}`", extra="spark,java")
    return load("watersmeet.cli.jobs", needed_for=f"`watersmeet {command}`", extra="spark,java")


if __name__ == "__main__":
    sys.exit(main())
