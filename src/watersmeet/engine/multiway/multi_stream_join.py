"""``MultiStreamJoin``: the in-process join of many streams that users open. It takes tables and returns results."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa

from watersmeet.engine.driver import drive
from watersmeet.engine.intake import Arrived, Intake
from watersmeet.engine.lifecycle import Lifecycle, in_turn
from watersmeet.engine.multiway.explain import explain_streams
from watersmeet.engine.multiway.plan import plan_streams
from watersmeet.engine.multiway.ring import Ring
from watersmeet.engine.multiway.snapshot import Saved, read_snapshot, write_snapshot
from watersmeet.engine.multiway.stage import Stages
from watersmeet.engine.multiway.stashed import Stashed, strategy_of
from watersmeet.engine.result import bounded_tables
from watersmeet.engine.saved_state import State
from watersmeet.engine.sections import refusing_damage
from watersmeet.spec.errors import SchemaError, SpecificationError
from watersmeet.spec.expression import Predicate, StreamName
from watersmeet.spec.options import Late, Strategy, Structure, check_join, check_options, check_threads
from watersmeet.spec.streams import as_written, check_names, check_streams, read_predicate
from watersmeet.spec.window import Window, Windows, windows_of

__all__ = ["MultiJoinMetrics", "MultiStreamJoin"]


@dataclass(frozen=True, slots=True)
class MultiJoinMetrics:
    """Counts of a join so far, by stream. Late rows and rows with a null timestamp or key were not joined."""

    rows: dict[StreamName, int]
    late: dict[StreamName, int]
    null: dict[StreamName, int]
    window_rows: dict[StreamName, int]
    results: int
    window_bytes: int
    stash_pairs: int
    """Matches of two streams that are kept for the others."""
    stash_hits: int
    """Partial results that came from the stash."""
    stash_recomputed: int
    """Rows for which matches had to be found again, because they had been overwritten."""
    stash_overwritten: int
    watermark: int | None
    """In microseconds (nanoseconds where a timestamp column has them) since 1970; None before all streams began, or
    with ``idle`` the first of them."""
    waiting_for: StreamName | None
    """The stream that holds the watermark of a time window back, as in a ``StreamJoin``'s metrics."""


class MultiStreamJoin(Lifecycle):
    """Joins two to eight streams over sliding windows, in this process.

    A result has one row of every stream. It exists iff the predicate holds and every row is still in its stream's
    window when the latest of them arrives. So it is an inner join; it has no ``how``. Threads may share a join, as they
    may a ``StreamJoin``.

    Parameters
    ----------
    streams
        The schema of each stream, by name. Columns may have any type; small indices of dictionaries become int32.
    on
        Spark SQL text over the streams' names, or a predicate such as ``equal("a.k", "b.k") & band("b.x", "c.x", 5)``.
        Its conditions have to connect all streams.
    window
        ``time_window(…)`` or ``count_window(…)``: one for all streams, or by stream.
    strategy
        ``"circular"`` passes every row through the windows of all other streams; ``"stashed"`` also keeps the matches
        of two streams, for rows of the others; ``"auto"`` decides by what it measures. Every choice gives the same
        results.
    structure
        How subwindows are indexed, as in ``StreamJoin``.
    cores
        Threads to use, at most one for each stream. They begin with the first push and end with ``finish`` or
        ``close``, with an error, or when the join is no longer referred to.
    late
        ``"drop"`` leaves rows behind the watermark out and counts them; ``"error"`` refuses the push; ``"keep"`` counts
        them and holds them until :meth:`take_late`.
    stash_rows
        Most matches of two streams that a stash keeps; older ones are overwritten, and found again where needed.
    wiring
        All streams' names, in the order in which a ring connects them: rows pass from their own stream on to the next
        one that can be reached. Without it every stream's rows take the way of least work, by what is measured, which
        is nearly always faster; a wiring makes the way known beforehand.

    Examples
    --------
    >>> import pyarrow as pa, watersmeet as wm
    >>> def table(seconds, **columns):
    ...     return pa.table({"ts": pa.array(seconds, pa.timestamp("s")), **columns})
    >>> orders = table([0, 5], customer=[7, 8])
    >>> payments = table([2, 6], customer=[7, 8], amount=[20, 30])
    >>> parcels = table([4, 90], weight=[22, 30])
    >>> join = wm.MultiStreamJoin(
    ...     streams={"o": orders.schema, "p": payments.schema, "q": parcels.schema},
    ...     on="o.customer = p.customer AND p.amount BETWEEN q.weight - 5 AND q.weight + 5",
    ...     window=wm.time_window("10 seconds", ts="ts"),
    ... )
    >>> join.push(o=orders, p=payments, q=parcels).to_pydict()["p_amount"]
    [20]
    """

    def __init__(
        self,
        *,
        streams: Mapping[StreamName, pa.Schema],
        on: Predicate | str,
        window: Window | Windows,
        strategy: Strategy = "auto",
        structure: Structure = "auto",
        cores: int = 1,
        late: Late = "drop",
        stash_rows: int = 1 << 20,
        wiring: Sequence[StreamName] | None = None,
    ) -> None:
        super().__init__()
        check_streams(streams, pa.Schema, "pyarrow.Schema", ".schema")
        check_join(on, window, many=True)
        check_options(strategy=strategy, structure=structure, late=late, stash_rows=stash_rows)
        check_threads(cores)
        names = check_names(streams)
        self._plan = plan_streams(streams, read_predicate(on, names), windows_of(window, names), structure, closes=True)
        self._predicate = self._plan.predicate
        self._intake = Intake(self._plan, late=late)
        ring = _check_wiring(wiring, names)
        self._strategy = strategy_of(Stages(self._plan), strategy, stash_rows, wiring=ring)
        self._options: dict[str, object] = {
            "strategy": strategy,
            "cores": cores,
            "late": late,
            "stash_rows": stash_rows,
        }
        self._options |= {"wiring": list(ring)} if ring else {}
        self._ring = Ring(self._strategy, min(cores, len(names))) if cores > 1 else None
        self._stop = self._strategy.close if self._ring is None else self._ring.close
        weakref.finalize(self, self._stop)
        self._results = 0

    @property
    def schema(self) -> pa.Schema:
        """Schema of the results: ``NAME_column`` for every column of every stream, streams in the order given."""
        return self._plan.result_schema

    @in_turn("push()")
    def push(self, /, **tables: pa.Table | None) -> pa.Table:
        """Take the next rows of any streams; return the results that they complete.

        A push that is refused (wrong schema, late rows with ``late="error"``) changes nothing. After any other error,
        also an interrupt, the join has failed, and further calls are refused.
        """
        slices = self._accepted("push()", tables)
        engine = self._strategy if self._ring is None else self._ring
        results = self._rest()
        results += drive(self._strategy, slices, engine.push)
        return self._delivered(results)

    def pushes(self, /, **tables: pa.Table | None) -> Iterator[pa.Table]:
        """Take the next rows of any streams; return an iterator over the results that they complete, in bounded tables.

        A table has at most 1,048,576 rows, or about 64 MB if rows are long. Beside the windows the join holds no more
        than that, and a portion of partial results for each stream. The rows are taken at once, or refused. Results are
        found in the caller's thread when the iterator is asked for them. Those that it is not asked for come with the
        next ``push`` or ``finish``, or from the next iterator; until then ``snapshot`` is refused.
        """
        self._take_in(tables)
        return self._portions()

    @in_turn("pushes()")
    def _take_in(self, tables: Mapping[StreamName, pa.Table | None]) -> None:
        slices = self._accepted("pushes()", tables)
        self._under_way.append(bounded_tables(drive(self._strategy, slices, self._strategy.in_portions)))

    def _accepted(self, what: str, tables: Mapping[StreamName, pa.Table | None]) -> Iterator[Arrived]:
        """Check rows and commit to joining them; return them in slices."""
        self._check_open(what)
        unknown = [name for name in tables if name not in self._plan.schemas]
        if unknown:
            raise SchemaError(
                f"rows were pushed for {', '.join(unknown)}",
                f"the streams of the join: {', '.join(self._plan.schemas)}",
                "check the spelling",
            )
        accepted = self._intake.accept(tables)
        self._changing()
        self._intake.commit(accepted)
        return accepted.slices

    def _delivered(self, results: list[pa.Table]) -> pa.Table:
        found = pa.concat_tables(results) if results else self.schema.empty_table()
        self._hand_out(found)
        return found

    def _hand_out(self, results: pa.Table) -> None:
        self._results += results.num_rows

    @in_turn("finish()")
    def finish(self) -> pa.Table:
        """End the join: no more rows will come. Return the results that an iterator was not asked for."""
        self._check_open("finish()")
        self._changing()
        results = self._delivered(self._rest())
        self._finished = True
        self._stop()
        return results

    @property
    @in_turn("metrics")
    def metrics(self) -> MultiJoinMetrics:
        """Counts of rows, results and what was left out, and the size of the windows."""
        progress = self._intake.progress
        stages = self._strategy.stages.of
        stashed = self._strategy if isinstance(self._strategy, Stashed) else None
        stash = None if stashed is None else stashed.stash
        return MultiJoinMetrics(
            rows=dict(progress.rows),
            late=dict(progress.late),
            null=dict(progress.null),
            window_rows={stream: len(stage.rows) for stream, stage in stages.items()},
            results=self._results,
            window_bytes=sum(stage.nbytes for stage in stages.values()) + (0 if stash is None else stash.nbytes),
            stash_pairs=0 if stash is None else len(stash),
            stash_hits=0 if stashed is None else stashed.hits,
            stash_recomputed=0 if stashed is None else stashed.recomputed,
            stash_overwritten=0 if stashed is None else stashed.overwritten,
            watermark=progress.watermark,
            waiting_for=self._intake.waiting_for,
        )

    @in_turn("explain()")
    def explain(self) -> str:
        """Explain in words what connects the streams, how rows pass through them, and what is indexed."""
        return explain_streams(self._strategy)

    @in_turn("snapshot()")
    def snapshot(self) -> bytes:
        """Return the whole state as bytes, from which :meth:`restore` continues. This join can continue as well.

        It is refused while results of ``pushes`` have not been taken.
        """
        self._check_open("snapshot()")
        if self._under_way:
            raise SpecificationError(
                "snapshot() was called while results of pushes() had not been taken",
                "a snapshot when the caller has all results",
                "take what the iterator still has, or what push() returns, and save then",
            )
        stores = {stream: stage.rows for stream, stage in self._strategy.stages.of.items()}
        rows = {
            stream: [(chunk.rows, store.counts(chunk)) for chunk in store.chunks] for stream, store in stores.items()
        }
        state = State(self._options, self._intake.progress, self._results, self._finished)
        return write_snapshot(Saved(self._plan, state, rows, self._intake.late_rows))

    @classmethod
    def restore(cls, blob: bytes, *, strategy: Strategy | None = None, cores: int | None = None) -> Self:
        """Return the join that :meth:`snapshot` saved, in the state in which it was saved.

        It may continue with another strategy and with another number of cores.
        """
        given = {"strategy": strategy, "cores": cores}
        changed = {name: value for name, value in given.items() if value is not None}
        if strategy is not None:
            check_options(strategy=strategy)
        if cores is not None:
            check_threads(cores)
        saved = read_snapshot(blob)
        with refusing_damage():
            return cls._restored(saved, {**saved.state.options, **changed})

    @classmethod
    def _restored(cls, saved: Saved, options: dict[str, Any]) -> Self:
        plan = saved.plan
        join = cls(
            streams=plan.schemas,
            on=as_written(plan.predicate),
            window=plan.window,
            structure=plan.structure,
            **options,
        )
        join._intake.progress, join._intake.late_rows = saved.state.progress, saved.late
        join._results, join._finished = saved.state.results, saved.state.finished
        for stream, chunks in saved.rows.items():
            for rows, counts in chunks:
                join._strategy.load(stream, rows, counts)
        if isinstance(join._strategy, Stashed):
            join._strategy.renew()
        return join


def _check_wiring(wiring: object, names: tuple[StreamName, ...]) -> tuple[StreamName, ...]:
    """Return the order of a ring; none is empty."""
    if wiring is None:
        return ()
    given = tuple(wiring) if isinstance(wiring, list | tuple) else ()
    if not all(isinstance(name, str) for name in given) or sorted(given) != sorted(names):
        raise SpecificationError(
            f"wiring={wiring!r}",
            f"each of the streams' names once: {', '.join(names)}",
            f"give for example wiring={names!r}, or leave wiring out",
        )
    return given
