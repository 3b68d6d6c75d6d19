"""Results: how they are named, and how pairs of row numbers become rows."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from watersmeet.columns.plain import from_words, is_plain, word_type, words_of
from watersmeet.spec.errors import SpecificationError, explain_refusal
from watersmeet.spec.expression import Side
from watersmeet.window.batch import KeyedBatch
from watersmeet.window.stream_window import Match

__all__ = ["gather_pairs", "result_schema"]

Int32s = npt.NDArray[np.int32]


def result_schema(left: pa.Schema, right: pa.Schema) -> pa.Schema:
    """Return all left columns, then all right ones; a name on both sides gets its side as prefix."""
    both = set(left.names) & set(right.names)
    sides: tuple[tuple[Side, pa.Schema], ...] = (("left", left), ("right", right))
    fields = [
        column.with_name(f"{side}_{column.name}") if column.name in both else column
        for side, schema in sides
        for column in schema
    ]
    names = [column.name for column in fields]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise SpecificationError(
            explain_refusal(
                f"the result would have more than one column named {', '.join(map(repr, repeated))}",
                "names that stay different after left_ and right_ are put before those that occur on both sides",
                "rename the columns before the join",
            )
        )
    return pa.schema(fields)


def gather_pairs(probing: KeyedBatch, matches: list[Match], schema: pa.Schema) -> pa.Table:
    """Gather the columns of the pairs that a batch found."""
    who = np.concatenate([match.who for match in matches])
    new = _gathered([probing.rows], [who])
    old = _gathered([match.stored for match in matches], [match.row for match in matches])
    left, right = (new, old) if probing.side == "left" else (old, new)
    return pa.Table.from_arrays([*left, *right], schema=schema)


def _gathered(stored: list[pa.RecordBatch], rows: list[Int32s]) -> list[pa.Array | pa.ChunkedArray]:
    """Return every column of some rows of each batch: plain columns in one piece, others in one per batch."""
    ends = np.cumsum([len(row) for row in rows]).tolist()
    borders = list(pairwise([0, *ends]))
    places = [row.astype(np.int64) for row in rows]
    gathered = []
    for number, column in enumerate(stored[0].schema):
        parts = [batch.column(number) for batch in stored]
        if is_plain(column.type) and not any(part.null_count for part in parts):
            words = np.empty(ends[-1], word_type(column.type))
            for part, place, (begin, end) in zip(parts, places, borders, strict=True):
                words_of(part).take(place, out=words[begin:end], mode="clip")  # "raise" would copy once more
            gathered.append(from_words(column.type, words))
        else:
            taken = [part.take(pa.array(row)) for part, row in zip(parts, rows, strict=True)]
            gathered.append(pa.chunked_array(taken, column.type))
    return gathered
