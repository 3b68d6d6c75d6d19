"""Runs experiments one after the other: describes, measures, prints, writes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from benchmarks.experiment import Context, Experiment
from benchmarks.experiments import cluster, engine, kernels, multiway, peers, spark
from benchmarks.machine import load_average, machine_facts
from benchmarks.plots import draw
from benchmarks.report import Progress, Result, format_goal, say, show_table, write_json
from watersmeet.spec.errors import SpecificationError

__all__ = ["SUITES", "Options", "Suite", "run_experiment", "run_suite"]


@dataclass(frozen=True)
class Suite:
    """Experiments that belong together, by name."""

    about: str
    experiments: dict[str, Experiment]


SUITES: Final = {
    "kernels": Suite(
        "structures and the in-process join, on one thread, against DuckDB and Polars",
        kernels.EXPERIMENTS,
    ),
    "engine": Suite(
        "the topologies on all cores of this machine, against each other",
        engine.EXPERIMENTS,
    ),
    "multiway": Suite(
        "joins of 3 to 8 streams in this process, strategies against each other",
        multiway.EXPERIMENTS,
    ),
    "cluster": Suite(
        "balance on many machines, in a model that runs the real routing table and balancer",
        cluster.EXPERIMENTS,
    ),
    "spark": Suite(
        "the join on Spark against an empty pipeline and Spark's own join, on two cores",
        spark.EXPERIMENTS,
    ),
    "peers": Suite(
        "the same joins with Flink, Pathway, Spark, DuckDB and Polars, each in an environment made for it",
        peers.EXPERIMENTS,
    ),
}


@dataclass(frozen=True)
class Options:
    """How to run."""

    quick: bool
    out: Path
    data: Path | None = None
    against: Path | None = None
    """Folder of an older tree of the package."""


def run_suite(suite: Suite, options: Options, only: Sequence[str] | None = None) -> int:
    """Run the experiments of a suite named by ``only``, or all, and return the exit code."""
    data = _data_folder(options.data)
    chosen = [experiment for name, experiment in suite.experiments.items() if only is None or name in only]
    if options.against is not None:
        chosen = _comparing(chosen, options.against, suite)
    _make_folder(options.out)
    facts = machine_facts()
    say(f"{facts['cpu']}, {facts['cores']} cores, load average {facts['load_average']}")
    if options.quick:
        say("quick run: goals not judged")
    for experiment in chosen:
        run_experiment(experiment, replace(options, data=data))
    say(f"\nresults are in {options.out}/")
    return 0


def run_experiment(experiment: Experiment, options: Options) -> None:
    """Run an experiment, show its result and write it."""
    about = experiment.description
    context = Context(options.quick, Progress(experiment.name), options.data, options.against)
    started, begin, load_before = datetime.now(UTC), time.perf_counter(), load_average()
    cut_off: KeyboardInterrupt | None = None
    try:
        say(f"\n=== {experiment.name}: {about.purpose}")
        say(f"  data: {about.shape}; seed {about.seed}")
        say(f"  expected: {about.expected}")
        result = experiment.run(context)
    except KeyboardInterrupt as interrupt:
        cut_off, result = interrupt, Result(notes=["cut off: only what had been measured by then"], runs=context.noted)
    finally:
        context.progress.done()
    seconds = time.perf_counter() - begin
    for figure in result.figures:
        draw(figure, options.out)
    run_facts: dict[str, object] = {
        "quick": options.quick,
        "started": started.isoformat(timespec="seconds"),
        "seconds": round(seconds, 2),
        "load_average_before": load_before,
        "machine": machine_facts(),
        "cut_off": cut_off is not None,
        "against": None if options.against is None else str(options.against),
    }
    write_json(options.out / f"{experiment.name}.json", experiment.name, about, result, run_facts)
    _show(result, quick=options.quick)
    say(f"  took {seconds:.1f} s")
    if cut_off is not None:
        raise cut_off


def _show(result: Result, *, quick: bool) -> None:
    for table in result.tables:
        show_table(table)
    for note in result.notes:
        say(f"  note: {note}")
    for goal in result.goals:
        say(f"  {f'quick run, not judged: {goal.what}: {goal.measured:,.3g}x' if quick else format_goal(goal)}")


def _data_folder(given: Path | None) -> Path | None:
    """Return the folder of real data if one is given; it must hold ticks."""
    if given is not None and not (given / "ticks").is_dir():
        raise SpecificationError(
            f"--data {given}", "a folder with a folder ticks/ in it", "leave --data out to use generated ticks"
        )
    return given


def _comparing(chosen: list[Experiment], tree: Path, suite: Suite) -> list[Experiment]:
    """Return what compares an older tree of the package with this one."""
    if not (tree / "watersmeet" / "__init__.py").is_file():
        raise SpecificationError(
            f"--against {tree}",
            "a folder with the package watersmeet/ in it, such as src/ of an older checkout",
            "git worktree add OLDER COMMIT, then --against OLDER/src",
        )
    comparing = [experiment.against for experiment in chosen if experiment.against is not None]
    if not comparing:
        able = ", ".join(name for name, experiment in suite.experiments.items() if experiment.against is not None)
        raise SpecificationError(
            "--against", f"experiments that can compare: {able or 'none of this suite'}", "change --only"
        )
    return comparing


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SpecificationError(
            f"--out {folder} ({error.strerror})", "a folder that can be written to", "name another folder"
        ) from error
