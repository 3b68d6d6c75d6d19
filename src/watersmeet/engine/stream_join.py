"""``StreamJoin``: the in-process join as a user sees it. Tables in, pairs out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, Self

import pyarrow as pa

from watersmeet.engine.explain import explain_join
from watersmeet.engine.intake import Intake
from watersmeet.engine.kang import Kang
from watersmeet.engine.result import gather_pairs, result_schema
from watersmeet.engine.snapshot import Saved, read_snapshot, write_snapshot
from watersmeet.spec.errors import SpecificationError, explain_refusal
from watersmeet.spec.expression import Predicate
from watersmeet.spec.sql import parse_predicate
from watersmeet.spec.window import CountWindow, TimeWindow, Window
from watersmeet.subwindow.choose import Structure
from watersmeet.window.plan import plan_join

__all__ = ["How", "JoinMetrics", "Late", "StreamJoin", "Topology"]

How = Literal["inner"]
Topology = Literal["kang"]
Late = Literal["drop", "error"]
ALLOWED: Final = {"how": ("inner",), "topology": ("kang",), "late": ("drop", "error")}


@dataclass(frozen=True, slots=True)
class JoinMetrics:
    """What a join has done so far. Late rows and rows with a null timestamp or key were not joined."""

    left_rows: int
    right_rows: int
    pairs: int
    left_late: int
    right_late: int
    left_null: int
    right_null: int
    left_window_rows: int
    right_window_rows: int
    window_bytes: int
    watermark: int | None
    """In microseconds (nanoseconds where a timestamp column has them) since 1970; None before both streams began."""


class StreamJoin:
    """Joins two streams over sliding windows, in this process.

    Parameters
    ----------
    left, right
        Schemas of the two streams. Columns of any type travel along.
    on
        A predicate such as ``band("price", "bid", 500) & equal("symbol")``, or Spark SQL text over ``left.x`` and
        ``right.y``.
    window
        ``time_window(…)`` or ``count_window(…)``.
    how
        ``"inner"``.
    topology
        ``"kang"``: one core, the three-step procedure.
    structure
        How subwindows are indexed: ``"auto"``, ``"scan"``, ``"hash"``, ``"rap_table"``, ``"wib_tree"``, ``"bi_sort"``.
        Every choice gives the same pairs.
    cores
        Threads to use; ``kang`` uses one.
    late
        ``"drop"`` leaves rows behind the watermark out and counts them; ``"error"`` refuses the push.

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

    def __init__(
        self,
        *,
        left: pa.Schema,
        right: pa.Schema,
        on: Predicate | str,
        window: Window,
        how: How = "inner",
        topology: Topology = "kang",
        structure: Structure = "auto",
        cores: int = 1,
        late: Late = "drop",
    ) -> None:
        _check_options(how=how, topology=topology, late=late)
        _check_arguments(left, right, on, window, cores)
        predicate = parse_predicate(on) if isinstance(on, str) else on
        self._plan = plan_join(left, right, predicate, window, structure)
        self._how, self._topology_name, self._cores, self._late = how, topology, cores, late
        self._schema = result_schema(left, right)
        self._intake = Intake(self._plan, fail_on_late=late == "error")
        self._topology = Kang(self._plan)
        self._pairs = 0
        self._finished = False

    @property
    def schema(self) -> pa.Schema:
        """Schema of the pairs: all left columns, then all right columns."""
        return self._schema

    def push(self, left: pa.Table | None = None, right: pa.Table | None = None) -> pa.Table:
        """Take the next rows of both streams; return the pairs they complete.

        A push that is refused (wrong schema, late rows with ``late="error"``) changes nothing.
        """
        if self._finished:
            raise SpecificationError(
                explain_refusal(
                    "push() was called after finish()",
                    "pushes before finish()",
                    "build a new StreamJoin for further rows",
                )
            )
        accepted = self._intake.accept(left, right)
        results: list[pa.Table] = []
        for part in accepted.slices:
            for probing, matches in self._topology.push(part.left, part.right):
                if matches:
                    results.append(gather_pairs(probing, matches, self._schema))
            for side, before in part.expire_before.items():
                if before is not None:
                    self._topology.expire(side, before)
        self._intake.progress = accepted.progress
        pairs = pa.concat_tables(results) if results else self._schema.empty_table()
        self._pairs += pairs.num_rows
        return pairs

    def finish(self) -> pa.Table:
        """Say that no more rows will come; return the pairs still owed (none for an inner join)."""
        self._finished = True
        return self._schema.empty_table()

    @property
    def metrics(self) -> JoinMetrics:
        """Counts of rows, pairs and what was left out, and the size of the windows."""
        progress, windows = self._intake.progress, self._topology.windows
        return JoinMetrics(
            left_rows=progress.rows["left"],
            right_rows=progress.rows["right"],
            pairs=self._pairs,
            left_late=progress.late["left"],
            right_late=progress.late["right"],
            left_null=progress.null["left"],
            right_null=progress.null["right"],
            left_window_rows=windows["left"].rows,
            right_window_rows=windows["right"].rows,
            window_bytes=windows["left"].nbytes + windows["right"].nbytes,
            watermark=progress.watermark,
        )

    def explain(self) -> str:
        """Say in plain words what is indexed, what is verified afterwards, and which structures were chosen and why."""
        return explain_join(self._plan, self._topology_name, self._topology.windows)

    def snapshot(self) -> bytes:
        """Return the whole state as bytes; :meth:`restore` continues from it."""
        windows = self._topology.windows
        return write_snapshot(
            Saved(
                plan=self._plan,
                options={"how": self._how, "topology": self._topology_name, "cores": self._cores, "late": self._late},
                progress=self._intake.progress,
                pairs=self._pairs,
                finished=self._finished,
                segments={side: window.save() for side, window in windows.items()},
            )
        )

    @classmethod
    def restore(cls, blob: bytes) -> Self:
        """Return the join that :meth:`snapshot` saved, at the point where it was saved."""
        saved = read_snapshot(blob)
        plan = saved.plan
        join = cls(
            left=plan.schemas["left"],
            right=plan.schemas["right"],
            on=plan.predicate,
            window=plan.window,
            structure=plan.structure,
            **saved.options,
        )
        join._intake.progress = saved.progress
        join._pairs, join._finished = saved.pairs, saved.finished
        windows = join._topology.windows
        for side, segments in saved.segments.items():
            for rows, sequence in segments:
                windows[side].load(rows, sequence)
        return join


def _check_options(**given: str) -> None:
    for name, value in given.items():
        if value not in ALLOWED[name]:
            allowed = ", ".join(map(repr, ALLOWED[name]))
            raise SpecificationError(
                explain_refusal(f"{name}={value!r}", allowed, f"leave {name} out, or give one of these")
            )


def _check_arguments(left: object, right: object, on: object, window: object, cores: object) -> None:
    for name, schema in (("left", left), ("right", right)):
        if not isinstance(schema, pa.Schema):
            raise SpecificationError(
                explain_refusal(f"{name}={type(schema).__name__}", "a pyarrow.Schema", f"give {name}=table.schema")
            )
    if not isinstance(on, str | Predicate):
        raise SpecificationError(
            explain_refusal(
                f"on={type(on).__name__}", "a predicate or Spark SQL text", 'give for example on=wm.equal("key")'
            )
        )
    if not isinstance(window, TimeWindow | CountWindow):
        raise SpecificationError(
            explain_refusal(
                f"window={window!r}",
                "time_window(…) or count_window(…)",
                'give for example window=wm.time_window("10 minutes", ts="ts")',
            )
        )
    if isinstance(cores, bool) or not isinstance(cores, int) or cores < 1:
        raise SpecificationError(explain_refusal(f"cores={cores!r}", "a whole number of at least 1", "leave cores out"))
