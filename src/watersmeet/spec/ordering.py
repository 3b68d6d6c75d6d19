"""In which order pairs are returned, and how precisely: SplitJoin's definitions 1 and 2, and what lies between them.

Pairs are ordered by the arrival of their later row, the one that found the other (*outer* order), and those of one row
by the arrival of the row that was found (*inner* order). Either may be relaxed: see :func:`relaxed`. Later rows are
counted over both streams together, rows that were found over their own; rows left out (late, null) do not count.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from watersmeet.spec.errors import SpecificationError

__all__ = ["STRICT", "Order", "Relaxed", "order_from_json", "order_to_json", "precision_of", "relaxed"]


@dataclass(frozen=True, slots=True)
class Relaxed:
    """How precisely pairs are ordered; build one with :func:`relaxed`."""

    rows: int = 1
    comparisons: int | None = None

    def __str__(self) -> str:
        inner = "" if self.comparisons is None else f"; those of one row to within {self.comparisons:,} of the others"
        return f"pairs in the order in which their later rows arrived, to within {self.rows:,} rows{inner}"


Order = Literal["outer", "inner"] | Relaxed
STRICT: Final[dict[str, Relaxed]] = {"outer": Relaxed(), "inner": Relaxed(1, 1)}


def relaxed(rows: int = 1, comparisons: int | None = None) -> Relaxed:
    """Return an order that is precise only to so many rows.

    Of two pairs whose later rows arrived at least ``rows`` apart, that of the earlier one comes first. With
    ``comparisons``, of two pairs that one row found, that whose other row arrived first comes first if those arrived at
    least ``comparisons`` rows of their stream apart. So ``relaxed()`` is ``"outer"``, and ``relaxed(comparisons=1)`` is
    ``"inner"``; the larger the numbers, the less is there to be sorted, and the later is a pair released. Rows that
    take no part, as late ones do not, are not counted, nor after a restore those that were not held then.

    Examples
    --------
    >>> import watersmeet as wm
    >>> print(wm.relaxed(rows=100))
    pairs in the order in which their later rows arrived, to within 100 rows
    """
    _check("rows", rows)
    if comparisons is not None:
        _check("comparisons", comparisons)
    return Relaxed(rows, comparisons)


def _check(name: str, number: object) -> None:
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        raise SpecificationError(f"relaxed({name}={number!r})", "a whole number of at least 1", f"leave {name} out")


def precision_of(order: Order) -> Relaxed:
    """Return how precise an order is."""
    return order if isinstance(order, Relaxed) else STRICT[order]


def order_to_json(order: Order | None) -> str | dict[str, Any] | None:
    """Return an order as it is saved."""
    return asdict(order) if isinstance(order, Relaxed) else order


def order_from_json(given: Any) -> Any:  # noqa: ANN401 -- what is no order is refused where a join is made of it
    """Return the order that was saved."""
    return relaxed(**given) if isinstance(given, dict) else given
