"""A service that joins in its own process: two threads push rows, snapshots are written, a crash loses nothing.

Each source keeps the rows that came after the last snapshot, as a log such as Kafka does. After a crash the service
restores the snapshot and pushes these rows again; whoever gets the pairs bears those that come twice.

Run it: python examples/in_process_service.py
"""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path

import pyarrow as pa

import watersmeet as wm

TRADES = pa.schema([("ts", pa.timestamp("ms")), ("id", pa.int64()), ("price", pa.int64())])
QUOTES = pa.schema([("ts", pa.timestamp("ms")), ("id", pa.int64()), ("bid", pa.int64())])
SECONDS = 60
SAVED_AT = 30


class Service:
    """Joins trades with quotes at most 2 apart in price and one second in time."""

    def __init__(self, saved: Path) -> None:
        self._saved = saved
        self.found: set[tuple[int, int]] = set()  # a set: a pair that comes twice counts once
        if saved.exists():
            self._join = wm.StreamJoin.restore(saved.read_bytes())
        else:
            window = wm.time_window("1 second", ts="ts", lateness="1 minute")  # neither source waits for the other
            self._join = wm.StreamJoin(left=TRADES, right=QUOTES, on=wm.band("price", "bid", 2), window=window)

    def trades(self, rows: pa.Table) -> None:
        """Take trades, in any thread."""
        self._take(self._join.push(left=rows))

    def quotes(self, rows: pa.Table) -> None:
        """Take quotes, in any thread."""
        self._take(self._join.push(right=rows))

    def save(self) -> None:
        """Write a snapshot, which replaces the last one as a whole."""
        draft = self._saved.with_suffix(".new")
        draft.write_bytes(self._join.snapshot())
        draft.replace(self._saved)

    def _take(self, pairs: pa.Table) -> None:
        self.found |= set(zip(pairs["left_id"].to_pylist(), pairs["right_id"].to_pylist(), strict=True))


def trade(second: int) -> pa.Table:
    """Return the trade of a second."""
    return pa.table({"ts": [1000 * second], "id": [second], "price": [100 + second % 10]}).cast(TRADES)


def quote(second: int) -> pa.Table:
    """Return the quote of a second, half a second behind the trade."""
    return pa.table({"ts": [1000 * second + 500], "id": [second], "bid": [100 + second % 10]}).cast(QUOTES)


def feed(service: Service, seconds: range) -> None:
    """Push both streams, each from a thread of its own."""
    threads = [
        threading.Thread(target=lambda: [service.trades(trade(second)) for second in seconds]),
        threading.Thread(target=lambda: [service.quotes(quote(second)) for second in seconds]),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def main() -> None:
    """Crash in the middle, go on, and compare with a service that did not crash."""
    with tempfile.TemporaryDirectory() as folder:
        crashed = Service(Path(folder) / "join.bin")
        feed(crashed, range(SAVED_AT))
        crashed.save()
        feed(crashed, range(SAVED_AT, 40))  # these rows are not in the snapshot

        service = Service(Path(folder) / "join.bin")  # after the crash
        feed(service, range(SAVED_AT, SECONDS))  # from the row after the snapshot on

        steady = Service(Path(folder) / "none.bin")
        feed(steady, range(SECONDS))

    found = crashed.found | service.found
    print(f"{len(found)} pairs; the same as without a crash: {found == steady.found}")


if __name__ == "__main__":
    main()
