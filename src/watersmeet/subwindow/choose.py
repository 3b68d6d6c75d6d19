"""The only place that decides how a subwindow is indexed: in which order, and by which structure.

Order. Each axis of the join (equalities, bands and comparisons, the time window) would let through some fraction of
the stored rows as candidates; the fractions are measured on samples of both streams. An equality together with one
other axis forms the order ``(equality, axis)``, so both narrow the range, where the structure supports it. The order
with the smallest product wins. The time window competes like any other axis: when it is short against the time a
subwindow spans, it is the best one.

Structure, for ``"auto"``. PanJoin's rule (section V-A4): BI-Sort when batches or selectivity are large; otherwise
RaP-Table, or WiB+-Tree when keys keep growing, which RaP-Table's splitters cannot follow. Only BI-Sort sorts by two
keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from watersmeet.spec.normal import Axis
from watersmeet.spec.options import Structure, StructureName
from watersmeet.subwindow.bi_sort import BiSort
from watersmeet.subwindow.contract import Subwindow
from watersmeet.subwindow.hash import Hash
from watersmeet.subwindow.rap_table import RapTable
from watersmeet.subwindow.scan import Scan
from watersmeet.subwindow.wib_tree import WibTree

__all__ = [
    "STRUCTURES",
    "Choice",
    "IndexOrder",
    "choose",
    "create",
    "order_fraction",
]

STRUCTURES: Final[dict[StructureName, type[Subwindow]]] = {
    "scan": Scan,
    "hash": Hash,
    "rap_table": RapTable,
    "wib_tree": WibTree,
    "bi_sort": BiSort,
}
LARGE_BATCH: Final = 256
"""Rows from which on inserting and probing together are fastest in BI-Sort here; inserting alone never is."""
LARGE_SELECTIVITY: Final = 64
"""Matches per probing row from which on ranges beat copying pairs."""
UNSEEN: Final = 4e-6
"""A fraction this small means that no sampled pair met: a further key could not be shown to narrow the range."""


@dataclass(frozen=True, slots=True)
class IndexOrder:
    """The order of a subwindow's keys: by the equalities ``group``, then by the axis ``key`` (numbers of axes).

    With an empty ``group`` the order is ``key`` alone; with no ``key`` it is the equalities alone, or none at all.
    """

    group: tuple[int, ...] = ()
    key: int | None = None
    borders: tuple[str, ...] = ()
    """By which the keys of texts are cut."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What was decided, and why, in words."""

    structure: StructureName
    order: IndexOrder
    reason: str


def create(choice: Choice, capacity: int, predecessor: Subwindow | None) -> Subwindow:
    """Return an empty subwindow; it may learn from a ``predecessor`` of the same structure."""
    structure = STRUCTURES[choice.structure]
    return structure(capacity, predecessor if type(predecessor) is structure else None)  # type: ignore[call-arg]


def choose(
    wanted: Structure,
    axes: Mapping[int, Axis],
    time: int | None,
    fractions: Mapping[int, float],
    *,
    batch_rows: int,
    window_rows: int,
    growing_keys: bool,
) -> Choice:
    """Decide how the next subwindow is indexed.

    Parameters
    ----------
    axes
        The axes to choose from, by their numbers; ``time`` is the number of the time window's.
    fractions
        For each axis the fraction of stored rows that a probing row meets on it, as measured.
    batch_rows, window_rows
        Rows of the present batch, and rows the window is expected to hold.
    growing_keys
        Whether new keys lie above those of the previous subwindow.
    """
    equalities = tuple(number for number, axis in axes.items() if axis.is_equality)
    ranges = tuple(number for number, axis in axes.items() if not axis.is_equality)
    asked = None if wanted == "auto" else STRUCTURES[wanted]
    grouped = asked is None or asked.supports_groups
    equality_only = asked is not None and asked.equality_only
    order = _best_order(equalities, ranges, fractions, grouped=grouped, equality_only=equality_only)
    because = _order_reason(order, axes, time, fractions)
    if wanted != "auto":
        return Choice(wanted, order, f"{because}; structure {wanted} was asked for")
    matches = window_rows * order_fraction(order, fractions)
    if len(order.group) and order.key is not None:
        return Choice("bi_sort", order, f"{because}; bi_sort because it alone sorts by two keys")
    if batch_rows >= LARGE_BATCH:
        return Choice("bi_sort", order, f"{because}; bi_sort because batches are large ({batch_rows:,} rows)")
    if matches >= LARGE_SELECTIVITY:
        return Choice("bi_sort", order, f"{because}; bi_sort because a row meets many ({matches:,.0f} candidates)")
    if growing_keys:
        return Choice(
            "wib_tree",
            order,
            f"{because}; wib_tree because batches are small ({batch_rows:,} rows) and keys keep growing",
        )
    return Choice(
        "rap_table",
        order,
        f"{because}; rap_table because batches are small ({batch_rows:,} rows) and keys do not drift",
    )


def _best_order(
    equalities: tuple[int, ...],
    ranges: tuple[int, ...],
    fractions: Mapping[int, float],
    *,
    grouped: bool,
    equality_only: bool,
) -> IndexOrder:
    """Return the order that leaves the fewest candidates."""
    candidates = [IndexOrder(equalities)] if equalities else []
    if not (equality_only and equalities):
        candidates += [IndexOrder((), number) for number in ranges]
        if grouped and equalities:
            candidates += [IndexOrder(equalities, number) for number in ranges]
    # Of equal products the earlier wins: a second key that excludes nothing only costs memory.
    return min(candidates, key=lambda order: max(UNSEEN, order_fraction(order, fractions)), default=IndexOrder())


def order_fraction(order: IndexOrder, fractions: Mapping[int, float]) -> float:
    """Return which fraction of the stored rows an order lets through, as far as its axes say."""
    product = 1.0
    for number in (*order.group, *(() if order.key is None else (order.key,))):
        product *= fractions[number]
    return product


def _order_reason(order: IndexOrder, axes: Mapping[int, Axis], time: int | None, fractions: Mapping[int, float]) -> str:
    chosen = (*order.group, *(() if order.key is None else (order.key,)))
    if not chosen:
        return "order none: the predicate bounds no pair of columns, so every row in the window is a candidate"
    words = ", ".join("time" if number == time else str(axes[number]) for number in chosen)
    others = [
        f"{'time' if number == time else axes[number]} {fractions[number]:.2g}"
        for number in axes
        if number not in chosen
    ]
    text = f"order ({words}) lets through a fraction of {order_fraction(order, fractions):.2g} of the stored rows"
    return f"{text} (alone the others would: {'; '.join(others)})" if others else text
