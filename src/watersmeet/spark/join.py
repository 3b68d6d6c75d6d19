"""``join``: two DataFrames in, a DataFrame of pairs out, streaming or batch.

The plan (see ``ARCHITECTURE.md``): each side is packed into envelopes by ``mapInArrow``, the envelopes are shuffled
by core, joined by ``transformWithStateInPandas``, and the pairs, which leave in files or as blobs, unpacked by
``mapInArrow``.
"""

from __future__ import annotations

import hashlib
import logging
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal, get_args

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- as everybody writes it
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from watersmeet.engine.result import result_schema as result_arrow_schema
from watersmeet.engine.stream_join import Late
from watersmeet.spark.balancing import METRICS, balance_queries
from watersmeet.spark.cores import core_ids
from watersmeet.spark.envelope import ENVELOPE, arranger, packer, unpacker
from watersmeet.spark.processor import METRIC_NAMES, OUTPUT, JoinProcessor
from watersmeet.spark.routing import Routing, RoutingName, choose_routing
from watersmeet.spark.schema import arrow_schema, result_schema
from watersmeet.spark.sequencer import Sequencer
from watersmeet.spark.session import check_session
from watersmeet.spec.durations import format_duration
from watersmeet.spec.errors import SpecificationError, explain_refusal
from watersmeet.spec.expression import Predicate, Side
from watersmeet.spec.sql import parse_predicate
from watersmeet.spec.window import TimeWindow, Window
from watersmeet.subwindow.choose import Structure
from watersmeet.window.plan import JoinPlan, plan_join

__all__ = ["METRICS", "Balance", "join", "pipeline"]

Balance = Literal["auto", "off"]

WATERMARK: Final = "spark.watermarkDelayMs"
CACHE_BYTES: Final = "spark.watersmeet.cacheBytes"
"""Setting of a session: how much each executor may keep of decoded runs on its disk."""
DEFAULT_CACHE_BYTES: Final = 8 << 30
BALANCE_FOLDER: Final = "spark.watersmeet.balanceDir"
"""Setting of a session: a folder, shared by all machines and kept with the checkpoints, for routing tables."""
CHECKPOINTS: Final = "spark.sql.streaming.checkpointLocation"

_log = logging.getLogger(__name__)


def join(
    left: DataFrame,
    right: DataFrame,
    on: Predicate | str,
    window: Window,
    *,
    how: str = "inner",
    routing: RoutingName = "auto",
    structure: Structure = "auto",
    cores: int | None = None,
    late: Late = "drop",
    balance: Balance = "auto",
) -> DataFrame:
    """Join two DataFrames over a sliding window; both streaming, or both batch.

    Parameters
    ----------
    left, right
        The two sides. A streaming side without a watermark gets one on its timestamp, with the window's lateness.
    on
        A predicate such as ``band("price", "bid", 500) & equal("symbol")``, or Spark SQL text over ``left.x`` and
        ``right.y``.
    window
        ``time_window(…)`` or ``count_window(…)``.
    how
        ``"inner"``.
    routing
        How rows are spread: ``"hash"``, ``"bucket"``, ``"broadcast"``, or ``"auto"``: the first that applies.
    structure
        How windows are indexed, as for ``StreamJoin``.
    cores
        Independent parts of the join; the session's shuffle partitions when not given.
    late
        ``"drop"`` leaves rows behind the watermark out and counts them; ``"error"`` fails the query.
    balance
        ``"auto"`` moves load from busy cores to others while a streaming query runs, and shares hot keys out. It
        needs a folder that all machines share and that is kept with the checkpoint: the session's
        ``spark.watersmeet.balanceDir``, or one in its ``spark.sql.streaming.checkpointLocation``. ``"off"``, or
        neither of them set: every key stays where it is.

    Returns
    -------
    DataFrame
        All left columns, then all right columns; a name that occurs on both sides becomes ``left_NAME`` and
        ``right_NAME``.
    """
    if how != "inner":
        raise SpecificationError(explain_refusal(f"how={how!r}", "'inner'", "leave how out"))
    if late not in ("drop", "error"):
        raise SpecificationError(explain_refusal(f"late={late!r}", "'drop', 'error'", "leave late out"))
    if balance not in get_args(Balance):
        raise SpecificationError(explain_refusal(f"balance={balance!r}", "'auto', 'off'", "leave balance out"))
    if cores is not None and (isinstance(cores, bool) or cores < 1):
        raise SpecificationError(explain_refusal(f"cores={cores!r}", "a whole number of at least 1", "leave cores out"))
    if left.isStreaming != right.isStreaming:
        raise SpecificationError(
            explain_refusal(
                f"the left side is {_mode(left)} and the right side {_mode(right)}",
                "two streaming DataFrames or two batch DataFrames",
                "read both with readStream, or both with read",
            )
        )
    spark = left.sparkSession
    check_session(spark)
    predicate = parse_predicate(on) if isinstance(on, str) else on
    plan = plan_join(arrow_schema(left.schema), arrow_schema(right.schema), predicate, window, structure)
    partitions = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    spread = choose_routing(routing, plan, cores or partitions)
    ids = _core_ids(spark, spread)
    fingerprint = _fingerprint(plan, spread, ids)
    if balance == "auto" and left.isStreaming and spread.kind != "broadcast" and spread.cores > 1:
        spread = replace(spread, tables=_folder_of_tables(spark))
    if spread.tables is not None:
        balance_queries(spark, fingerprint, spread, ids)
    processor = JoinProcessor(
        plan,
        fingerprint,
        cache_bytes=_cache_bytes(spark),
        fail_on_late=late == "error",
    )
    return pipeline(left, right, plan, spread, processor, name=fingerprint)


def pipeline(
    left: DataFrame, right: DataFrame, plan: JoinPlan, routing: Routing, processor: StatefulProcessor, *, name: str = ""
) -> DataFrame:
    """Return the pairs that ``processor`` makes of the two sides' envelopes; its rows are those of ``OUTPUT``.

    The metrics show ``name``, so that whoever hears of them knows the join they are of.
    """
    result_arrow = result_arrow_schema(plan.schemas["left"], plan.schemas["right"])
    ids = _core_ids(left.sparkSession, routing)
    frames = {"left": _watermarked(left, "left", plan.window), "right": _watermarked(right, "right", plan.window)}
    if plan.time is None:
        routed = _sequenced(frames, plan, routing, ids)
    else:
        packed = [frame.mapInArrow(packer(plan, side, routing, ids), ENVELOPE) for side, frame in frames.items()]
        routed = packed[0].unionByName(packed[1])
    joined = routed.groupBy("core").transformWithStateInPandas(
        processor,
        outputStructType=OUTPUT,
        outputMode="Append",
        timeMode="EventTime" if left.isStreaming and plan.time is not None else "None",
    )
    return (
        _observed(joined, name)
        .select("blob", "file")
        .mapInArrow(unpacker(result_arrow), result_schema(left.schema, right.schema, result_arrow.names))
    )


def _watermarked(frame: DataFrame, side: Side, window: Window) -> DataFrame:
    """Give a streaming side of a time window a watermark, unless the user has."""
    if not frame.isStreaming or not isinstance(window, TimeWindow):
        return frame
    if any(WATERMARK in (field.metadata or {}) for field in frame.schema.fields):
        return frame
    ts = window.left_ts if side == "left" else window.right_ts
    return frame.withWatermark(ts, format_duration(window.lateness))


def _sequenced(frames: dict[Side, DataFrame], plan: JoinPlan, routing: Routing, ids: tuple[int, ...]) -> DataFrame:
    """Return envelopes of rows that have been numbered, for a count window."""
    arranged = [frame.mapInArrow(arranger(plan, side, ids[0]), ENVELOPE) for side, frame in frames.items()]
    return (
        arranged[0]
        .unionByName(arranged[1])
        .groupBy("core")
        .transformWithStateInPandas(
            Sequencer(plan, routing, ids), outputStructType=ENVELOPE, outputMode="Append", timeMode="None"
        )
    )


def _observed(joined: DataFrame, name: str) -> DataFrame:
    """Let the query's progress show totals, and what each core did."""
    is_record = F.col("core") >= 0
    totals = ("rows_in", "pairs", "late_rows", "null_rows", "window_rows", "state_bytes")
    return joined.observe(
        METRICS,
        *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in totals),  # an empty micro-batch has no rows
        F.collect_list(F.when(is_record, F.struct(*METRIC_NAMES))).alias("cores"),
        F.max(F.lit(name)).alias("join"),
    )


def _folder_of_tables(spark: SparkSession) -> str | None:
    """Return where routing tables may be kept; None, with a note, where there is no such place."""
    checkpoints = spark.conf.get(CHECKPOINTS, None)
    given = spark.conf.get(BALANCE_FOLDER, None) or (checkpoints and f"{checkpoints}/watersmeet-balance")
    folder = None if given is None else given.removeprefix("file://").removeprefix("file:")
    if folder and "://" not in folder:
        return str(Path(folder).absolute())
    _log.info("balance is off: set %s to a folder that all machines share and that is kept", BALANCE_FOLDER)
    return None


def _cache_bytes(spark: SparkSession) -> int:
    given = spark.conf.get(CACHE_BYTES, None) or str(DEFAULT_CACHE_BYTES)
    if not given.isdecimal():
        raise SpecificationError(
            explain_refusal(f"{CACHE_BYTES} is {given!r}", "a number of bytes", f'write "{DEFAULT_CACHE_BYTES}"')
        )
    return int(given)


def _core_ids(spark: SparkSession, routing: Routing) -> tuple[int, ...]:
    return core_ids(routing.cores, int(spark.conf.get("spark.sql.shuffle.partitions") or 1))


def _fingerprint(plan: JoinPlan, routing: Routing, ids: tuple[int, ...]) -> str:
    """Return what a checkpoint is bound to; the structure may change from one start to the next."""
    columns = {side: [(field.name, str(field.type)) for field in schema] for side, schema in plan.schemas.items()}
    text = repr((str(plan.predicate), plan.window, columns, routing, ids))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _mode(frame: DataFrame) -> str:
    return "streaming" if frame.isStreaming else "batch"
