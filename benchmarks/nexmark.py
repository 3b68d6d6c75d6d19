"""Events of an auction house, as the Nexmark benchmark has them: persons, auctions, bids, 1 to 3 to 46.

Written anew from the benchmark's description. Event number n is the (n mod 50)-th of its fifty: one person, three
auctions, 46 bids. Its time follows from its number, so times ascend. Events are made a block at a time, each block
from the seed and its number: the stream is the same however it is cut into stretches of whole blocks. Whom an event
names has come before it, and lately: a seller is one of the last 1,000 persons, a bid is for one of the last 100
auctions; three sellers in four are the last hundredth person, half of the bids are for the last hundredth auction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from watersmeet.arrays import Int64s

__all__ = ["BLOCK", "FIRST_MOMENT", "MICROSECONDS_PER_EVENT", "STEP", "Events", "events"]

STEP: Final = 50
"""Events after which the kinds repeat."""
BLOCK: Final = 10_000
PERSONS, AUCTIONS, BIDS = 1, 3, 46
MICROSECONDS_PER_EVENT: Final = 100
FIRST_MOMENT: Final = 1_700_000_000 * 10**6
ACTIVE_PERSONS: Final = 1_000
OPEN_AUCTIONS: Final = 100
HOT: Final = 100
"""Every so many-th person and auction is a hot one."""
HOT_SELLERS, HOT_AUCTIONS = 0.75, 0.5
CATEGORIES: Final = 5
FIRST_CATEGORY: Final = 10
STATES: Final = ("AZ", "CA", "ID", "OR", "WA", "WY")
CITIES: Final = ("Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent")
FIRST_NAMES: Final = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
LAST_NAMES: Final = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")


@dataclass(frozen=True)
class Events:
    """A stretch of the stream, a table for each kind of event."""

    person: pa.Table
    auction: pa.Table
    bid: pa.Table

    def highest(self, seconds: int) -> pa.Table:
        """Return the highest price of every so many seconds, and the last moment of these."""
        length = seconds * 10**6
        period = np.asarray(self.bid["ts"]).astype(np.int64) // length
        starts = np.flatnonzero(np.diff(period, prepend=-1))
        until = (period[starts] + 1) * length - 1
        price = np.maximum.reduceat(np.asarray(self.bid["price"]), starts)
        return pa.table({"price": price, "ts": pa.array(until, pa.timestamp("us", "UTC"))})


def events(first: int, count: int, *, seed: int) -> Events:
    """Return ``count`` events from number ``first`` on; both are whole blocks."""
    assert first % BLOCK == count % BLOCK == 0, "events are made a block at a time"
    blocks = [_block(number, seed) for number in range(first // BLOCK, (first + count) // BLOCK)]
    return Events(*(pa.concat_tables(tables) for tables in zip(*blocks, strict=True)))


def _block(number: int, seed: int) -> tuple[pa.Table, pa.Table, pa.Table]:
    rng = np.random.default_rng((seed, number))
    steps = np.arange(number * BLOCK // STEP, (number + 1) * BLOCK // STEP)
    return _persons(rng, steps), _auctions(rng, steps), _bids(rng, steps)


def _moments(number: Int64s) -> pa.Array:
    return pa.array(FIRST_MOMENT + number * MICROSECONDS_PER_EVENT, pa.timestamp("us", "UTC"))


def _numbers(steps: Int64s, first: int, count: int) -> Int64s:
    """Return the numbers of those events of each fifty that are of one kind."""
    return (steps[:, None] * STEP + np.arange(first, first + count)).ravel()


def _one_of(rng: np.random.Generator, words: tuple[str, ...], n: int) -> pa.Array:
    return pa.array(words).take(pa.array(rng.integers(0, len(words), n)))


def _persons(rng: np.random.Generator, steps: Int64s) -> pa.Table:
    n = len(steps)
    names = pc.binary_join_element_wise(_one_of(rng, FIRST_NAMES, n), _one_of(rng, LAST_NAMES, n), " ")
    return pa.table(
        {
            "id": steps,
            "name": names,
            "city": _one_of(rng, CITIES, n),
            "state": _one_of(rng, STATES, n),
            "ts": _moments(_numbers(steps, 0, PERSONS)),
        }
    )


def _lately(rng: np.random.Generator, latest: Int64s, span: int, hot: float) -> Int64s:
    """Return for each one of the last ``span`` up to ``latest``, or the last hot one."""
    some = np.maximum(latest - rng.integers(0, span, len(latest)), 0)
    return np.where(rng.random(len(latest)) < hot, latest // HOT * HOT, some)


def _auctions(rng: np.random.Generator, steps: Int64s) -> pa.Table:
    numbers = _numbers(steps, PERSONS, AUCTIONS)
    n = len(numbers)
    # As long as it takes until about as many others have been opened as are open at a time.
    longest = 2 * OPEN_AUCTIONS * STEP // AUCTIONS * MICROSECONDS_PER_EVENT
    expires = FIRST_MOMENT + numbers * MICROSECONDS_PER_EVENT + rng.integers(1, longest, n)
    return pa.table(
        {
            "id": AUCTIONS * np.repeat(steps, AUCTIONS) + np.tile(np.arange(AUCTIONS), len(steps)),
            "seller": _lately(rng, np.repeat(steps, AUCTIONS), ACTIVE_PERSONS, HOT_SELLERS),
            "category": FIRST_CATEGORY + rng.integers(0, CATEGORIES, n),
            "initial_bid": _prices(rng, n),
            "expires": pa.array(expires, pa.timestamp("us", "UTC")),
            "ts": _moments(numbers),
        }
    )


def _bids(rng: np.random.Generator, steps: Int64s) -> pa.Table:
    numbers = _numbers(steps, PERSONS + AUCTIONS, BIDS)
    each = np.repeat(steps, BIDS)
    return pa.table(
        {
            "auction": _lately(rng, AUCTIONS * each + AUCTIONS - 1, OPEN_AUCTIONS, HOT_AUCTIONS),
            "bidder": _lately(rng, each, ACTIVE_PERSONS, HOT_SELLERS),
            "price": _prices(rng, len(numbers)),
            "ts": _moments(numbers),
        }
    )


def _prices(rng: np.random.Generator, n: int) -> Int64s:
    """Return prices from 1 to a million dollars, in cents: as many of each order of magnitude."""
    return (100 * 10 ** (6 * rng.random(n))).astype(np.int64)
