"""Count windows: the order in which rows of both streams arrive (see :func:`watersmeet.count_window`)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from watersmeet.columns.keys import axis_keys, axis_valid
from watersmeet.spec.expression import Side
from watersmeet.window.batch import Arrival
from watersmeet.window.plan import OTHER_SIDE, JoinPlan

__all__ = ["number_arrivals"]

BEFORE_ALL = -1


def number_arrivals(
    plan: JoinPlan, rows: Mapping[Side, pa.RecordBatch], first: Mapping[Side, int]
) -> dict[Side, Arrival]:
    """Give the rows of a push their numbers: by ``order_by``, left before right, then as given.

    ``first`` tells how many rows of each stream came before this push.
    """
    count = {side: batch.num_rows for side, batch in rows.items()}
    axis = plan.arrival
    if axis is None:
        left_seen, right_seen = first["right"], first["left"] + count["left"]
        return {
            "left": Arrival(first["left"] + np.arange(count["left"]), np.full(count["left"], left_seen)),
            "right": Arrival(first["right"] + np.arange(count["right"]), np.full(count["right"], right_seen)),
        }
    moments = {side: axis_keys(axis, side, batch, plan.schemas) for side, batch in rows.items()}
    valid = {side: axis_valid(axis, side, batch, plan.schemas) for side, batch in rows.items()}
    if any(known is not None for known in valid.values()):  # ranks leave room for nulls before the smallest int64
        distinct = np.unique(np.concatenate([moments["left"], moments["right"]]))
        for side, known in valid.items():
            rank = np.searchsorted(distinct, moments[side])
            moments[side] = rank if known is None else np.where(known, rank, BEFORE_ALL)
    arrivals = {}
    for side, own in moments.items():
        other = np.sort(moments[OTHER_SIDE[side]])
        sequence = np.empty(len(own), np.int64)
        sequence[np.argsort(own, kind="stable")] = first[side] + np.arange(len(own))
        # A left row has seen the right rows strictly before it; a right row also the left rows of the same moment.
        earlier = np.searchsorted(other, own, "left" if side == "left" else "right")
        arrivals[side] = Arrival(sequence, first[OTHER_SIDE[side]] + earlier)
    return arrivals
