"""The digest by which state format 3 knew its join: that of the Python text of the objects that described the join.

The text is written here field by field, as it was then. So a checkpoint of that format still finds its join, although
classes and fields have been renamed since.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from watersmeet.spec.expression import Predicate, StreamName
from watersmeet.spec.window import CountWindow, CountWindows, TimeWindow, Window, Windows

__all__ = ["EARLIER_FORMAT", "earlier_digest", "text_of"]

EARLIER_FORMAT: Final = 3


def earlier_digest(
    predicate: Predicate,
    window: Window | Windows,
    schemas: Mapping[StreamName, pa.Schema],
    routing: str,
    core_ids: tuple[int, ...],
) -> str:
    """Return the digest of a join; ``routing`` is the text of the object that describes it."""
    columns = {stream: [(field.name, str(field.type)) for field in schema] for stream, schema in schemas.items()}
    text = f"({str(predicate)!r}, {_window(window)}, {columns!r}, {routing}, {core_ids!r})"
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def text_of(name: str, **values: object) -> str:
    """Return the text of an object of class ``name`` with these fields."""
    return f"{name}({', '.join(f'{field}={value!r}' for field, value in values.items())})"


def _window(window: Window | Windows) -> str:
    match window:
        case TimeWindow():
            return text_of(
                "TimeWindow",
                left=window.left,
                right=window.right,
                left_ts=window.left_ts,
                right_ts=window.right_ts,
                lateness=window.lateness,
            )
        case CountWindow():
            return text_of("CountWindow", left=window.left, right=window.right, order_by=window.order_by)
        case CountWindows():
            return text_of("CountWindows", counts=window.counts, order_by=window.order_by)
    return text_of("TimeWindows", lengths=window.lengths, ts=window.ts, lateness=window.lateness)
