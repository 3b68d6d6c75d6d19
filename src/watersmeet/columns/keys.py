"""Turns values into int64 keys, and a probing row's key into the ranges of keys that it matches on the other side.

Design. An :class:`~watersmeet.spec.normal.Axis` means that ``left - right`` lies in a set of intervals. Both sides
become int64 keys of one domain, so a probing row looks for one closed range of keys per interval. All structures and
kernels deal with int64 only.

Invariant: the ranges contain the key of every row that satisfies the axis. For exact domains they contain no other key.
For all others (float arithmetic, hashes, text prefixes, numbers beyond 64 bits, nulls that match) they are widened, and
the caller verifies the candidates with the predicate itself.

Only timestamps of streams with different units may not fit: those beyond 64 bits of the finer unit all have the last
key of their end. Where an axis allows a difference of zero, its ranges still contain all they should, because no two
keys lie further apart than their values. Whoever takes keys as exact asks :func:`have_ends` before, which costs nothing
where extents are known, and lets :func:`meet_exactly` decide.
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

from watersmeet.arrays import Bools, Bytes, Float64s, Int32s, Int64s, Objects, UInt64s
from watersmeet.columns.values import evaluate
from watersmeet.columns.vectors import Vector, to_float
from watersmeet.kernels import keys as kernels
from watersmeet.kernels import text
from watersmeet.kernels.team import ALONE
from watersmeet.spec.expression import Column, StreamName
from watersmeet.spec.intervals import Bound, IntervalSet
from watersmeet.spec.normal import Axis, KeyDomain
from watersmeet.spec.typing import Schemas

__all__ = [
    "Borders",
    "KeyRange",
    "Shift",
    "axis_keys",
    "axis_valid",
    "combine_keys",
    "exact_keys",
    "have_ends",
    "key_ranges",
    "meet_exactly",
    "reach_of",
    "row_ranges",
    "shifts",
    "spread_borders",
    "text_buffers",
]

Borders = tuple[str, ...]
"""Sorted texts that divide the texts of an axis for their keys. Each byte is the character of that number."""

INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1
MASK: Final = 2**64 - 1
LARGEST: Final = np.finfo(np.float64).max
NULL_KEYS: Final[dict[str, np.int64]] = {"left": np.int64(0x3A5D3B1F9E6C7254), "right": np.int64(0x46C1F00D5E2B8A93)}
"""The keys of rows without a value: unlikely numbers that are finite as floats."""
INT64: Final = pa.int64()
UNIT_SCALES: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}
SLACK: Final = 8
"""Units in the last place by which float bounds are widened. There are fewer roundings, and each is at most one
unit."""


Shift = tuple[int, bool, int, bool]
"""From a row's key plus the first number, if there is such a bound, to the key plus the second one, likewise."""


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The closed range of stored keys that each probing row looks for. A range with ``lo > hi`` is empty."""

    lo: Int64s
    hi: Int64s
    empty: int


def axis_values(axis: Axis, side: StreamName, rows: pa.RecordBatch, schemas: Schemas) -> Vector:
    """Return the values of one side of ``axis`` for ``rows``."""
    return evaluate(axis.of(side), lambda column: rows.column(column.name), schemas)


def axis_valid(axis: Axis, side: StreamName, rows: pa.RecordBatch, schemas: Schemas) -> Bools | None:
    """Return which rows have a value on ``axis``, or None if all have. A row without one matches nothing."""
    expression = axis.of(side)
    if isinstance(expression, Column):  # no need to look at its values; a dictionary may hold a null, though
        column = rows.column(expression.name)
        if not isinstance(column, pa.DictionaryArray):
            return column.is_valid().to_numpy(zero_copy_only=False) if column.null_count else None
    valid = axis_values(axis, side, rows, schemas).valid
    return None if valid is None else np.broadcast_to(valid, (rows.num_rows,))


def axis_keys(axis: Axis, side: StreamName, rows: pa.RecordBatch, schemas: Schemas, borders: Borders = ()) -> Int64s:
    """Return the keys of one side of ``axis``: a view of the column if that contains them already.

    The keys of a ``text`` axis depend on ``borders``. With any borders they keep the order of the texts, so borders
    change the number of candidates, never the pairs. Keys can be compared only if they have the same borders.
    """
    domain, expression = axis.domain, axis.of(side)
    if domain.kind == "integer" and isinstance(expression, Column):
        column = rows.column(expression.name)
        if not (domain.nulls and column.null_count) and _is_key(column.type, domain.scale):
            _, data = column.buffers()
            if data is not None:
                return np.frombuffer(data, np.int64, len(column), 8 * column.offset)
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


def _is_key(kind: pa.DataType, scale: int) -> bool:
    """Tell whether a column's words are its keys at a scale."""
    return (kind == INT64 and scale == 0) or (pa.types.is_timestamp(kind) and UNIT_SCALES[kind.unit] == scale)


def null_key(domain: KeyDomain, side: StreamName) -> np.int64:
    """Return the key of a row without a value: the same for both sides if nulls meet."""
    return NULL_KEYS["left" if domain.nulls == "meet" else side]


def spread_borders(texts: pa.Array, most: int) -> Borders:
    """Return at most ``most`` of the texts, evenly spread in their order."""
    known = texts.drop_null().unique()
    known = known.take(pc.sort_indices(known))
    chosen = known.take(pa.array(np.unique(np.linspace(0, max(len(known) - 1, 0), min(most, len(known))).astype(int))))
    return tuple(text.decode("latin-1") for text in chosen.to_pylist())


def combine_keys(keys: Sequence[Int64s]) -> Int64s:
    """Return one key for several equalities: the key itself if there is one, otherwise a hash of all."""
    combined = keys[0]
    for key in keys[1:]:
        combined = text.mix_hashes(combined, key)
    return combined


def key_ranges(
    axis: Axis, side: StreamName, keys: Int64s, equality: Int64s | None = None, team: int = ALONE
) -> list[KeyRange]:
    """Return the ranges of stored keys that rows of ``side`` with these ``keys`` look for, one per interval.

    The ranges of a row are disjoint. ``keys`` are sorted, and so are both ends of the ranges; with ``equality`` both
    are sorted among rows of one equality.
    """
    return _ranges(axis, side, keys, lambda lo, hi: kernels.make_monotone(equality, lo, hi), team)


def row_ranges(axis: Axis, side: StreamName, keys: Int64s) -> list[KeyRange]:
    """Return the ranges for keys in any order; a row's ranges follow from its key alone.

    They lie within the ranges that :func:`key_ranges` returns for the row among sorted keys.
    """
    return _ranges(axis, side, keys, lambda _lo, _hi: None, ALONE)


def shifts(axis: Axis, side: StreamName) -> list[Shift] | None:
    """Return how far the ranges of an axis lie from the keys of rows of ``side``; None if that depends on the keys."""
    return None if axis.domain.kind == "double_offset" else _moves(axis.differences, side)


@lru_cache(maxsize=256)
def _moves(differences: IntervalSet, side: StreamName) -> list[Shift]:
    parts = (_stored_minus_probing(low, high, side) for low, high in differences.parts)
    return [(int(low or 0), low is not None, int(high or 0), high is not None) for low, high in parts]


def reach_of(key: int, shift: Shift) -> tuple[int, int]:
    """Return the range that a row with a key looks for, as :func:`row_ranges` does; an empty one has ``lo > hi``."""
    low, has_low, high, has_high = shift
    if (has_low and key + low > INT64_MAX) or (has_high and key + high < INT64_MIN):
        return INT64_MAX, INT64_MIN
    return max(key + low, INT64_MIN) if has_low else INT64_MIN, min(key + high, INT64_MAX) if has_high else INT64_MAX


def _ranges(
    axis: Axis, side: StreamName, keys: Int64s, put_in_order: Callable[[Int64s, Int64s], None], team: int
) -> list[KeyRange]:
    moves = shifts(axis, side)
    if moves is None:
        parts = [_stored_minus_probing(low, high, side) for low, high in axis.differences.parts]
        return _float_ranges(parts, keys, put_in_order)
    return [KeyRange(*kernels.shift_ranges(team, kernels.shift_stretch(), keys, *move)) for move in moves]


def _stored_minus_probing(low: Bound, high: Bound, side: StreamName) -> tuple[Bound, Bound]:
    """Turn bounds on ``left - right`` into bounds on ``stored - probing``."""
    if side == "right":
        return low, high
    return (None if high is None else -high), (None if low is None else -low)


def _float_ranges(
    parts: list[tuple[Bound, Bound]], keys: Int64s, put_in_order: Callable[[Int64s, Int64s], None]
) -> list[KeyRange]:
    """Return ranges with bounds in floating point, widened, and cut so that those of a row are disjoint."""
    values = _unordered(keys)
    ranges: list[KeyRange] = []
    previous: Int64s | None = None
    for low, high in sorted(parts, key=lambda part: (part[0] is not None, part[0] or 0)):
        lo = np.full(len(keys), INT64_MIN) if low is None else _float_bound(values, low, -1)
        hi = np.full(len(keys), INT64_MAX) if high is None else _float_bound(values, high, +1)
        put_in_order(lo, hi)  # rounding may have swapped neighbours
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
    # An infinite value plus anything stays infinite; only towards the other infinity the slack reaches finite numbers.
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
    offsets, data = text_buffers(vector.data)
    return text.hash_strings(offsets, data) if domain.kind == "hash" else text.prefix_strings(offsets, data)


def _scaled_integers(vector: Vector, scale: int) -> Int64s:
    """Return the integers at ``scale``; rows with null may have any.

    The plan has made sure that they fit, except for timestamps of streams with different units. A timestamp that does
    not fit into 64 bits in the finer unit (1677 to 2262 for nanoseconds) becomes the first or the last integer.
    """
    data = np.asarray(vector.data)
    if data.dtype == bool:
        return data.astype(np.int64)
    factor = 10 ** (scale - vector.type.scale)
    if data.dtype == object:
        return np.asarray(np.clip(data * factor, INT64_MIN, INT64_MAX), np.int64)
    if factor == 1:
        return np.asarray(data, np.int64)
    data, largest = np.asarray(data, np.int64), INT64_MAX // factor
    keys = data * np.int64(factor)
    if data.size and (int(data.min()) < -largest or int(data.max()) > largest):
        return np.where(data > largest, INT64_MAX, np.where(data < -largest, INT64_MIN, keys))
    return keys


def have_ends(low: int, high: int) -> bool:
    """Tell whether keys from ``low`` to ``high`` may be those of timestamps that do not fit."""
    return low == INT64_MIN or high == INT64_MAX


def exact_keys(axis: Axis, side: StreamName, column: pa.Array, schemas: Schemas) -> Objects:
    """Return the integers of one side of an axis on columns themselves, of any size; rows with null may have any."""
    vector = evaluate(axis.of(side), lambda _: column, schemas)
    return np.asarray(np.asarray(vector.data, object) * 10 ** (axis.domain.scale - vector.type.scale), object)


def meet_exactly(axis: Axis, left: pa.Array, right: pa.Array, schemas: Schemas) -> Bools:
    """Return which rows, side by side, satisfy an axis on columns themselves, by the columns' values."""
    apart = exact_keys(axis, "left", left, schemas) - exact_keys(axis, "right", right, schemas)
    met = np.zeros(len(apart), bool)
    for low, high in axis.differences.parts:
        met |= ((low is None) | (apart >= (low or 0))).astype(bool) & ((high is None) | (apart <= (high or 0))).astype(
            bool
        )
    return met


def _wrapped(vector: Vector, domain: KeyDomain) -> Int64s:
    """Return the integers at the domain's scale modulo 2^64; rows with null may have any."""
    data, factor = np.atleast_1d(vector.data), 10 ** (domain.scale - vector.type.scale)
    if data.dtype == object:
        return _of_words((data * factor & MASK).astype(np.uint64), 1, domain)
    return _of_words(data.astype(np.int64).view(np.uint64), factor, domain)


def _low_words(column: pa.Array, domain: KeyDomain) -> Int64s | None:
    """Return what :func:`_wrapped` does if the low 64 bits can be read from the column's buffer, otherwise None."""
    kind = column.type
    if kind == pa.uint64():
        scale, step = 0, 1
    elif pa.types.is_decimal128(kind) or pa.types.is_decimal256(kind):
        scale, step = kind.scale, kind.byte_width // 8
    else:
        return None
    data = column.buffers()[1]
    if data is None:  # Arrow may omit the values if all are null
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
    return text.rank_strings(*text_buffers(texts), offset, data, shared, len(borders).bit_length())


@lru_cache(maxsize=64)
def _border_arrays(borders: Borders) -> tuple[Int64s, Bytes, Int64s]:
    """Return borders as a kernel takes them, and how many first bytes are shared by what lies between two of them.

    Below the first and above the last border it is the number that all borders share, so growing texts stay distinct.
    """
    texts = [border.encode("latin-1") for border in borders]
    outside = _shared_bytes(texts[0], texts[-1])
    shared = np.array([outside, *(_shared_bytes(*pair) for pair in pairwise(texts)), outside], np.int64)
    offset = np.concatenate(([0], np.cumsum([len(each) for each in texts]))).astype(np.int64)
    return offset, np.frombuffer(b"".join(texts), np.uint8), shared


def _shared_bytes(a: bytes, b: bytes) -> int:
    """Return the length of the common prefix of two texts."""
    return next((at for at, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def text_buffers(array: pa.Array) -> tuple[Int32s | Int64s, Bytes]:
    """Return the offsets and bytes of text in any Arrow layout."""
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
