"""The commands about job files: ``run``, ``explain``, ``init`` and ``schema``."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from watersmeet.cli.demo.screen import SCREEN
from watersmeet.cli.extras import WrongUsageError
from watersmeet.jobs.display import Display
from watersmeet.jobs.example import EXAMPLE
from watersmeet.jobs.explain import explain as explained
from watersmeet.jobs.model import schema_text
from watersmeet.jobs.reading import read_job
from watersmeet.jobs.runner import run_job
from watersmeet.jobs.spark_log import stderr_into
from watersmeet.jobs.stop import Stop
from watersmeet.live import Figures, Server, serve
from watersmeet.spec.errors import SpecificationError

__all__ = ["Page", "explain", "init", "run", "schema"]


@dataclass(frozen=True)
class Page:
    """Where a running job shows its live page."""

    port: int
    host: str
    token: str | None

    def open(self, figures: Figures) -> Server:
        """Show a query's figures, until it ends."""
        try:
            server = serve(figures, self.port, host=self.host, token=self.token)
        except SpecificationError as error:  # of the token or its absence: the command line takes no wrong port
            raise WrongUsageError(
                f"--ui {self.port} --ui-host {self.host}: {error.given}",
                error.allowed,
                "export WATERSMEET_UI_TOKEN=\"$(python -c 'import secrets; print(secrets.token_urlsafe())')\","
                " or give --ui-token, or leave --ui-host out",
            ) from error
        SCREEN.print(f"live page: {server.url}", highlight=False)
        return server


def run(path: Path, page: Page | None) -> int:
    """Run a job until it ends."""
    file = read_job(path)
    with ExitStack() as stack:
        log = None
        if SCREEN.is_terminal:  # Spark's log would run through the picture
            log = Path(tempfile.mkdtemp(prefix="watersmeet-")) / "spark.log"
        stop = stack.enter_context(Stop())
        figures = Figures()
        if page is not None:
            stack.enter_context(page.open(figures))
        display = Display(file, figures, console=SCREEN, log=log)
        if log is not None:
            stack.enter_context(stderr_into(log))
        stack.enter_context(display)
        run_job(file, display, stop, figures, log=log)
    print(display.summary())
    return 0


def explain(path: Path) -> int:
    """Say what a job will do."""
    print(explained(read_job(path)))
    return 0


def init(path: Path) -> int:
    """Write a job to start with."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(EXAMPLE)
    except OSError as error:
        raise SpecificationError(
            f"{path} cannot be written: {error.strerror}",
            "a file that is not there yet, in a folder that is",
            "name another one: watersmeet init FILE",
        ) from error
    print(f"{path} is written; it runs as it stands:\n  watersmeet explain {path}\n  watersmeet run {path}")
    return 0


def schema() -> int:
    """Print the JSON schema."""
    print(schema_text(), end="")
    return 0
