"""Values to int64 keys, and a probing row's keys to the ranges it looks for on the other side.

Design. An :class:`~watersmeet.spec.normal.Axis` says that ``left - right`` lies in a set of intervals. Both sides
become int64 keys of one domain, so a row that probes looks for one closed key range per interval, and every structure
and kernel downstream knows int64 only.

Invariant: the ranges contain the key of every row that satisfies the axis. For exact domains they contain no other;
for the rest (float arithmetic, hashes, text prefixes, numbers beyond 64 bits, nulls that match) they are widened, and
the caller verifies the candidates with the predicate itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from watersmeet.arrays import Bools, Bytes, Float64s, Int32s, Int64s, UInt64s
from watersmeet.columns.values import evaluate
from watersmeet.columns.vectors import Vector, to_float
from watersmeet.kernels import keys as kernels
from watersmeet.kernels import text
from watersmeet.spec.expression import Column, Side
from watersmeet.spec.intervals import Bound
from watersmeet.spec.normal import Axis, KeyDomain
from watersmeet.spec.typing import Schemas

__all__ = ["Borders", "KeyRange", "axis_keys", "axis_valid", "group_keys", "key_ranges", "row_ranges", "spread_borders"]

Borders = tuple[str, ...]
"""Sorted texts by which keys of text are cut: each byte is written as the character of that number."""

INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1
MASK: Final = 2**64 - 1
LARGEST: Final = np.finfo(np.float64).max
NULL_KEYS: Final[dict[str, np.int64]] = {"left": np.int64(0x3A5D3B1F9E6C7254), "right": np.int64(0x46C1F00D5E2B8A93)}
"""The keys of rows without a value: no numbers that are likely, finite as floats."""
SLACK: Final = 8
"""Units in the last place by which float bounds are widened: each of the few roundings costs at most one."""


@dataclass(frozen=True, slots=True)
class KeyRange:
    """For every probing row the closed range of stored keys it looks for; ``lo > hi`` is an empty range."""

    lo: Int64s
    hi: Int64s
    empty: int


def axis_values(axis: Axis, side: Side, rows: pa.RecordBatch, schemas: Schemas) -> Vector:
    """Return the values of one side of ``axis`` for some rows."""
    return evaluate(axis.of(side), lambda column: rows.column(column.name), schemas)


def axis_valid(axis: Axis, side: Side, rows: pa.RecordBatch, schemas: Schemas) -> Bools | None:
    """Return which rows have a value on ``axis``; None when all have. A row without one matches nothing."""
    expression = axis.of(side)
    if isinstance(expression, Column):  # no need to look at its values; a dictionary may hold a null, though
        column = rows.column(expression.name)
        if column.null_count == 0 and not isinstance(column, pa.DictionaryArray):
            return None
    valid = axis_values(axis, side, rows, schemas).valid
    return None if valid is None else np.broadcast_to(valid, (rows.num_rows,))


def axis_keys(axis: Axis, side: Side, rows: pa.RecordBatch, schemas: Schemas, borders: Borders = ()) -> Int64s:
    """Return the keys of one side of ``axis``; a view of the column where that already holds them.

    ``borders`` cut the keys of a ``text`` axis: they keep the order of the texts with any borders, so these decide how
    many candidates there are, never which pairs. Keys that are compared are cut by the same ones.
    """
    domain, expression = axis.domain, axis.of(side)
    if domain.kind in ("unsigned", "wrapped") and isinstance(expression, Column):
        column = rows.column(expression.name)
        words = _low_words(column, domain)
        if words is not None:
            with_nulls = domain.nulls and column.null_count
            return np.where(column.is_valid(), words, null_key(domain, side)) if with_nulls else words
    vector = axis_values(axis, side, rows, schemas)
    keys = _normalise(vector, domain) if domain.kind != "text" or not borders else _ranks(vector.data, borders)
    if domain.nulls and vector.valid is not None:
        keys = np.where(vector.valid, keys, null_key(domain, side))
    return np.ascontiguousarray(np.broadcast_to(keys, (rows.num_rows,)))


def null_key(domain: KeyDomain, side: Side) -> np.int64:
    """Return the key of a row without a value: one for both sides where nulls meet."""
    return NULL_KEYS["left" if domain.nulls == "meet" else side]


def spread_borders(texts: pa.Array, most: int) -> Borders:
    """Return at most so many of some texts, evenly spread in their order."""
    known = texts.drop_null().unique()
    known = known.take(pc.sort_indices(known))
    chosen = known.take(pa.array(np.unique(np.linspace(0, max(len(known) - 1, 0), min(most, len(known))).astype(int))))
    return tuple(text.decode("latin-1") for text in chosen.to_pylist())


def group_keys(keys: Sequence[Int64s]) -> Int64s:
    """Return one key for several equalities: the key itself when there is one, a hash of all otherwise."""
    combined = keys[0]
    for key in keys[1:]:
        combined = text.mix_hashes(combined, key)
    return combined


def key_ranges(axis: Axis, side: Side, keys: Int64s, group: Int64s | None = None) -> list[KeyRange]:
    """Return the ranges of stored keys that rows of ``side`` with these ``keys`` look for, one per interval.

    Ranges of one row are disjoint. ``keys`` are sorted (within each ``group``), and so are both ends of the ranges.
    """
    return _ranges(axis, side, keys, lambda lo, hi: kernels.make_monotone(group, lo, hi))


def row_ranges(axis: Axis, side: Side, keys: Int64s) -> list[KeyRange]:
    """Return what :func:`key_ranges` does for keys in any order; a row's ranges follow from its key alone.

    They lie within those that the row has among sorted ones.
    """
    return _ranges(axis, side, keys, lambda _lo, _hi: None)


def _ranges(axis: Axis, side: Side, keys: Int64s, put_in_order: Callable[[Int64s, Int64s], None]) -> list[KeyRange]:
    parts = [_stored_minus_probing(low, high, side) for low, high in axis.differences.parts]
    if axis.domain.kind == "double_offset":
        return _float_ranges(parts, keys, put_in_order)
    return [_shifted(keys, low, high) for low, high in parts]


def _stored_minus_probing(low: Bound, high: Bound, side: Side) -> tuple[Bound, Bound]:
    """Turn bounds on ``left - right`` into bounds on ``stored - probing``."""
    if side == "right":
        return low, high
    return (None if high is None else -high), (None if low is None else -low)


def _shifted(keys: Int64s, low: Bound, high: Bound) -> KeyRange:
    lo, hi = np.empty(len(keys), np.int64), np.empty(len(keys), np.int64)
    empty = kernels.shift_ranges(keys, int(low or 0), low is not None, int(high or 0), high is not None, lo, hi)
    return KeyRange(lo, hi, empty)


def _float_ranges(
    parts: list[tuple[Bound, Bound]], keys: Int64s, put_in_order: Callable[[Int64s, Int64s], None]
) -> list[KeyRange]:
    """Bounds in floating point, widened; ranges of one row are cut so that they stay disjoint."""
    values = _unordered(keys)
    ranges: list[KeyRange] = []
    previous: Int64s | None = None
    for low, high in sorted(parts, key=lambda part: (part[0] is not None, part[0] or 0)):
        lo = np.full(len(keys), INT64_MIN) if low is None else _float_bound(values, low, -1)
        hi = np.full(len(keys), INT64_MAX) if high is None else _float_bound(values, high, +1)
        put_in_order(lo, hi)  # rounding may have moved neighbours past each other
        if previous is not None:
            lo = np.maximum(lo, np.where(previous == INT64_MAX, INT64_MAX, previous + 1))
        previous = hi if previous is None else np.maximum(hi, previous)
        ranges.append(KeyRange(lo, hi, int(np.count_nonzero(lo > hi))))
    return ranges


def _float_bound(values: Float64s, offset: Fraction, direction: int) -> Int64s:
    """Return the keys of ``values + offset``, moved outwards by the slack."""
    shift = float(offset)
    finite = np.clip(values, -LARGEST, LARGEST)  # keeps NaN
    with np.errstate(all="ignore"):
        # Halved and doubled: the spacing of the largest float would be infinite.
        slack = 2 * SLACK * np.spacing(np.maximum(np.abs(finite), abs(shift)) / 2)
        bound = np.clip(finite + shift, -LARGEST, LARGEST) + direction * slack
    # An infinite value plus anything is itself; only towards the other infinity does the widening reach finite numbers.
    bound = np.where(values == direction * np.inf, values, bound)
    return kernels.order_bits(bound.view(np.int64))


def _unordered(keys: Int64s) -> Float64s:
    """Undo ``order_bits``."""
    return (keys ^ ((keys >> 63) & INT64_MAX)).view(np.float64)


def _normalise(vector: Vector, domain: KeyDomain) -> Int64s:
    match domain.kind:
        case "integer":
            return _scaled_integers(vector, domain.scale)
        case "unsigned" | "wrapped":
            return _wrapped(vector, domain)
        case "double_order" | "double_offset":
            return kernels.order_bits(np.atleast_1d(to_float(vector)).view(np.int64))
    offsets, data = _text_buffers(vector.data)
    return text.hash_strings(offsets, data) if domain.kind == "hash" else text.prefix_strings(offsets, data)


def _scaled_integers(vector: Vector, scale: int) -> Int64s:
    """Return the integers at ``scale``; null rows may hold anything.

    The planner has made sure that they fit, but for timestamps of streams that measure in different units: one beyond
    what 64 bits hold in the finer unit (1677 to 2262 for nanoseconds) stops at that end instead of wrapping around.
    """
    data = np.asarray(vector.data)
    if data.dtype == bool:
        return data.astype(np.int64)
    factor = 10 ** (scale - vector.type.scale)
    if data.dtype == object:
        return np.asarray(np.clip(data * factor, INT64_MIN, INT64_MAX), np.int64)
    if factor == 1:
        return np.asarray(data, np.int64)
    largest = INT64_MAX // factor
    return np.clip(np.asarray(data, np.int64), -largest, largest) * np.int64(factor)


def _wrapped(vector: Vector, domain: KeyDomain) -> Int64s:
    """Return the integers at the domain's scale modulo 2^64; null rows may hold anything."""
    data, factor = np.atleast_1d(vector.data), 10 ** (domain.scale - vector.type.scale)
    if data.dtype == object:
        return _of_words((data * factor & MASK).astype(np.uint64), 1, domain)
    return _of_words(data.astype(np.int64).view(np.uint64), factor, domain)


def _low_words(column: pa.Array, domain: KeyDomain) -> Int64s | None:
    """Return what :func:`_wrapped` does for a column whose lowest 64 bits lie there to be read; else None."""
    kind = column.type
    if kind == pa.uint64():
        scale, step = 0, 1
    elif pa.types.is_decimal128(kind) or pa.types.is_decimal256(kind):
        scale, step = kind.scale, kind.byte_width // 8
    else:
        return None
    data = column.buffers()[1]
    if data is None:  # Arrow may leave the values out where all are null
        return np.zeros(len(column), np.int64)
    words = np.frombuffer(data, np.uint64, count=step * (column.offset + len(column)))[step * column.offset :: step]
    return _of_words(words, 10 ** (domain.scale - scale), domain)


def _of_words(words: UInt64s, factor: int, domain: KeyDomain) -> Int64s:
    keys = words if factor == 1 else words * np.uint64(factor & MASK)
    if domain.kind == "unsigned":
        keys = keys ^ np.uint64(1 << 63)
    return np.ascontiguousarray(keys).view(np.int64)


def _ranks(texts: pa.Array, borders: Borders) -> Int64s:
    offset, data, shared = _border_arrays(borders)
    return text.rank_strings(*_text_buffers(texts), offset, data, shared, len(borders).bit_length())


@lru_cache(maxsize=64)
def _border_arrays(borders: Borders) -> tuple[Int64s, Bytes, Int64s]:
    """Return borders as a kernel takes them, and how many first bytes are shared by what lies between two of them.

    Below the first and above the last border that is what all borders share: texts that grow stay apart.
    """
    texts = [border.encode("latin-1") for border in borders]
    outside = _shared_bytes(texts[0], texts[-1])
    shared = np.array([outside, *(_shared_bytes(*pair) for pair in pairwise(texts)), outside], np.int64)
    offset = np.concatenate(([0], np.cumsum([len(each) for each in texts]))).astype(np.int64)
    return offset, np.frombuffer(b"".join(texts), np.uint8), shared


def _shared_bytes(a: bytes, b: bytes) -> int:
    """Return how many first bytes two texts have in common."""
    return next((at for at, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _text_buffers(array: pa.Array) -> tuple[Int32s | Int64s, Bytes]:
    """Return the offsets and bytes of text, whatever its Arrow layout."""
    if not (pa.types.is_string(array.type) or pa.types.is_binary(array.type)):
        array = array.cast(pa.large_binary())
    _, offsets, data = array.buffers()
    if offsets is None or len(array) == 0:
        return np.zeros(len(array) + 1, np.int32), np.zeros(0, np.uint8)
    part = slice(array.offset, array.offset + len(array) + 1)
    positions: Int32s | Int64s = (
        np.frombuffer(offsets, np.int64)[part]
        if pa.types.is_large_binary(array.type)
        else np.frombuffer(offsets, np.int32)[part]
    )
    return positions, np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
