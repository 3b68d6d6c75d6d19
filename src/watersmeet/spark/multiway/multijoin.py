"""``multijoin``: takes two to eight DataFrames, streaming or batch, and returns a DataFrame of results."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame

from watersmeet.engine.multiway.plan import plan_streams
from watersmeet.spark.balancing import tables_of
from watersmeet.spark.core_processor import CoreOptions
from watersmeet.spark.decoding.side import Side
from watersmeet.spark.event_time import event_time
from watersmeet.spark.identity import join_identity
from watersmeet.spark.late_rows import LateRows
from watersmeet.spark.metrics import join_name
from watersmeet.spark.multiway.processor import MultiJoinProcessor, StrategyOptions
from watersmeet.spark.multiway.routing import MultiRoutingName, choose_multi_routing
from watersmeet.spark.pipeline import cache_bytes, check_frames, ids_of, partitions_of, pipeline
from watersmeet.spark.routing.contract import Routes
from watersmeet.spark.schema import arrow_schema
from watersmeet.spark.session import check_session, check_time_zone, is_case_sensitive
from watersmeet.spec.expression import Predicate, StreamName
from watersmeet.spec.options import Balance, Late, Strategy, Structure, check_join, check_options
from watersmeet.spec.streams import check_names, check_streams, read_predicate
from watersmeet.spec.window import Window, Windows, windows_of

__all__ = ["multijoin"]


def multijoin(
    streams: Mapping[StreamName, Side],
    on: Predicate | str,
    window: Window | Windows,
    *,
    strategy: Strategy = "auto",
    routing: MultiRoutingName = "auto",
    largest: StreamName | None = None,
    structure: Structure = "auto",
    cores: int | None = None,
    late: Late = "drop",
    balance: Balance = "auto",
    stash_rows: int = 1 << 20,
    name: str | None = None,
) -> DataFrame:
    """Join DataFrames over sliding windows; all streaming, or all batch.

    A result has one row of every stream. It exists iff the predicate holds and every row is still in its stream's
    window when the latest of them arrives. So it is an inner join; it has no ``how``. No intermediate result is ever
    stored.

    Parameters
    ----------
    streams
        Two to eight DataFrames by name, or what ``decode`` returns. One without a watermark gets one on its timestamp,
        with the window's lateness.
    on
        Spark SQL text over the streams' names, or a predicate such as ``equal("a.k", "b.k") & band("b.x", "c.x", 5)``.
        Its conditions have to connect all streams.
    window
        ``time_window(…)`` or ``count_window(…)``: one for all streams, or by stream.
    strategy
        ``"circular"``, ``"stashed"`` or ``"auto"``, as for ``MultiStreamJoin``.
    routing
        How rows are spread over cores: ``"hash"`` by a key that equalities make equal in all streams; ``"bucket"`` by
        values that bands keep close to each other in all streams; ``"replicate"`` spreads one stream's rows and sends
        those of all others to every core; ``"auto"`` takes the first that applies.
    largest
        With ``"replicate"`` the stream that is spread: name the one with the most rows. The default is the first.
    structure
        How windows are indexed, as for ``StreamJoin``.
    cores
        Independent parts of the join; the session's shuffle partitions when not given.
    late
        ``"drop"`` leaves rows behind the watermark out and counts them; ``"error"`` fails the query; ``"keep"`` counts
        them and gives them with the results, which get a last column ``late``: null in a result, and in a late row,
        which has nulls for all other streams, the name of its stream.
    balance
        ``"auto"`` moves load from busy cores to others while a streaming query runs, as for ``join``, where rows go by
        ``"hash"`` or ``"bucket"``.
    stash_rows
        How many matches of two streams a core may keep for rows of the others.
    name
        Under which ``wm.metrics`` and the query's progress have the join's metrics, as for ``join``.

    Returns
    -------
    DataFrame
        ``NAME_column`` for every column of every stream, streams in the order given.
    """
    check_join(on, window, many=True)
    check_options(strategy=strategy, structure=structure, late=late, balance=balance, stash_rows=stash_rows)
    if cores is not None:
        check_options(cores=cores)
    check_streams(streams, object, "Spark DataFrames", "")
    names = check_names(streams)
    spark = check_frames(streams)
    check_session(spark)
    schemas = {stream: arrow_schema(frame.schema) for stream, frame in streams.items()}
    plan = plan_streams(
        schemas,
        read_predicate(on, names),
        windows_of(window, names),
        structure,
        case_sensitive=is_case_sensitive(spark),
    )
    check_time_zone(spark, plan.predicate, plan.schemas)
    ids = ids_of(spark, cores)
    spread = choose_multi_routing(routing, plan, len(ids), largest)
    identity = join_identity(plan, spread, ids, partitions_of(spark))
    is_streaming = next(iter(streams.values())).isStreaming
    tables = tables_of(spark, identity, spread, ids, balances=balance == "auto", is_streaming=is_streaming)
    times = event_time(streams, plan.window)
    kept_late = LateRows(plan.schemas, plan.result_schema) if late == "keep" else None
    processor = MultiJoinProcessor(
        plan,
        StrategyOptions(strategy, stash_rows),
        identity,
        core_options=CoreOptions(cache_bytes(spark), late == "error", times.held_back, times.follows, kept_late),
        tables=tables,
        centre=spread.centre,
    )
    return pipeline(
        streams,
        streams=plan,
        times=times,
        keeps_late=kept_late is not None,
        routes=Routes(spread, tables),
        core_ids=ids,
        processor=processor,
        result=plan.result_schema,
        name=join_name(name),
        digest=identity.digest,
    )
