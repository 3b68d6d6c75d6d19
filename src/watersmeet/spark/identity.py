"""The identity of a join: the parts that its checkpoint depends on, as named and versioned data.

Every manifest has them in a readable form, with their digest. Equal digests are equal joins. Otherwise the parts are
compared one by one, and an error names those that differ, what they were and what they are. The kind of the join
(``how``) is one of them. All other options may change from one start to the next: ``MAY_CHANGE`` names them. Columns
that no condition reads may be added: rows that were stored before have null in them (see :mod:`watersmeet.spark.runs`).

The parts are written in the saved form (:mod:`watersmeet.spec.saved_form`), never as the text of an object, so code may
be renamed.
``VERSION`` is raised when a join that could be saved before gets another part, or a part another meaning. ``how`` is a
part only of joins that are not inner, which no checkpoint had before, so it left the number as it was.

State of an earlier format had only a digest (see :mod:`watersmeet.spark.earlier`); the first micro-batch that reads it
writes the parts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Any, Final

import pyarrow as pa

from watersmeet.engine.multiway.plan import MultiPlan
from watersmeet.spark.earlier import EARLIER_FORMAT, earlier_digest
from watersmeet.spark.routing.contract import Routing
from watersmeet.spec.durations import format_duration
from watersmeet.spec.errors import SnapshotError, WatersmeetError
from watersmeet.spec.expression import Predicate, StreamName
from watersmeet.spec.kinds import How
from watersmeet.spec.saved_form import predicate_from_json, predicate_to_json, schema_to_json, window_to_json
from watersmeet.spec.strict_json import canonical
from watersmeet.spec.window import Window, Windows
from watersmeet.window.plan import JoinPlan
from watersmeet.window.streams import Streams

__all__ = ["FORMAT", "Identity", "identity_of", "join_identity"]

Json = Any

FORMAT: Final = 4
"""The number of the state's format, which is that of manifests and runs."""
VERSION: Final = 1
PREDICATE: Final = "predicate"
COLUMNS: Final = "columns"
DIGEST_BYTES: Final = 16
WINDOW: Final = "window"
KIND: Final = "how"
"""It is a part only of joins that are not inner, so that inner joins are what they always were."""
MAY_CHANGE: Final = (
    "lateness, idle, structure, late, balance, order, name and the session's spark.watersmeet.… may change, and "
    "columns may be added"
)


@dataclass(frozen=True)
class Identity:
    """The parts of a join that its checkpoint depends on."""

    parts: dict[str, Json]
    earlier: str
    """The digest by which state of an earlier format knows this join."""

    @cached_property
    def digest(self) -> str:
        """The digest of the parts, which is equal for equal joins."""
        return hashlib.blake2b(canonical(self.parts).encode(), digest_size=DIGEST_BYTES).hexdigest()

    @cached_property
    def lasting(self) -> str:
        """The digest of the parts that stay the same as long as the checkpoint does: columns may be added."""
        parts = {name: part for name, part in self.parts.items() if name not in ("version", COLUMNS)}
        return hashlib.blake2b(canonical(parts).encode(), digest_size=DIGEST_BYTES).hexdigest()

    def check(self, saved: Mapping[str, Json]) -> None:
        """Raise unless a saved manifest is this join's."""
        found = saved.get("format")
        if found == EARLIER_FORMAT:
            if saved["join"] != self.earlier:
                raise SnapshotError(
                    "the checkpoint holds the state of another join, by all that can be told: it was written in "
                    f"state format {EARLIER_FORMAT}, which keeps a digest of its join and nothing else",
                    "the predicate, window, lateness, columns, routing, cores and shuffle partitions it was begun with",
                    f"restart once with these (then {MAY_CHANGE}), or give the query a new checkpoint location",
                )
            return
        if found != FORMAT:
            raise SnapshotError(
                f"the checkpoint has state format {found}",
                f"{EARLIER_FORMAT} or {FORMAT}, which this version reads",
                "go on with the watersmeet that wrote it; CHANGELOG.md says which releases changed the format",
            )
        if saved["join"] == self.digest:
            return
        differences = list(_differences(saved["identity"], self.parts))
        if differences:
            raise SnapshotError(
                f"the checkpoint holds the state of another join: {'; '.join(differences)}",
                f"what it was begun with; only {MAY_CHANGE}",
                "restart with what was, or give the query a new checkpoint location",
            )


def identity_of(
    predicate: Predicate,
    window: Window | Windows,
    schemas: Mapping[StreamName, pa.Schema],
    routing: Json,
    *,
    cores: int,
    partitions: int,
    earlier: str,
    how: How = "inner",
) -> Identity:
    """Return the identity of a join; ``routing`` has the values of a row that decide which cores it goes to.

    State of an earlier format is of an inner join.
    """
    kind = {} if how == "inner" else {KIND: how}
    return Identity(
        {
            "version": VERSION,
            PREDICATE: predicate_to_json(predicate),
            WINDOW: {name: value for name, value in window_to_json(window).items() if name not in ("lateness", "idle")},
            COLUMNS: {
                stream: {name: kind for name, kind, _ in schema_to_json(schema)} for stream, schema in schemas.items()
            },
            "routing": routing,
            "cores": cores,
            "shuffle partitions": partitions,
            **kind,
        },
        "" if kind else earlier,
    )


def join_identity(
    plan: JoinPlan | MultiPlan,
    routing: Routing[Streams],
    core_ids: tuple[int, ...],
    partitions: int,
    how: How = "inner",
) -> Identity:
    """Return what a join, of two streams or many, is to its checkpoint."""
    return identity_of(
        plan.predicate,
        plan.window,
        plan.schemas,
        routing.to_json(),
        cores=len(core_ids),
        partitions=partitions,
        earlier=earlier_digest(plan.predicate, plan.window, plan.schemas, routing.earlier_text(), core_ids),
        how=how,
    )


def _differences(was: Mapping[str, Json], now: Mapping[str, Json]) -> Iterator[str]:
    """Yield the differences that are not allowed, part by part; new columns are allowed."""
    for part in {**was, **now}:
        if part == COLUMNS:
            for stream in {**was[part], **now[part]}:
                before, after = was[part].get(stream, {}), now[part].get(stream, {})
                kept = {name: after[name] for name in before if name in after}
                yield from _unequal(f"columns of {stream}", before, kept)
        elif part == PREDICATE:
            streams = tuple(now[COLUMNS])
            if was.get(part) != now[part]:
                yield f"predicate: was {_text(was.get(part), streams)}, is {_text(now[part], streams)}"
        elif part == WINDOW:
            yield from _unequal(part, _with_units(was.get(part)), _with_units(now.get(part)))
        elif part == KIND:
            yield from _unequal(part, was.get(part, "inner"), now.get(part, "inner"))
        else:
            yield from _unequal(part, was.get(part), now.get(part))


def _unequal(name: str, was: Json, now: Json) -> Iterator[str]:
    """Yield the entries in which two values differ."""
    if isinstance(was, dict) and isinstance(now, dict):
        for entry in {**was, **now}:
            yield from _unequal(f"{name}, {entry}", was.get(entry), now.get(entry))
    elif was != now:
        yield f"{name}: was {_readable(was)}, is {_readable(now)}"


def _with_units(window: Json) -> Json:
    """Return the saved form of a window with its durations, which are in microseconds, as text."""
    if not isinstance(window, dict) or window.get("kind") != "time":
        return window

    def text(value: Json) -> Json:
        return format_duration(timedelta(microseconds=value)) if type(value) is int and 0 <= value < 2**63 else value

    return {
        name: {stream: text(own) for stream, own in value.items()} if isinstance(value, dict) else text(value)
        for name, value in window.items()
    }


def _readable(value: Json) -> str:
    return "not there" if value is None else value if isinstance(value, str) else canonical(value)


def _text(predicate: Json, streams: tuple[StreamName, ...]) -> str:
    try:
        return str(predicate_from_json(predicate, streams))
    except WatersmeetError:  # of other streams, or as a later version writes it
        return canonical(predicate)
