"""The results of a micro-batch in order: one partition of them, put together from what the cores have sorted.

*What the order is.* In a time window results are ordered by the later timestamp of their rows (*outer* order), and
those of one timestamp by the earlier one (*inner* order). For rows of a micro-batch have no order of arrival but that
of their timestamps. In a count window rows have numbers, and the order is that of arrival: SplitJoin's definitions 1
and 2. Results of rows with equal timestamps come in any order.

*How.* A core sorts every table that it gives and sends it as blobs, each with the first place in it. One task gets all
blobs of the micro-batch. It writes them into a scratch file and then reads them in the order of their first places, so
what lies before the first place of the next blob can be given. It holds a blob of every table that overlaps.

*Cost.* Spark moves blobs, not rows: all results go through the shuffle once, and through one task, which sorts them
again in part. So the rate of results is that of one task, and the next operator has one partition. Measured with pairs
of six columns of numbers: a core takes 2.2 times as long to give a pair away in outer order and 4 times in inner order,
and the one task takes 0.7 and 1.7 times what a core takes without an order.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import zip_longest
from typing import IO, Final, Literal, Self

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.arrays import Int64s
from watersmeet.columns.gather import in_order
from watersmeet.columns.hidden import hidden_of, with_hidden
from watersmeet.spark.envelope import BLOB_BYTES, to_blobs
from watersmeet.spark.gc_freeze import freeze_once
from watersmeet.spark.output import ordered_rows
from watersmeet.spark.scratch import scratch_folder
from watersmeet.spec.errors import SpecificationError
from watersmeet.spec.kinds import How
from watersmeet.spec.ordering import STRICT, Relaxed
from watersmeet.spec.window import TimeWindow
from watersmeet.window.batch import KeyedBatch
from watersmeet.window.plan import JoinPlan
from watersmeet.window.stream_window import Match

__all__ = ["OrderName", "ResultOrder", "merged", "merger", "order_of"]

OrderName = Literal["outer", "inner"]
ArrowMap = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]

LATER: Final = "later"
EARLIER: Final = "earlier"
"""Names of the hidden columns that say where the rows of a result stand."""
UNKNOWN: Final = pa.scalar(-(2**63))
FOLDER: Final = "watersmeet-ordered"
HELD_BYTES: Final = 8 << 20
"""Bytes of results that are put in order at a time, if nothing that overlaps takes more."""
IN_MEMORY_BYTES: Final = 64 << 20
"""Bytes of a micro-batch's results up to which no file is written."""


@dataclass(frozen=True, slots=True)
class ResultOrder:
    """The order of a join's results."""

    is_inner: bool
    times: tuple[int, ...] | None
    """The numbers of the result's timestamp columns, one or both; None in a count window."""

    @classmethod
    def of(cls, name: OrderName, plan: JoinPlan, result: pa.Schema) -> Self:
        """Return the order of the results of ``plan``."""
        window, left = plan.window, plan.schemas["left"]
        if not isinstance(window, TimeWindow):
            return cls(name == "inner", None)
        places = left.names.index(window.left_ts), len(left) + plan.schemas["right"].names.index(window.right_ts)
        return cls(name == "inner", tuple(place for place in places if place < len(result)))

    def placed(self, results: pa.Table, probing: KeyedBatch, matches: list[Match]) -> pa.Table:
        """Return pairs of a count window with where their rows stand; those of a time window say it themselves."""
        if self.times is not None:
            return results
        assert probing.arrival is not None, "rows of a count window are numbered"
        own, stored = [], []
        for match in matches:
            assert match.source is not None
            assert match.source.numbers is not None
            own.append((probing.arrival.sequence + probing.arrival.seen)[match.who])
            stored.append(np.add(*match.source.numbers)[match.row])
        return _with_places(results, np.concatenate(own), np.concatenate(stored))

    def rows(self, results: pa.Table) -> pd.DataFrame:
        """Return results, sorted, as rows of a core's output."""
        if self.times is not None:
            results = _with_places(results, _times(results, self.times), _times(results, self.times[::-1]))
        results = self.sorted(results)
        step = max(1, results.num_rows * BLOB_BYTES // max(1, results.nbytes))
        return ordered_rows(to_blobs(results, step), hidden_of(results, LATER)[::step])

    def sorted(self, results: pa.Table) -> pa.Table:
        """Return results with their places in order."""
        later = hidden_of(results, LATER)
        by = np.lexsort((hidden_of(results, EARLIER), later)) if self.is_inner else np.argsort(later, kind="stable")
        return in_order(results, by)


def order_of(name: OrderName | None, how: How, plan: JoinPlan, result: pa.Schema) -> ResultOrder | None:
    """Return the order of the results of ``plan``, or None; raise for one that results cannot have."""
    if name is not None and name not in STRICT:
        raise SpecificationError(
            "order is relaxed(…) in a join on Spark" if isinstance(name, Relaxed) else f"order={name!r}",
            '"outer", "inner" or None: what a micro-batch gives is sorted at once, and less precisely is no faster',
            'give order="outer", or leave order out',
        )
    if name is not None and how != "inner" and not isinstance(plan.window, TimeWindow):
        raise SpecificationError(
            f"order={name!r} with how={how!r} in a count window",
            'in a count window an order with how="inner" alone: unmatched rows have no later row to stand by',
            "leave order out, or sort in foreachBatch",
        )
    return None if name is None else ResultOrder.of(name, plan, result)


def merger(order: ResultOrder) -> ArrowMap:
    """Return the function that puts the sorted tables of all cores together, for the one task that gets them."""

    def merge(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with tempfile.SpooledTemporaryFile(IN_MEMORY_BYTES, dir=_folder()) as file:
            for results in merged(order, *_kept(batches, file)):
                yield from results.to_batches(max(1, results.num_rows * BLOB_BYTES // max(1, results.nbytes)))
        freeze_once("merge")

    return merge


def merged(order: ResultOrder, places: list[int], read: Callable[[int], bytes]) -> Iterator[pa.Table]:
    """Yield the results of blobs in order, without their places; blobs are read in the order of their first places."""
    waiting: list[pa.Table] = []
    nbytes, enough = 0, HELD_BYTES
    following = sorted(range(len(places)), key=places.__getitem__)
    for blob, after in zip_longest(following, following[1:]):
        table = pa.ipc.open_stream(read(blob)).read_all()
        waiting.append(table)
        nbytes += table.nbytes
        if nbytes < enough and after is not None:
            continue
        whole = order.sorted(pa.concat_tables(waiting))
        ready = whole.num_rows if after is None else int(np.searchsorted(hidden_of(whole, LATER), places[after]))
        if ready:
            yield whole.slice(0, ready).select(range(whole.num_columns - 2))
        waiting = [whole.slice(ready)]
        nbytes = waiting[0].nbytes
        enough = max(HELD_BYTES, 2 * nbytes)  # what overlaps is not sorted again for every blob


def _kept(batches: Iterable[pa.RecordBatch], file: IO[bytes]) -> tuple[list[int], Callable[[int], bytes]]:
    """Write all blobs into a file; return their first places, and what reads one of them."""
    places: list[int] = []
    where: list[tuple[int, int]] = []
    for batch in batches:
        for place, blob in zip(batch.column("place"), batch.column("blob"), strict=True):
            if blob.is_valid:  # a report has none
                places.append(place.as_py())
                where.append((file.tell(), file.write(blob.as_buffer())))

    def read(number: int) -> bytes:
        begin, length = where[number]
        file.seek(begin)
        return file.read(length)

    return places, read


def _folder() -> str | None:
    """Return the folder for what does not fit into memory: Spark's scratch folder, or else the machine's own."""
    folder = scratch_folder(FOLDER)
    if folder is not None:
        with suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            return str(folder)
    return None


def _with_places(results: pa.Table, one: Int64s, other: Int64s) -> pa.Table:
    """Return results with where their rows stand, in hidden columns."""
    columns = [*results.columns, pa.array(np.maximum(one, other)), pa.array(np.minimum(one, other))]
    return pa.Table.from_arrays(columns, schema=with_hidden(results.schema, (LATER, EARLIER)))


def _times(results: pa.Table, columns: tuple[int, ...]) -> Int64s:
    """Return the first of some timestamps that is known, of every result; those without any come first."""
    return np.asarray(pc.coalesce(*(results.column(column).cast(pa.int64()) for column in columns), UNKNOWN))
