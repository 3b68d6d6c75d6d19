"""Which routing table a task uses, and why: that of its micro-batch, from the files of its query."""

from __future__ import annotations

from pathlib import Path

from pyspark import TaskContext

from watersmeet.balance.files import GenerationFiles
from watersmeet.balance.generation import RoutingTable, first_generation

__all__ = ["current_reasons", "current_table"]


def current_table(folder: str | None, cores: int, *, balances: bool = True) -> RoutingTable:
    """Return the routing table by which this task has to route; the first one outside a balanced streaming query.

    Where balance is off, a query that was balanced before keeps its tables.
    """
    context = TaskContext.get()
    files = _files_of_query(folder, cores)
    if files is not None and not balances and not files.exist:
        files = None
    micro_batch = None if context is None else context.getLocalProperty("streaming.sql.batchId")
    if files is None or micro_batch is None:
        return RoutingTable((first_generation(cores),))
    return files.table(int(micro_batch))


def current_reasons(folder: str | None, cores: int, generation: int) -> tuple[str, ...]:
    """Return why a generation of this task's query was made."""
    files = _files_of_query(folder, cores)
    return () if files is None else files.reasons(generation)


def _files_of_query(folder: str | None, cores: int) -> GenerationFiles | None:
    context = TaskContext.get()
    query = None if context is None else context.getLocalProperty("sql.streaming.queryId")
    return None if folder is None or query is None else GenerationFiles(Path(folder) / query, cores)
