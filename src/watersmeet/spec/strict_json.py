"""JSON that is read strictly: bytes that this package has not written are refused.

Every object has exactly its entries and every value exactly its type. Repeated keys, numbers that are not finite and
nesting that is too deep are refused as well. All refusals are :class:`~watersmeet.spec.errors.SpecificationError`.
"""

from __future__ import annotations

import json
import math
import reprlib
from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from typing import Any, Final, NoReturn, TypeVar

from watersmeet.spec.errors import SpecificationError

__all__ = [
    "MICROSECOND",
    "Json",
    "by_stream",
    "canonical",
    "check_entries",
    "one_of",
    "read_duration",
    "read_json",
    "read_text",
    "refusal",
    "shortened",
    "whole_number",
]

Json = Any
"""What :mod:`json` writes and reads."""
T = TypeVar("T")

MICROSECOND: Final = timedelta(microseconds=1)


def canonical(content: Json) -> str:
    """Return JSON as text that is equal for equal content: sorted keys, no blanks, ASCII only."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)


def read_json(text: bytes | str) -> Json:
    """Parse JSON; raise if a key is repeated, a number is not finite, or the nesting is too deep."""
    try:
        return json.loads(text, object_pairs_hook=_without_repeats, parse_constant=_refuse_number, parse_float=_finite)
    except RecursionError:
        raise refusal("JSON that is nested too deeply", "JSON as it was written") from None
    except ValueError as error:
        raise refusal(f"text that is no JSON ({error})", "JSON as it was written") from error


def check_entries(content: Json, keys: Collection[str]) -> None:
    """Raise unless ``content`` is an object with exactly the entries ``keys``."""
    if not isinstance(content, dict) or set(content) != set(keys):
        given = ", ".join(content) if isinstance(content, dict) else shortened(content)
        raise refusal(f"{given or '(nothing)'} where entries belong", ", ".join(keys))


def one_of(allowed: tuple[T, ...], given: Json) -> T:
    """Return the allowed value that equals ``given``; raise if there is none."""
    """Return the allowed value that equals ``given``; raise if there is none."""
    for one in allowed:
        if isinstance(given, str) and one == given:
            return one
    raise refusal(f"{shortened(given)}", ", ".join(map(str, allowed)))


def whole_number(given: Json) -> int:
    """Return ``given``; raise unless it is a whole number."""
    if isinstance(given, bool) or not isinstance(given, int):
        raise refusal(f"{shortened(given)}", "a whole number")
    return given


def read_text(given: Json) -> str:
    """Return ``given``; raise unless it is text."""
    """Return ``given``; raise unless it is text."""
    if not isinstance(given, str):
        raise refusal(f"{shortened(given)}", "text")
    return given


def read_duration(given: Json) -> timedelta:
    """Return a duration that is given in microseconds."""
    """Return a duration that is given in microseconds."""
    try:
        return whole_number(given) * MICROSECOND
    except OverflowError:
        raise refusal(f"{shortened(given)} microseconds", "a duration as it was written") from None


def by_stream(given: Json, read: Callable[[Json], T]) -> Mapping[str, T]:
    """Read an object that has one value for each stream; raise if it is empty."""
    """Read an object that has one value for each stream; raise if it is empty."""
    if not isinstance(given, dict) or not given:
        raise refusal(f"{shortened(given)}", "an entry for every stream")
    return {stream: read(value) for stream, value in given.items()}


def _without_repeats(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    content = dict(pairs)
    if len(content) < len(pairs):
        message = "a key is repeated"
        raise ValueError(message)
    return content


def _refuse_number(text: str) -> NoReturn:
    message = f"{text} is no number"
    raise ValueError(message)


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse_number(text)


def shortened(content: object) -> str:
    """Return a value as text that is short enough for an error."""
    """Return a value as text that is short enough for an error."""
    return reprlib.repr(content)


def refusal(given: str, allowed: str) -> SpecificationError:
    """Return the error for JSON that no saved join has."""
    """Return the error for JSON that no saved join has."""
    return SpecificationError(f"a saved join has {given}", allowed, "restore what was saved, unchanged")
