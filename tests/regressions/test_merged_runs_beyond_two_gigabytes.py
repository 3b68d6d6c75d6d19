"""Runs whose text together passed 2 GiB, which Arrow keeps in several pieces, were merged to the first piece alone."""

from __future__ import annotations

import pyarrow as pa
import pytest

import watersmeet as wm
from watersmeet.spark.envelope import one_batch
from watersmeet.spark.state import FAN_IN, Run, mergeable


def test_large_runs_are_not_merged() -> None:
    def runs(nbytes: int) -> list[Run]:
        return [Run(str(n), 1, 10, nbytes, 0, 1, level=0, generation=0, first=10 * n) for n in range(FAN_IN)]

    assert mergeable(runs(1 << 20), 10)
    assert not mergeable(runs(400 << 20), 10)


def test_rows_that_do_not_fit_one_piece_are_refused() -> None:
    pieces = pa.table({"x": pa.chunked_array([["a"], ["b"]])})

    class Unjoined:
        """A table whose text is too much for one piece."""

        num_rows, schema = pieces.num_rows, pieces.schema

        def combine_chunks(self) -> pa.Table:
            return pieces

    with pytest.raises(wm.SchemaError, match="more than 2 GiB"):
        one_batch(Unjoined())  # type: ignore[arg-type]
