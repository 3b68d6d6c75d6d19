"""Six of Nexmark's queries, each as its join and what comes after it: text that says the same to whoever joins.

``select`` and ``per_auction`` are Spark SQL over the columns of both sides, and ``on`` over ``left`` and ``right``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, Literal

__all__ = ["COLUMNS", "MOMENTS", "QUERIES", "Kind", "Query", "Side"]

Kind = Literal["person", "auction", "bid", "highest"]
COLUMNS: Final[dict[Kind, tuple[str, ...]]] = {
    "person": ("person", "name", "city", "state", "p_ts"),
    "auction": ("id", "seller", "category", "initial_bid", "expires", "a_ts"),
    "bid": ("auction", "bidder", "price", "b_ts"),
    "highest": ("highest", "until"),
}
"""As queries call them: no name occurs on both sides."""
MOMENTS: Final[dict[Kind, str]] = {kind: columns[-1] for kind, columns in COLUMNS.items()}
TEN_SECONDS: Final = timedelta(seconds=10)
AT_ONCE: Final = timedelta(0)


@dataclass(frozen=True)
class Side:
    """A stream of events of one kind, or of the highest price of every ten seconds."""

    kind: Kind
    where: str = "true"
    more: dict[str, str] = field(default_factory=dict)
    """Further columns, computed."""


@dataclass(frozen=True)
class Query:
    """A left row comes at most ``left_stays`` before the right one that it meets, that at most ``right_stays``."""

    about: str
    nexmark: str
    """The benchmark's query."""
    left: Side
    right: Side
    on: str
    left_stays: timedelta = TEN_SECONDS
    right_stays: timedelta = AT_ONCE
    select: tuple[str, ...] = ("*",)
    per_auction: str = ""
    """What is kept of the pairs of each auction, if they are aggregated."""

    @property
    def reads(self) -> frozenset[Kind]:
        """The streams that it joins."""
        return frozenset(side.kind for side in (self.left, self.right))


QUERIES: Final[dict[str, Query]] = {
    "q3": Query(
        "who sells in a category, in three states",
        "SELECT P.name, P.city, P.state, A.id FROM auction A JOIN person P ON A.seller = P.id"
        " WHERE A.category = 10 AND P.state IN ('OR', 'ID', 'CA')",
        Side("person", "state IN ('OR', 'ID', 'CA')"),
        Side("auction", "category = 10"),
        "left.person = right.seller",
        select=("name", "city", "state", "id"),
    ),
    "q4": Query(
        "the price an auction ends with",
        "SELECT category, AVG(final) FROM (SELECT A.category, MAX(B.price) AS final FROM auction A JOIN bid B"
        " ON A.id = B.auction AND B.ts BETWEEN A.ts AND A.expires GROUP BY A.id, A.category) GROUP BY category",
        Side("auction"),
        Side("bid"),
        "left.id = right.auction AND right.b_ts <= left.expires",
        per_auction="max(price)",
    ),
    "q7": Query(
        "the highest bids of every ten seconds",
        "SELECT B.* FROM bid B JOIN (SELECT MAX(price) AS highest, first, last FROM ten seconds of bid) M"
        " ON B.price = M.highest AND B.ts BETWEEN M.first AND M.last",
        Side("bid"),
        Side("highest"),
        "left.price = right.highest",
        select=("auction", "bidder", "price", "b_ts"),
    ),
    "q8": Query(
        "who sells in the ten seconds in which they register",
        "SELECT P.id, P.name, P.first FROM ten seconds of person P JOIN ten seconds of auction A"
        " ON P.id = A.seller AND P.first = A.first AND P.last = A.last",
        Side("person", more={"p_window": "unix_micros(p_ts) DIV 10000000"}),
        Side("auction", more={"a_window": "unix_micros(a_ts) DIV 10000000"}),
        "left.person = right.seller AND left.p_window = right.a_window",
        right_stays=TEN_SECONDS,
        select=("person", "name", "p_window", "id"),
    ),
    "q9": Query(
        "the bid that wins an auction",
        "SELECT * FROM (SELECT A.*, B.*, ROW_NUMBER() OVER (PARTITION BY A.id ORDER BY B.price DESC, B.ts) AS place"
        " FROM auction A JOIN bid B ON A.id = B.auction AND B.ts BETWEEN A.ts AND A.expires) WHERE place = 1",
        Side("auction"),
        Side("bid"),
        "left.id = right.auction AND right.b_ts <= left.expires",
        per_auction="max(struct(price, -unix_micros(b_ts) AS earliest, bidder, seller, initial_bid))",
    ),
    "q20": Query(
        "bids with their auctions, of one category",
        "SELECT B.*, A.* FROM bid B JOIN auction A ON B.auction = A.id WHERE A.category = 10",
        Side("auction", "category = 10"),
        Side("bid"),
        "left.id = right.auction",
    ),
}
