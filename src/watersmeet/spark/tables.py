"""The routing table of a task: that of its micro-batch, from the files of its join in its query."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pyspark import TaskContext

from watersmeet.balance.files import GenerationFiles
from watersmeet.balance.generation import RoutingTable, first_generation

__all__ = ["Tables"]


@dataclass(frozen=True, slots=True)
class Tables:
    """The routing tables of a join."""

    cores: int
    folder: str | None = None
    """None if the first table is always used."""
    balances: bool = False
    """Whether groups are counted, for tables to come; those that are there hold anyway."""
    join: str = ""
    """What tells the joins of a query apart at every start; joins that have the same share their tables."""

    def current(self) -> RoutingTable:
        """Return the routing table by which this task has to route; the first one outside a balanced streaming query.

        Where balance is off, a query that was balanced before keeps its tables.
        """
        files = self._of_query()
        if files is not None and not self.balances and not files.exist:
            files = None
        context = TaskContext.get()
        micro_batch = None if context is None else context.getLocalProperty("streaming.sql.batchId")
        if files is None or micro_batch is None:
            return RoutingTable((first_generation(self.cores),))
        return files.table(int(micro_batch))

    def reasons(self, generation: int) -> tuple[str, ...]:
        """Return the reasons for a generation of this task's query."""
        files = self._of_query()
        return () if files is None else files.reasons(generation)

    def of_query(self, query: str) -> GenerationFiles:
        """Return the files of this join in a query; there is a folder for them."""
        assert self.folder is not None, "only joins with a folder have files"
        return GenerationFiles.of_join(Path(self.folder) / query, self.join, self.cores)

    def _of_query(self) -> GenerationFiles | None:
        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty("sql.streaming.queryId")
        return None if self.folder is None or query is None else self.of_query(query)
