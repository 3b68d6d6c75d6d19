"""The empty pipeline: the plan, packing and shuffle of the join around a processor that reads envelopes and drops them.

It is the most that any join on this path can reach.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, TimerValues

from watersmeet.engine.result import result_schema
from watersmeet.spark.event_time import event_time
from watersmeet.spark.gc_freeze import freeze_once
from watersmeet.spark.output import Report, report_rows
from watersmeet.spark.pipeline import ids_of, pipeline
from watersmeet.spark.routing.choose import choose_routing
from watersmeet.spark.routing.contract import Routes
from watersmeet.spark.schema import arrow_schema
from watersmeet.spark.tables import Tables
from watersmeet.spec.expression import Predicate
from watersmeet.spec.window import Window
from watersmeet.window.plan import plan_join

__all__ = ["empty_pipeline"]


def empty_pipeline(left: DataFrame, right: DataFrame, on: Predicate, window: Window, *, cores: int) -> DataFrame:
    """Return what ``join`` would, without any pairs."""
    plan = plan_join(arrow_schema(left.schema), arrow_schema(right.schema), on, window, "auto")
    ids = ids_of(left.sparkSession, cores)
    result = result_schema(plan.schemas["left"], plan.schemas["right"])
    return pipeline(
        {"left": left, "right": right},
        streams=plan,
        times=event_time({"left": left, "right": right}, plan.window),
        routes=Routes(choose_routing("auto", plan, cores), Tables(cores)),
        core_ids=ids,
        processor=_Dropping(),
        result=result,
        name="empty",
        digest="",
    )


class _Dropping(StatefulProcessor):
    """Reads a core's envelopes and gives one record of metrics."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open nothing: there is no state."""

    def handleInputRows(  # noqa: N802 -- Spark's name
        self,
        key: Any,  # noqa: ANN401
        rows: Iterator[pd.DataFrame],
        timerValues: TimerValues,  # noqa: ARG002, N803
    ) -> Iterator[pd.DataFrame]:
        """Read everything and drop it."""
        begin = time.perf_counter()
        for _ in rows:
            pass
        yield report_rows(Report(int(key[0]), busy_seconds=time.perf_counter() - begin))
        freeze_once("drop")

    def close(self) -> None:
        """Nothing to close."""
