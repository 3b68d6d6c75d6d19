"""Samples of streams: they show how selective an axis is, and which borders suit the texts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
import pyarrow as pa

from watersmeet.columns.keys import Borders, axis_keys, axis_values, key_ranges, spread_borders
from watersmeet.spec.expression import StreamName
from watersmeet.spec.normal import Axis
from watersmeet.spec.typing import Schemas
from watersmeet.window.plan import OTHER_SIDE

__all__ = ["choose_borders", "key_fractions", "sample_rows"]

SAMPLE: Final = 512
MOST_BORDERS: Final = 63
"""They take six bits of a key, and every text is compared with six borders."""
TEXTS_PER_KEY: Final = 2
"""Borders are good enough if there are, on average, at most this many different sampled texts for each key."""


def sample_rows(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return at most ``SAMPLE`` rows, evenly spread."""
    if rows.num_rows <= SAMPLE:
        return rows
    return rows.take(pa.array(np.linspace(0, rows.num_rows - 1, SAMPLE).astype(np.int64)))


def key_fractions(
    axis: Axis,
    side: StreamName,
    own: pa.RecordBatch,
    opposite: pa.RecordBatch | None,
    schemas: Schemas,
    *,
    borders: Borders = (),
) -> float:
    """Return the fraction of sampled pairs that lie in the axis' ranges.

    While there are no rows of the opposite stream, its keys are taken to be distributed like this stream's.
    """
    stored = np.sort(axis_keys(axis, side, own, schemas, borders))
    probing = stored if opposite is None else np.sort(axis_keys(axis, OTHER_SIDE[side], opposite, schemas, borders))
    found = 0
    for wanted in key_ranges(axis, OTHER_SIDE[side], probing):
        first, last = np.searchsorted(stored, wanted.lo, "left"), np.searchsorted(stored, wanted.hi, "right")
        found += int(np.maximum(last - first, 0).sum())
    if opposite is None and axis.is_equality:
        found -= len(stored)  # that a row equals itself says nothing
    pairs = max(1, len(stored) * len(probing))
    return (found + 0.5) / (pairs + 1)


def choose_borders(
    axes: Iterable[Axis],
    side: StreamName,
    own: pa.RecordBatch,
    opposite: pa.RecordBatch | None,
    schemas: Schemas,
    *,
    used: Iterable[Borders],
) -> Borders:
    """Return the borders for the texts of a new segment: none, those in use, or new ones.

    Without borders the key of a text is its first eight bytes, which are the same for all texts that begin alike.
    Borders in use are kept while they tell texts apart, because a batch must be sorted again for every other set of
    borders.
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
