"""``StreamJoin``: the in-process join of two streams that users open. It takes tables and returns pairs."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.engine.explain import explain_join
from watersmeet.engine.forms import Ranges, form_of
from watersmeet.engine.intake import PairIntake, Slice
from watersmeet.engine.lifecycle import Lifecycle, in_turn
from watersmeet.engine.metrics import Complete, JoinMetrics
from watersmeet.engine.pairing import Pairing
from watersmeet.engine.result import bounded_tables, result_schema
from watersmeet.engine.saved_state import State
from watersmeet.engine.sections import refusing_damage
from watersmeet.engine.snapshot import Saved, read_snapshot, write_snapshot
from watersmeet.engine.topologies.shape import check_shape, fitting_shape, shape_to_json
from watersmeet.spec.expression import Predicate
from watersmeet.spec.kinds import How, preserved
from watersmeet.spec.options import (
    Late,
    ResultForm,
    Structure,
    TopologyName,
    check_join,
    check_options,
    check_result,
    check_schemas,
    check_threads,
    refuse_complete,
    refuse_records,
)
from watersmeet.spec.ordering import Order, order_from_json, order_to_json
from watersmeet.spec.sql import parse_predicate
from watersmeet.spec.window import Window
from watersmeet.window.plan import OTHER_SIDE, plan_join

__all__ = ["StreamJoin"]


class StreamJoin(Lifecycle):
    """Joins two streams over sliding windows, in this process.

    Threads may share a join, for example one for each stream. It takes their calls one after the other, and returns a
    pair to the thread whose push completes it. A forked child cannot use its parent's join.

    Parameters
    ----------
    left, right
        Schemas of the two streams. Columns may have any type; small indices of dictionaries become int32.
    on
        A predicate such as ``band("price", "bid", 500) & equal("symbol")``, or Spark SQL text over ``left.x`` and
        ``right.y``.
    window
        ``time_window(…)`` or ``count_window(…)``.
    how
        ``"inner"`` returns pairs; ``"left"``, ``"right"`` and ``"full"`` also the rows of that side, or of both, that
        meet nobody: once, with nulls for the other side, when no row to come can meet them, or with ``finish``.
        ``"semi"`` returns left rows alone, each as soon as it meets one, ``"anti"`` those that meet nobody. A row with
        a null, or that fails a condition on its side alone, meets nobody; late rows are neither joined nor returned.
    topology
        How rows are spread over cores: ``"panjoin"`` (the fastest), ``"splitjoin"``, ``"low_latency_handshake"``,
        ``"handshake"`` or ``"kang"`` (one core, the three-step procedure). Every choice gives the same pairs. The push
        that completes a pair returns it, except in ``handshake``: there rows meet later, when newer rows push them
        along, and ``finish`` returns the pairs of rows that have not met by then.
    structure
        How subwindows are indexed: ``"auto"``, ``"scan"``, ``"hash"``, ``"rap_table"``, ``"wib_tree"``, ``"bi_sort"``.
        Every choice gives the same pairs.
    cores
        Threads to use, including the caller's if that takes part; ``kang`` uses one. Threads start with the first push
        and stop with ``finish`` or ``close``, with an error, or when the join is no longer referred to.
    late
        ``"drop"`` leaves rows behind the watermark out and counts them; ``"error"`` refuses the push; ``"keep"`` counts
        them and holds them until :meth:`take_late`.
    order
        ``"outer"`` returns pairs in the order in which their later rows arrived; ``"inner"`` also orders the pairs of
        one row by the arrival of their earlier rows. In a push left rows arrive before right ones, unless a count
        window's ``order_by`` gives another order. The order holds from push to push, for any times of the rows and
        also if pushes are collected. ``wm.relaxed(rows=…, comparisons=…)`` is less precise, which costs less. In
        ``handshake`` a pair is held back until none before it can come, about as long as rows take to meet.
    result
        ``"pairs"``, or a form that costs little more where a row meets thousands. ``"count"``: a table of one number,
        how many ``pairs`` there are. ``"ranges"``: records of the sorted rows that one row meets, from ``start`` to
        ``end``, or with ``not`` all but these; ``pairs`` counts them, and :meth:`pairs_of` returns them.
    fanout
        For ``splitjoin``, at least 2: the number of cores to which one distributor sends, and from which one merger
        receives. With more cores there are trees of them. The default is 8.
    weights
        For ``handshake``: a number for each core, the share of each window that it holds. The default is equal shares.
    block_rows
        Rows in one message between threads, for topologies that send messages. With fewer rows pairs are found sooner,
        but each row costs more.
    batch_rows, batch_seconds
        Collect small pushes until there are this many rows, or until the first has waited this long, and join them
        together: that is much cheaper than joining each. The push that completes a batch returns its pairs, or
        ``finish`` does; ``poll`` looks at the time too.

    Examples
    --------
    >>> import pyarrow as pa, watersmeet as wm
    >>> left = pa.table({"t": pa.array([0, 5], pa.timestamp("s")), "x": [10, 20]})
    >>> right = pa.table({"t": pa.array([1, 60], pa.timestamp("s")), "y": [12, 20]})
    >>> join = wm.StreamJoin(
    ...     left=left.schema, right=right.schema, on=wm.band("x", "y", 5), window=wm.time_window("10 seconds", ts="t")
    ... )
    >>> join.push(left=left, right=right).to_pydict()["y"]
    [12]
    """

    _intake: PairIntake

    def __init__(
        self,
        *,
        left: pa.Schema,
        right: pa.Schema,
        on: Predicate | str,
        window: Window,
        how: How = "inner",
        topology: TopologyName = "panjoin",
        structure: Structure = "auto",
        cores: int = 1,
        late: Late = "drop",
        order: Order | None = None,
        result: ResultForm = "pairs",
        fanout: int | None = None,
        weights: Sequence[float] | None = None,
        block_rows: int = 256,
        batch_rows: int | None = None,
        batch_seconds: float | None = None,
    ) -> None:
        super().__init__()
        check_schemas(left, right)
        check_join(on, window, many=False)
        check_threads(cores)
        check_options(how=how, topology=topology, structure=structure, late=late, order=order, result=result)
        check_options(fanout=fanout, block_rows=block_rows, batch_rows=batch_rows, batch_seconds=batch_seconds)
        check_result(result, order, how)
        check_shape(topology, cores, fanout=fanout, weights=weights)
        predicate = parse_predicate(on) if isinstance(on, str) else on
        self._plan = plan_join(left, right, predicate, window, structure, with_branches=True)
        self._predicate = self._plan.predicate
        self._options: dict[str, Any] = {
            "how": how,
            "topology": topology,
            "cores": cores,
            "late": late,
            "order": order_to_json(order),
            "block_rows": block_rows,
            "batch_rows": batch_rows,
            "batch_seconds": batch_seconds,
        }
        self._options |= shape_to_json(fanout=fanout, weights=weights)
        if result != "pairs":
            self._options["result"] = result
        self._order: Order | None = order
        pairs = result_schema(self._plan.schemas["left"], self._plan.schemas["right"], how=how)
        self._form = form_of(result, self._plan.schemas, pairs)
        self._schema = pairs if self._form is None else self._form.schema
        self._intake = PairIntake(self._plan, late=late, preserved=preserved(how))
        self._pairing = Pairing(
            self._plan,
            pairs,
            how=how,
            topology=topology,
            cores=cores,
            order=order,
            form=self._form,
            fanout=fanout,
            weights=weights,
            block_rows=block_rows,
            batch_rows=batch_rows,
            batch_seconds=batch_seconds,
        )
        self._intake.number = self._pairing.number_rows
        self._topology = self._pairing.topology
        self._stop = self._topology.close
        weakref.finalize(self, self._stop)
        self._owed = self._nothing = self._schema.empty_table()
        self._pairs = 0

    @property
    def schema(self) -> pa.Schema:
        """Schema of what is returned: of pairs all left columns, then all right ones; see ``result``."""
        return self._schema

    @in_turn("push()")
    def push(self, left: pa.Table | None = None, right: pa.Table | None = None) -> pa.Table:
        """Take the next rows of both streams; return the pairs that they complete.

        The pairs do not depend on the timing of threads: ``push`` waits until they have finished. A push that is
        refused (wrong schema, late rows with ``late="error"``) changes nothing. After any other error, also an
        interrupt, the join has failed: rows may be stored whose pairs no caller has got. Then all further calls of
        ``push``, ``finish`` and ``snapshot`` are refused. Rows that meet nobody come behind the pairs.
        """
        slices = self._accepted("push()", left, right, whole=self._pairing.takes_whole_pushes)
        return self._delivered(self._rest() + self._pairing.join(slices))

    def _accepted(self, what: str, left: pa.Table | None, right: pa.Table | None, *, whole: bool) -> Iterator[Slice]:
        """Return the slices of a push that is not refused; from here on the join has its rows."""
        self._check_open(what)
        accepted = self._intake.accept_pair(left, right, whole=whole)
        self._changing()
        self._intake.commit(accepted)
        self._pairing.leave_out(accepted.unmatched)
        return accepted.slices

    @in_turn("submit()")
    def submit(self, left: pa.Table | None = None, right: pa.Table | None = None) -> None:
        """Take the next rows of both streams, and return while they are still being joined; :meth:`poll` has the pairs.

        It is refused as a ``push`` is, which does the same and waits. It waits itself while too many rows are under
        way, however seldom pairs are polled. With ``kang``, or ``panjoin`` on one core, there is nobody else to join
        them. An error in a core is raised by the next call.
        """
        slices = self._accepted("submit()", left, right, whole=self._order is not None)
        self._owed = self._with_owed(self._rest())
        self._pairing.submit(slices)

    @in_turn("poll()")
    def poll(self) -> pa.Table:
        """Return the pairs found so far that were not returned yet; which these are depends on the timing of threads.

        With an ``order`` they come in it from poll to poll: a pair is held back until no other can come before it.
        """
        self._check_not_failed("poll()")
        self._changing()
        return self._delivered(self._rest() + ([] if self._finished else self._pairing.poll()))

    @property
    @in_turn("complete")
    def complete(self) -> Complete:
        """How far each stream's rows have met all rows before them, in a join with an ``order``."""
        if self._order is None:
            raise refuse_complete()
        return Complete(**self._pairing.topology.complete())

    def pushes(self, left: pa.Table | None = None, right: pa.Table | None = None) -> Iterator[pa.Table]:
        """Take the next rows of both streams; return an iterator over the pairs that they complete, in bounded tables.

        A table has at most 1,048,576 rows, or about 64 MB if rows are long. Together the tables are what ``push``
        returns, in the same ``order``. The rows are taken at once, or refused. Pairs are found when the iterator is
        asked for them. Pairs that it is not asked for are not lost: the next ``push``, ``finish`` or iterator returns
        them, and this iterator then ends. A ``snapshot`` finds and holds all of them, which may be many, and the
        iterator continues.

        With ``kang`` and ``panjoin`` the join holds one table beside the windows, or the pairs of one row if they are
        more, and finds pairs in the caller's thread. The other topologies join some rows at a time and hold the pairs
        of these. The pairs that ``handshake`` returns from ``finish`` come in one table.
        """
        self._take_in(left, right)
        return self._portions()

    @in_turn("pushes()")
    def _take_in(self, left: pa.Table | None, right: pa.Table | None) -> None:
        slices = self._accepted("pushes()", left, right, whole=self._order is not None)
        self._owed = self._with_owed(self._pairing.settled())
        self._take_owed()
        self._under_way.append(self._pairing.in_portions(slices))

    def _take_owed(self) -> None:
        if self._owed.num_rows:
            self._under_way.append(bounded_tables([self._owed]))
            self._owed = self._nothing

    def _hand_out(self, results: pa.Table) -> None:
        if self._form is None:
            self._pairs += results.num_rows
        else:
            self._pairs += pc.sum(results["pairs"]).as_py() or 0
            self._form.release(results)

    def _join_waiting(self) -> None:
        """Find the pairs of all rows that were taken, also of those that wait for a full batch, and keep the pairs."""
        waits = (self._pairing.collects or self._pairing.flows) and not self._finished
        if self._under_way or waits:
            self._changing()
            rest = self._rest()
            self._owed = self._with_owed(rest + self._pairing.join_waiting() if waits else rest)

    @in_turn("pairs_of()")
    def pairs_of(self, records: pa.Table) -> pa.Table:
        """Return the pairs that records of a join with ``result="ranges"`` stand for.

        These are records that were returned last, all or some of them; when the join returns others they are refused.
        What they stand for never changes. Take slices of them where they are many pairs.
        """
        if not isinstance(self._form, Ranges):
            raise refuse_records("records", str(self._options.get("result", "pairs")))
        return self._form.pairs_of(records)

    @in_turn("finish()")
    def finish(self) -> pa.Table:
        """End the join and stop all threads: no more rows will come. Return the pairs that are left."""
        self._check_open("finish()")
        self._changing()
        self._join_waiting()
        pairs = self._delivered([] if self._finished else self._pairing.finish())
        self._finished = True
        self._stop()
        return pairs

    def _delivered(self, results: list[pa.Table]) -> pa.Table:
        found = self._with_owed(results)
        if self._form is not None:
            found = self._form.together([found])
        self._owed = self._nothing
        self._hand_out(found)
        return found

    def _with_owed(self, results: list[pa.Table]) -> pa.Table:
        """Return results behind those that were found but not returned before."""
        together = [self._owed, *results] if self._owed.num_rows else results
        return pa.concat_tables(together) if together else self._nothing

    @property
    @in_turn("metrics")
    def metrics(self) -> JoinMetrics:
        """Counts of rows, pairs and what was left out, and the size of the windows."""
        progress = self._intake.progress
        windows = {side: self._topology.windows(side) for side in OTHER_SIDE}
        rows = {side: sum(window.rows for window in parts) for side, parts in windows.items()}
        return JoinMetrics(
            left_rows=progress.rows["left"],
            right_rows=progress.rows["right"],
            pairs=self._pairs,
            left_late=progress.late["left"],
            right_late=progress.late["right"],
            left_null=progress.null["left"],
            right_null=progress.null["right"],
            left_window_rows=rows["left"],
            right_window_rows=rows["right"],
            window_bytes=sum(window.nbytes for parts in windows.values() for window in parts) + self._pairing.nbytes,
            watermark=progress.watermark,
            waiting_for=self._intake.waiting_for,
        )

    @in_turn("explain()")
    def explain(self) -> str:
        """Explain in words what is indexed, what is verified, and which structures were chosen and why."""
        windows = {side: self._topology.windows(side) for side in OTHER_SIDE}
        return explain_join(self._plan, self._options["how"], self._options["topology"], windows)

    @in_turn("snapshot()")
    def snapshot(self) -> bytes:
        """Return the whole state as bytes, from which :meth:`restore` continues. This join can continue as well."""
        self._check_open("snapshot()")
        self._join_waiting()
        held = self._pairing.save(finished=self._finished)
        owed = self._with_owed(held.owed)
        return write_snapshot(
            Saved(
                plan=self._plan,
                state=State(self._options, self._intake.progress, self._pairs, self._finished),
                segments=held.segments,
                owed=owed if self._form is None else self._form.save(owed),
                waiting=held.waiting,
                late=self._intake.late_rows,
            )
        )

    @classmethod
    def restore(cls, blob: bytes, *, topology: TopologyName | None = None, cores: int | None = None) -> Self:
        """Return the join that :meth:`snapshot` saved, in the state in which it was saved.

        It may continue with another topology and with another number of cores.
        """
        given = {"topology": topology, "cores": cores}
        changed = {name: value for name, value in given.items() if value is not None}
        if topology is not None:
            check_options(topology=topology)
        if cores is not None:
            check_threads(cores)
        saved = read_snapshot(blob)
        with refusing_damage():
            options = {**saved.state.options, **changed}
            options["order"] = order_from_json(options.get("order"))
            return cls._restored(saved, fitting_shape(options, changed))

    @classmethod
    def _restored(cls, saved: Saved, options: dict[str, Any]) -> Self:
        plan = saved.plan
        join = cls(
            left=plan.schemas["left"],
            right=plan.schemas["right"],
            on=plan.predicate,
            window=plan.window,
            structure=plan.structure,
            **options,
        )
        join._intake.progress, join._intake.late_rows = saved.state.progress, saved.late
        join._pairs, join._finished = saved.state.results, saved.state.finished
        join._owed = saved.owed if join._form is None else join._form.restore(saved.owed)
        join._pairing.load(saved.segments, saved.waiting)
        return join
