"""What the demonstration shows: a live line, the first pairs, and whether the proof agrees."""

from __future__ import annotations

import sys
import time
from datetime import datetime
from typing import Final

import pyarrow as pa

__all__ = ["SHOWN", "LiveLine", "judge", "show_pairs", "status"]

SHOWN: Final = 8
LIVE_SECONDS: Final = 0.1
PLAIN_LINES: Final = 5


class LiveLine:
    """One line that is written over and over on a terminal; elsewhere a few plain lines, spread over all batches."""

    def __init__(self, batches: int) -> None:
        self._batches = batches
        self._live = sys.stdout.isatty()
        self._shown = 0.0

    def show(self, number: int, text: str) -> None:
        """Say how it goes after batch ``number``, the first being 1."""
        if not self._live:
            if number * PLAIN_LINES // self._batches != (number - 1) * PLAIN_LINES // self._batches:
                print(text, flush=True)
        elif time.perf_counter() - self._shown >= LIVE_SECONDS or number == self._batches:
            self._shown = time.perf_counter()
            print(f"\r\x1b[2K{text}", end="", flush=True)

    def end(self) -> None:
        """Leave the line."""
        if self._live:
            print()


def status(rows: float, pairs: float, window_rows: int, watermark: datetime | None) -> str:
    """Return the live line; ``rows`` and ``pairs`` are per second."""
    return (
        f"{rows / 1e6:6.2f} M rows/s  {pairs / 1e6:6.2f} M pairs/s  window {window_rows:>9,} rows  "
        f"watermark {'-' if watermark is None else f'{watermark:%H:%M:%S.%f}'[:-3]}"
    )


def show_pairs(first: pa.Table, pairs: int) -> None:
    """Print the first pairs as a table."""
    rows = [
        (
            pair["left_symbol"],
            f"{pair['left_ts']:%H:%M:%S.%f}",
            f"{pair['price'] / 10_000:.4f}",
            f"{pair['right_ts']:%H:%M:%S.%f}",
            f"{pair['bid'] / 10_000:.4f}",
        )
        for pair in first.to_pylist()
    ]
    columns = ("symbol", "trade at", "price", "quote at", "bid")
    widths = [max(map(len, cells)) for cells in zip(columns, *rows, strict=True)]
    print(f"\nthe first {len(rows)} of {pairs:,} pairs")
    for line in (columns, tuple("-" * width for width in widths), *rows):
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def judge(how: str, expected: int, pairs: int, seconds: float) -> int:
    """Say whether another way to count found as many pairs; return the exit code."""
    if expected == pairs:
        print(f"proof: {how}, counts {expected:,} pairs too ({seconds:.1f} s)")
        return 0
    print(f"THE COUNTS DIFFER: {how}, counts {expected:,} pairs, the join gave {pairs:,}", file=sys.stderr)
    return 1
