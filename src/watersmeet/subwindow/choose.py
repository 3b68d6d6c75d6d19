"""Decides how a subwindow is indexed: in which order and by which structure. No other module decides this.

Order. Each axis of the join (equalities, bands, comparisons, the time window) lets through a fraction of the stored
rows as candidates. The fractions are measured on samples of both streams. Equalities and one other axis together form
the order ``(equality, axis)``, if the structure supports it; then both reduce the candidates. The order with the
smallest product of fractions wins. The time window competes like any other axis: it wins if it is short compared with
the time that a subwindow spans.

Structure, for ``"auto"``. PanJoin's rule (section V-A4): BI-Sort if batches or selectivity are large; otherwise
WiB+-Tree if keys drift, which RaP-Table's splitters cannot follow; otherwise RaP-Table. Only BI-Sort sorts by two keys.

Whether keys drift is guessed when a subwindow begins, from those of the subwindow before. A wrong guess is found out:
a RaP-Table whose rows gather in few partitions gives way to a WiB+-Tree with the same rows (:func:`follow_keys`), once,
and so does its successor from the start. The one after that tries a RaP-Table again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

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
    "Drift",
    "IndexOrder",
    "choose",
    "create",
    "follow_keys",
    "order_fraction",
]

Drift = Literal["growing", "falling", "changing"]
"""How keys move from subwindow to subwindow: up, down, or in a way that RaP-Table's splitters could not follow."""

STRUCTURES: Final[dict[StructureName, type[Subwindow]]] = {
    "scan": Scan,
    "hash": Hash,
    "rap_table": RapTable,
    "wib_tree": WibTree,
    "bi_sort": BiSort,
}
LARGE_BATCH: Final = 64
"""Rows per batch from which BI-Sort is the best choice: the first size at which whole pushes are as fast with it as
with the best other structure (0.97 to 1.15 times: the more, the larger the window and the more matches). With 128 rows
it is ahead by 2 to 15 %, with 1,024 by 20 to 50 %; with 8 it is 7 to 14 % behind, since it then has many arrays, and
each costs a call. The paper's border is 64K rows, where a batch is merged into the one main array."""
LARGE_SELECTIVITY: Final = 64
"""Matches per probing row from which it is the best choice for smaller batches too: as fast with 8 rows, ahead by 9 %
with 32. With 16 matches it is 8 and 2 % behind. The paper's border is 1K. Measured by the experiment ``choosing``."""
UNSEEN: Final = 4e-6
"""A fraction this small means that no sampled pair matched: nothing shows that a further key would help."""


@dataclass(frozen=True, slots=True)
class IndexOrder:
    """The order of a subwindow's keys: by the equality axes ``equalities``, then by the axis ``key`` (numbers of axes).

    With an empty ``equalities`` the order is ``key`` alone. Without ``key`` it is the equalities alone, or none at all.
    """

    equalities: tuple[int, ...] = ()
    key: int | None = None
    borders: tuple[str, ...] = ()
    """The borders of the keys of texts (see :func:`watersmeet.columns.keys.axis_keys`)."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The structure and order that were chosen, and the reason in words."""

    structure: StructureName
    order: IndexOrder
    reason: str
    asked_for: bool = False
    """Whether the structure was asked for: then it stays, whatever the keys do."""
    outgrown: bool = False
    """Whether it took the place of a RaP-Table that its keys have outgrown."""

    @property
    def wanted(self) -> Structure:
        """The structure that was asked for, or ``"auto"``."""
        return self.structure if self.asked_for else "auto"


def create(choice: Choice, capacity: int, predecessor: Subwindow | None) -> Subwindow:
    """Return an empty subwindow; it can learn from a ``predecessor`` of the same structure."""
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
    drift: Drift | None,
) -> Choice:
    """Decide how the next subwindow is indexed.

    Parameters
    ----------
    axes
        The axes to choose from, by their numbers; ``time`` is the number of the time window's.
    fractions
        For each axis the fraction of stored rows that a probing row meets on it, as measured.
    batch_rows, window_rows
        Rows of the current batch, and rows that the window is expected to hold.
    drift
        How keys have moved since the previous subwindow began; None if they have not.
    """
    equalities = tuple(number for number, axis in axes.items() if axis.is_equality)
    ranges = tuple(number for number, axis in axes.items() if not axis.is_equality)
    asked = None if wanted == "auto" else STRUCTURES[wanted]
    two_keys = asked is None or asked.sorts_by_two_keys
    equality_only = asked is not None and asked.equality_only
    order = _best_order(equalities, ranges, fractions, two_keys=two_keys, equality_only=equality_only)
    because = _order_reason(order, axes, time, fractions)
    if wanted != "auto":
        return Choice(wanted, order, f"{because}; structure {wanted} was asked for", asked_for=True)
    matches = window_rows * order_fraction(order, fractions)
    if len(order.equalities) and order.key is not None:
        return Choice("bi_sort", order, f"{because}; bi_sort because it alone sorts by two keys")
    if batch_rows >= LARGE_BATCH:
        return Choice("bi_sort", order, f"{because}; bi_sort because batches are large ({batch_rows:,} rows)")
    if matches >= LARGE_SELECTIVITY:
        return Choice("bi_sort", order, f"{because}; bi_sort because a row meets many ({matches:,.0f} candidates)")
    small = f"batches are small ({batch_rows:,} rows)"
    if drift is not None:
        return Choice("wib_tree", order, f"{because}; wib_tree because {small} and keys keep {drift}")
    return Choice("rap_table", order, f"{because}; rap_table because {small} and keys do not drift")


def follow_keys(choice: Choice, index: Subwindow) -> tuple[Choice, Subwindow]:
    """Return a WiB+-Tree with the same rows in place of a RaP-Table that its keys have outgrown, else what is given.

    A sort of the rows, once in the life of a subwindow; all later probes are spared a scan of its fullest partition.
    """
    if choice.asked_for or not isinstance(index, RapTable) or not index.outgrown:
        return choice, index
    held = index.snapshot()
    tree = WibTree(len(held))
    tree.insert(held)
    reason = f"{choice.reason}; then wib_tree because they gathered in few of its partitions after all"
    return replace(choice, structure="wib_tree", reason=reason, outgrown=True), tree


def _best_order(
    equalities: tuple[int, ...],
    ranges: tuple[int, ...],
    fractions: Mapping[int, float],
    *,
    two_keys: bool,
    equality_only: bool,
) -> IndexOrder:
    """Return the order that leaves the fewest candidates."""
    candidates = [IndexOrder(equalities)] if equalities else []
    if not (equality_only and equalities):
        candidates += [IndexOrder((), number) for number in ranges]
        if two_keys and equalities:
            candidates += [IndexOrder(equalities, number) for number in ranges]
    # Of equal products the first wins: a second key that excludes nothing only costs memory.
    return min(candidates, key=lambda order: max(UNSEEN, order_fraction(order, fractions)), default=IndexOrder())


def order_fraction(order: IndexOrder, fractions: Mapping[int, float]) -> float:
    """Return the fraction of the stored rows that an order lets through, if its axes are independent."""
    product = 1.0
    for number in (*order.equalities, *(() if order.key is None else (order.key,))):
        product *= fractions[number]
    return product


def _order_reason(order: IndexOrder, axes: Mapping[int, Axis], time: int | None, fractions: Mapping[int, float]) -> str:
    chosen = (*order.equalities, *(() if order.key is None else (order.key,)))
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
