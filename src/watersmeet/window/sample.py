"""Samples of streams: how selective an axis is on them, and by which borders texts are best cut."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import pyarrow as pa

from watersmeet.columns.keys import Borders, axis_keys, axis_values, key_ranges, spread_borders
from watersmeet.spec.expression import Side
from watersmeet.spec.normal import Axis
from watersmeet.spec.typing import Schemas
from watersmeet.window.plan import OTHER_SIDE

__all__ = ["choose_borders", "key_fractions", "sample_rows"]

SAMPLE: Final = 512
MOST_BORDERS: Final = 63
"""They take six bits of a key, and six comparisons with borders of every text."""
TEXTS_PER_KEY: Final = 2
"""Borders serve while sampled texts have, on average, no more than so many to a key."""


def sample_rows(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return at most ``SAMPLE`` rows, evenly spread."""
    if rows.num_rows <= SAMPLE:
        return rows
    return rows.take(pa.array(np.linspace(0, rows.num_rows - 1, SAMPLE).astype(np.int64)))


def key_fractions(
    axis: Axis,
    side: Side,
    own: pa.RecordBatch,
    opposite: pa.RecordBatch | None,
    schemas: Schemas,
    *,
    borders: Borders = (),
) -> float:
    """Return the fraction of sampled pairs that lie in the axis' ranges.

    While nothing is known of the opposite stream its keys are taken to be distributed like the own ones.
    """
    stored = np.sort(axis_keys(axis, side, own, schemas, borders))
    probing = stored if opposite is None else np.sort(axis_keys(axis, OTHER_SIDE[side], opposite, schemas, borders))
    found = 0
    for wanted in key_ranges(axis, OTHER_SIDE[side], probing):
        first, last = np.searchsorted(stored, wanted.lo, "left"), np.searchsorted(stored, wanted.hi, "right")
        found += int(np.maximum(last - first, 0).sum())
    if opposite is None and axis.is_equality:
        found -= len(stored)  # a row's equality with itself says nothing
    pairs = max(1, len(stored) * len(probing))
    return (found + 0.5) / (pairs + 1)


def choose_borders(
    axes: Iterable[Axis],
    side: Side,
    own: pa.RecordBatch,
    opposite: pa.RecordBatch | None,
    schemas: Schemas,
    *,
    used: Iterable[Borders],
) -> Borders:
    """Return by which borders the texts of a new segment are cut: none, those in use, or new ones.

    Without any the key of a text is its first eight bytes, which are the same in all texts that begin alike. Borders in
    use are kept while they tell texts apart, since a batch is sorted anew for every other set of them.
    """
    sides = {side: own} if opposite is None else {side: own, OTHER_SIDE[side]: opposite}
    sampled = [(axis, of, rows) for axis in axes if axis.domain.kind == "text" for of, rows in sides.items()]
    if not sampled:
        return ()
    texts = pa.chunked_array(
        [axis_values(axis, of, rows, schemas).data.cast(pa.large_binary()) for axis, of, rows in sampled]
    ).combine_chunks()
    distinct = len(texts.unique())
    for borders in dict.fromkeys(((), *used)):
        keys = np.concatenate([axis_keys(axis, of, rows, schemas, borders) for axis, of, rows in sampled])
        if TEXTS_PER_KEY * len(np.unique(keys)) >= distinct:
            return borders
    return spread_borders(texts, MOST_BORDERS)
