"""Which routing table a task uses, and why: that of its micro-batch, from the files of its query."""

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
    """None where the first one stays for ever."""
    balances: bool = False
    """Whether groups are counted, for tables to come; those that are there hold anyway."""

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
        """Return why a generation of this task's query was made."""
        files = self._of_query()
        return () if files is None else files.reasons(generation)

    def _of_query(self) -> GenerationFiles | None:
        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty("sql.streaming.queryId")
        return None if self.folder is None or query is None else GenerationFiles(Path(self.folder) / query, self.cores)
