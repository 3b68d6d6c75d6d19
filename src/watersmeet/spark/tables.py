"""Which routing table a task uses: that of its micro-batch, from the files of its query."""

from __future__ import annotations

from pathlib import Path

from pyspark import TaskContext

from watersmeet.balance.files import GenerationFiles
from watersmeet.balance.generation import RoutingTable, first_generation

__all__ = ["current_table"]


def current_table(folder: str | None, cores: int) -> RoutingTable:
    """Return the routing table by which this task has to route; the first one outside a balanced streaming query."""
    context = TaskContext.get()
    if folder is not None and context is not None:
        query = context.getLocalProperty("sql.streaming.queryId")
        micro_batch = context.getLocalProperty("streaming.sql.batchId")
        if query is not None and micro_batch is not None:
            return GenerationFiles(Path(folder) / query, cores).table(int(micro_batch))
    return RoutingTable((first_generation(cores),))
