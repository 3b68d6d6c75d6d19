"""``join``: takes two DataFrames, streaming or batch, and returns a DataFrame of pairs, or what ``how`` says."""

from __future__ import annotations

from pyspark.sql import DataFrame

from watersmeet.engine.result import result_schema
from watersmeet.spark.balancing import tables_of
from watersmeet.spark.core_processor import CoreOptions
from watersmeet.spark.decoding.side import Side
from watersmeet.spark.event_time import event_time
from watersmeet.spark.identity import join_identity
from watersmeet.spark.late_rows import LateRows
from watersmeet.spark.lookup import look_up
from watersmeet.spark.metrics import join_name
from watersmeet.spark.ordering import OrderName, order_of
from watersmeet.spark.pipeline import cache_bytes, check_frames, ids_of, partitions_of, pipeline
from watersmeet.spark.processor import JoinProcessor
from watersmeet.spark.routing.choose import RoutingName, choose_routing
from watersmeet.spark.routing.contract import Routes
from watersmeet.spark.schema import arrow_schema
from watersmeet.spark.session import check_session, check_time_zone, is_case_sensitive
from watersmeet.spec.expression import Predicate, StreamName
from watersmeet.spec.kinds import How, preserved, returns_left_rows
from watersmeet.spec.options import (
    Balance,
    Late,
    Structure,
    check_join,
    check_options,
    refuse_late_beside,
    refuse_without_window,
)
from watersmeet.spec.sql import parse_predicate
from watersmeet.spec.window import Window
from watersmeet.window.plan import plan_join

__all__ = ["join"]


def join(
    left: Side,
    right: Side,
    on: Predicate | str,
    window: Window | None,
    *,
    how: How = "inner",
    routing: RoutingName = "auto",
    structure: Structure = "auto",
    cores: int | None = None,
    late: Late = "drop",
    balance: Balance = "auto",
    order: OrderName | None = None,
    name: str | None = None,
) -> DataFrame:
    """Join two DataFrames over a sliding window, both streaming or both batch; or a stream with a table.

    Parameters
    ----------
    left, right
        The two sides: DataFrames, or what ``decode`` returns. A streaming side without a watermark gets one on its
        timestamp, with the window's lateness.
    on
        A predicate such as ``band("price", "bid", 500) & equal("symbol")``, or Spark SQL text over ``left.x`` and
        ``right.y``.
    window
        ``time_window(…)`` or ``count_window(…)``. None if one side is streaming and the other a batch DataFrame: then
        this is a table to look up, which is read now and held by every worker (at most
        ``spark.watersmeet.tableBytes``, 64 MB by default). There is no state, and no option but ``how``
        (``"inner"``, ``"left"``, ``"semi"``, ``"anti"``, and with the table on the left ``"inner"``, ``"right"``) and
        ``structure``.
    how
        ``"inner"`` returns pairs. ``"left"``, ``"right"`` and ``"full"`` also return the rows of that side, or of both,
        that met nobody: once, with nulls for the other side, as soon as no row to come can meet them. ``"semi"``
        returns left rows alone, each once, as soon as it meets one; ``"anti"`` those that meet nobody. All but
        ``"inner"`` are not balanced.
    routing
        How rows are spread over cores: ``"hash"``, ``"bucket"`` or ``"broadcast"``; ``"auto"`` takes the first that
        applies.
    structure
        How windows are indexed, as for ``StreamJoin``.
    cores
        Independent parts of the join; the session's shuffle partitions when not given.
    late
        ``"drop"`` leaves rows behind the watermark out and counts them; ``"error"`` fails the query; ``"keep"`` counts
        them and gives them with the results, which get a last column ``late``: null in a result, and in a late row,
        which has nulls for all other streams, the name of its stream. ``"semi"`` and ``"anti"`` have no ``"keep"``.
    balance
        ``"auto"`` moves load from busy cores to others while a streaming query runs, and spreads hot keys over several
        cores. It needs a folder that all machines share and that is kept with the checkpoint: the session's
        ``spark.watersmeet.balanceDir``, or one in its ``spark.sql.streaming.checkpointLocation``. With ``"off"``, or
        without a folder, every key stays on its core. It may change from one start to the next.
    order
        ``"outer"`` gives each micro-batch's results in the order of the later timestamp of their rows, ``"inner"``
        those of one timestamp in the order of the earlier one; in a count window, of inner joins alone, by the
        arrival of both. Then all results go through one task and the next operator has one partition. It may change
        from one start to the next.
    name
        Under which ``wm.metrics`` and the query's progress have the join's metrics. Joins of one query need different
        ones. By default the first join of this process is ``"watersmeet"``, the next ``"watersmeet 2"``, and so on. It
        may change from one start to the next.

    Returns
    -------
    DataFrame
        All left columns, then all right columns; a name that occurs on both sides becomes ``left_NAME`` and
        ``right_NAME``. With ``"semi"`` and ``"anti"`` the left columns alone, under their own names.
    """
    check_join(on, window, many=False, may_be_none=True)
    check_options(how=how, structure=structure, late=late, balance=balance)
    if late == "keep" and returns_left_rows(how):
        raise refuse_late_beside(how)
    if cores is not None:
        check_options(cores=cores)
    frames: dict[StreamName, Side] = {"left": left, "right": right}
    if window is None:
        refuse_without_window(routing=routing, cores=cores, late=late, balance=balance, order=order, name=name)
        return look_up(frames, on, how=how, structure=structure)
    spark = check_frames(frames)
    check_session(spark)
    predicate = parse_predicate(on) if isinstance(on, str) else on
    case_sensitive = is_case_sensitive(spark)
    plan = plan_join(
        arrow_schema(left.schema),
        arrow_schema(right.schema),
        predicate,
        window,
        structure,
        case_sensitive=case_sensitive,
    )
    check_time_zone(spark, plan.predicate, plan.schemas)
    result = result_schema(plan.schemas["left"], plan.schemas["right"], how=how, case_sensitive=case_sensitive)
    ids = ids_of(spark, cores)
    spread = choose_routing(routing, plan, len(ids), how)
    identity = join_identity(plan, spread, ids, partitions_of(spark), how)
    balances = balance == "auto" and how == "inner"  # a row has one judge for as long as it is kept
    tables = tables_of(spark, identity, spread, ids, balances=balances, is_streaming=left.isStreaming)
    times = event_time(frames, plan.window)
    kept_late = LateRows(plan.schemas, result) if late == "keep" else None
    in_order = order_of(order, how, plan, result)
    processor = JoinProcessor(
        plan,
        identity,
        options=CoreOptions(cache_bytes(spark), late == "error", times.held_back, times.follows, kept_late),
        tables=tables,
        result=result,
        how=how,
        ends=not left.isStreaming,
        order=in_order,
    )
    return pipeline(
        frames,
        streams=plan,
        times=times,
        keeps_late=kept_late is not None,
        routes=Routes(spread, tables, preserved(how)),
        core_ids=ids,
        processor=processor,
        result=result,
        returned=("left",) if returns_left_rows(how) else ("left", "right"),
        name=join_name(name),
        digest=identity.digest,
        order=in_order,
    )
