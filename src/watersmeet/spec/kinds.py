"""The kinds of joins that ``how=`` names: whose rows are kept though they meet nobody, and what comes of those that do.

A *preserved* side's rows come out even if they match no row: with nulls in place of the other side, once, and when no
row to come can meet them. ``semi`` and ``anti`` return left rows alone: those that match, or those that do not.
"""

from __future__ import annotations

from typing import Final, Literal

from watersmeet.spec.expression import StreamName

__all__ = ["How", "gives_pairs", "may_be_null", "preserved", "returns_left_rows", "watched"]

How = Literal["inner", "left", "right", "full", "semi", "anti"]

PRESERVED: Final[dict[str, tuple[StreamName, ...]]] = {
    "inner": (),
    "left": ("left",),
    "right": ("right",),
    "full": ("left", "right"),
    "semi": (),
    "anti": ("left",),
}


def preserved(how: How) -> tuple[StreamName, ...]:
    """Return the sides whose unmatched rows come out."""
    return PRESERVED[how]


def watched(how: How) -> tuple[StreamName, ...]:
    """Return the sides of whose rows it has to be known whether they have met another."""
    return ("left",) if how == "semi" else PRESERVED[how]


def gives_pairs(how: How) -> bool:
    """Tell whether pairs come out."""
    return how not in ("semi", "anti")


def returns_left_rows(how: How) -> bool:
    """Tell whether results are left rows alone, without columns of the right side."""
    return how in ("semi", "anti")


def may_be_null(how: How, side: StreamName) -> bool:
    """Tell whether all columns of a side may be null in a result, because the other side is preserved."""
    return gives_pairs(how) and any(other != side for other in preserved(how))
