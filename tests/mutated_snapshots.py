"""A program that restores mutated snapshots whose digests were repaired, for a process of its own: they may end it.

``python mutated_snapshots.py SEED FIRST COUNT`` tries the mutations ``FIRST`` to ``FIRST + COUNT``, prints the number
of each before it begins, and at the end what happened as JSON. What a mutation is follows from the seed and its number.

A mutated snapshot must be refused by ``SnapshotError``, or restored as a join that could have been saved. That one then
goes on as a join of the reference (scan, one core) does with the same state, and in a time window as a new join does
that was given the same rows by a push. Where the mutation changed nothing that is read, it goes on as the original.
Everything it returns is valid Arrow data. Nothing else may be raised, and memory does not grow.
"""

from __future__ import annotations

import json
import random
import resource
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any, get_args

import numpy as np
import pyarrow as pa

import watersmeet as wm
from watersmeet.engine import sections as layout
from watersmeet.engine import snapshot
from watersmeet.engine.multiway import snapshot as multi_snapshot
from watersmeet.spec.kinds import How
from watersmeet.spec.options import StructureName, TopologyName

Join = wm.StreamJoin | wm.MultiStreamJoin
Tables = dict[str, pa.Table]
Content = list[bytes]
"""The sections of a snapshot."""

KINDS = get_args(How)
TOPOLOGIES, STRUCTURES = get_args(TopologyName), (*get_args(StructureName), "auto")
INTEGERS = (0, 1, 2, 3, 7, 8, 63, 64, 255, 2**15, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**62, 2**63 - 1, 2**64 - 1)
VALUES: tuple[Any, ...] = (
    None,
    True,
    0,
    1,
    -1,
    5,
    2**31,
    2**40,
    2**63,
    10**30,
    0.5,
    1e308,
    "",
    "x",
    "scan",
    "handshake",
    "inner",
    [],
    {},
)
NAMES = ("left", "right")
COUNTED = [wm.count_window(4), wm.count_window(left=3, right=50, order_by="ts")]
TIMED = [
    wm.time_window("10 seconds", ts="ts", lateness="2 seconds"),
    wm.time_window(left="3 seconds", right=timedelta(0), ts="ts"),
]
NESTED = pa.struct([("a", pa.string()), ("b", pa.list_(pa.int16()))])
COLUMNS: dict[str, tuple[pa.DataType, Callable[[int], Any]]] = {
    "int": (pa.int64(), lambda n: n % 4),
    "double": (pa.float64(), lambda n: n % 4 / 2),
    "decimal": (pa.decimal128(20, 3), lambda n: Decimal(n % 4)),
    "text": (pa.string(), lambda n: "abcdefghij"[: n % 4]),
    "large_text": (pa.large_string(), lambda n: "zyxwvutsrq" * (n % 3)),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), lambda n: ["a", "bb", None][n % 3]),
    "bool": (pa.bool_(), lambda n: [True, False, None][n % 3]),
    "date": (pa.date32(), lambda n: n % 4),
    "binary": (pa.binary(), lambda n: b"abc" * (n % 3)),
    "fixed": (pa.binary(5), lambda n: b"abcdefgh"[n % 2 : n % 2 + 5]),
    "list": (pa.list_(pa.string()), lambda n: [None, [], ["x", None], ["yy"] * 3][n % 4]),
    "numbers": (pa.list_(pa.int32(), 2), lambda n: [n, None]),
    "struct": (NESTED, lambda n: {"a": "s" * n, "b": [n] * (n % 3)} if n % 4 else None),
    "map": (pa.map_(pa.string(), pa.int64()), lambda n: [("k" * (n % 3), n)]),
    "words": (pa.list_(pa.dictionary(pa.int8(), pa.string())), lambda n: [["u"], ["v", "u"]][n % 2]),
    "null": (pa.null(), lambda _: None),
}
BASES: list[tuple[tuple[str, ...], str]] = [
    (("int", "text"), "left.int BETWEEN right.int - 1 AND right.int + 1"),
    (("text", "list"), "left.text = right.text"),
    (("text", "large_text", "binary"), "left.text <= right.text AND left.binary = right.binary"),
    (("dictionary", "struct"), "left.dictionary = right.dictionary OR left.dictionary < 'b'"),
    (("decimal", "map", "null"), "ABS(left.decimal - right.decimal) <= 1 AND right.decimal >= 0"),
    (("double", "bool", "numbers", "words"), "left.double >= right.double AND (left.bool = right.bool OR left.bool)"),
    (("date", "fixed"), "left.date BETWEEN right.date - INTERVAL 1 DAY AND right.date AND left.fixed = right.fixed"),
    (("int",), "left.int % 2 = right.int % 2"),
]
MULTI = "a.x = b.x AND b.y BETWEEN c.x - 1 AND c.x + 1 AND a.x + c.x < 9"


def schema_of(columns: tuple[str, ...]) -> pa.Schema:
    return pa.schema([("ts", pa.timestamp("us")), *((name, COLUMNS[name][0]) for name in columns)])


def table_of(schema: pa.Schema, first: int, count: int) -> pa.Table:
    """Return rows ``first`` to ``first + count`` of a stream, a second apart."""
    numbers = range(first, first + count)
    return pa.table(
        {
            field.name: [1_000_000 * n for n in numbers]
            if field.name == "ts"
            else [COLUMNS.get(field.name, COLUMNS["int"])[1](n) for n in numbers]
            for field in schema
        },
        schema=schema,
    )


def bases() -> list[Join]:
    """Return joins of all kinds, with rows in their windows, or without."""
    found: list[Join] = []
    window: Any
    for number, (columns, on) in enumerate(BASES):
        schema = schema_of(columns)
        for window in (TIMED[number % 2], COUNTED[number // 2 % 2]):
            topology = TOPOLOGIES[number % len(TOPOLOGIES)]
            structure = STRUCTURES[number % len(STRUCTURES)]
            how: Any = KINDS[len(found) % len(KINDS)]
            options: Any = {"topology": topology, "structure": structure, "cores": 2, "how": how}
            join = wm.StreamJoin(left=schema, right=schema, on=on, window=window, **options)
            if number:  # the first stays empty
                for push in range(3):
                    join.push(left=table_of(schema, 3 * push, 3), right=table_of(schema, 3 * push + 1, 2))
            found.append(join)
    streams = {
        "a": pa.schema([("ts", pa.timestamp("us")), ("x", pa.int64()), ("text", pa.string())]),
        "b": pa.schema([("ts", pa.timestamp("us")), ("x", pa.int64()), ("y", pa.int64())]),
        "c": pa.schema([("dictionary", COLUMNS["dictionary"][0]), ("x", pa.int64()), ("ts", pa.timestamp("us"))]),
    }
    for window in (
        wm.time_window({"a": "5 seconds", "b": "9 seconds", "c": "4 seconds"}, ts="ts", lateness="1 second"),
        wm.count_window({"a": 5, "b": 6, "c": 7}),
        wm.count_window(6, order_by="ts"),
    ):
        for strategy in ("circular", "stashed"):
            many = wm.MultiStreamJoin(streams=streams, on=MULTI, window=window, strategy=strategy)
            for push in range(3):
                many.push(**{name: table_of(schema, 3 * push, 3) for name, schema in streams.items()})
            found.append(many)
    return found


# --- mutations ------------------------------------------------------------------------------------------------------


def with_flipped_bits(content: Content, rng: random.Random) -> Content:
    number = chosen(content, rng)
    data = bytearray(content[number])
    for _ in range(rng.choice((1, 1, 2, 8))):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return replaced(content, number, bytes(data))


def with_other_bytes(content: Content, rng: random.Random) -> Content:
    number = chosen(content, rng)
    data = bytearray(content[number])
    begin = rng.randrange(len(data))
    length = rng.choice((1, 2, 4, 8, 16, 64))
    some = rng.choice((bytes(length), b"\xff" * length, rng.randbytes(length), bytes(data[:length])))
    data[begin : begin + length] = some[: len(data) - begin]
    return replaced(content, number, bytes(data))


def with_other_integer(content: Content, rng: random.Random) -> Content:
    """Change a length, an offset, an index or a key: whatever lies where an integer can."""
    number = chosen(content, rng, first=1)
    data = bytearray(content[number].ljust(8, b"\0"))
    width = rng.choice((1, 2, 4, 4, 8, 8))
    first = rng.choice((0, len(data) // 2))  # the values lie behind the schema
    place = rng.randrange(first // width, len(data) // width) * width
    old = int.from_bytes(data[place : place + width], "little")
    new = rng.choice((*INTEGERS, old + 1, old - 1, old * 2, -old, old + 8)) % (1 << 8 * width)
    data[place : place + width] = new.to_bytes(width, "little")[: len(data) - place]
    return replaced(content, number, bytes(data))


def with_other_length(content: Content, rng: random.Random) -> Content:
    number = chosen(content, rng)
    section = content[number]
    cut = rng.randrange(len(section))
    return replaced(content, number, rng.choice((section[:cut], section[cut:], section + section[:cut], b"")))


def with_other_sections(content: Content, rng: random.Random) -> Content:
    sections = list(content)
    one, two = rng.randrange(len(sections)), rng.randrange(len(sections))
    match rng.randrange(4):
        case 0:
            sections[one], sections[two] = sections[two], sections[one]
        case 1:
            del sections[one]
        case 2:
            sections.insert(one, sections[two])
        case _:
            sections[one] = rng.choice(rng.choice(ORIGINALS)[1])
    return sections


def with_other_json(content: Content, rng: random.Random) -> Content:
    description = json.loads(content[0])
    for _ in range(rng.choice((1, 1, 1, 2))):
        places: list[tuple[Any, Any]] = []
        pending = [description]
        while pending:
            node = pending.pop()
            keys = list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
            places += [(node, key) for key in keys]
            pending += [node[key] for key in keys]
        node, key = rng.choice(places)
        old = node[key]
        match rng.randrange(8):
            case 0:
                del node[key]
            case 1 if isinstance(node, dict):
                node[rng.choice(["x", "left", "cores", "form"])] = old
            case 2 | 3 if isinstance(old, int) and not isinstance(old, bool):
                node[key] = old + rng.choice((-1, 1, 10, 10**6, 10**12, -(10**12)))
            case _:
                node[key] = rng.choice(VALUES)
    return replaced(content, 0, json.dumps(description).encode())


def with_other_rows(content: Content, rng: random.Random) -> Content:
    """Change rows as Arrow writes them: valid, but perhaps none that the join could have kept."""
    number = chosen(content, rng, first=1)
    table = pa.ipc.open_stream(content[number]).read_all()
    if not table.num_columns:
        return content
    place = rng.randrange(table.num_columns)
    field, column = table.schema.field(place), table.column(place).combine_chunks()
    match rng.randrange(6):
        case 0:
            table = table.take(pa.array([rng.randrange(len(table)) for _ in range(len(table))], pa.int64()))
        case 1:
            table = table.set_column(place, field, pa.nulls(len(table), field.type))
        case 2:
            table = table.remove_column(place)
        case 3:
            table = table.rename_columns([rng.choice(["ts", "x", "\0sequence", "y"]) for _ in table.column_names])
        case 4:
            table = table.append_column(rng.choice(["ts", "z", "\0sequence"]), column)
        case _ if pa.types.is_integer(field.type) or pa.types.is_timestamp(field.type):
            numbers = np.asarray(column.cast(pa.int64()).fill_null(0)).copy()
            if len(numbers):
                numbers[rng.randrange(len(numbers))] = rng.choice((-(2**63), -1, 0, 1, 10**7, 2**40, 2**63 - 1))
            table = table.set_column(place, field, pa.array(numbers).cast(field.type, safe=False))
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=rng.choice((None, None, None, "zstd")))
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return replaced(content, number, bytes(sink.getvalue()))


MUTATIONS = (
    with_flipped_bits,
    with_other_bytes,
    with_other_integer,
    with_other_integer,
    with_other_length,
    with_other_sections,
    with_other_json,
    with_other_json,
    with_other_rows,
)


def chosen(content: Content, rng: random.Random, first: int = 0) -> int:
    """Draw a section that is not empty."""
    return rng.choice([number for number, section in enumerate(content) if number >= first and section])


def replaced(content: Content, number: int, section: bytes) -> Content:
    return [*content[:number], section, *content[number + 1 :]]


def packed(join: Join, content: Content) -> bytes:
    if not isinstance(join, wm.StreamJoin):
        return layout.write_sections(multi_snapshot.MAGIC, multi_snapshot.VERSION, content)
    version = snapshot.VERSION if join._options["how"] == "inner" else snapshot.WAITING_VERSION
    return layout.write_sections(snapshot.MAGIC, version, content)


# --- what must hold -------------------------------------------------------------------------------------------------


def saved_in(join: Join, blob: bytes) -> Any:
    return (snapshot if isinstance(join, wm.StreamJoin) else multi_snapshot).read_snapshot(blob)


def pushes_for(schemas: dict[str, pa.Schema], latest: int) -> Iterator[Tables]:
    """Yield rows that come next, as far as their columns can be made up."""
    for first, count in ((latest - 3, 5), (latest, 7)):
        yield {
            name: table_of(schema, first, count)
            for name, schema in schemas.items()
            if all(field.name == "ts" or COLUMNS.get(field.name, COLUMNS["int"])[0] == field.type for field in schema)
            and schema.names.count("ts") <= 1
            and ("ts" not in schema.names or schema.field("ts").type == pa.timestamp("us"))
        }


def results_of(join: Join, pushes: list[Tables]) -> list[Any]:
    """Return what a join gives for some pushes and at its end: all rows of all columns, in some order."""
    found = []
    for tables in pushes:
        try:
            pairs = join.push(**tables)
        except (wm.LateRowError, wm.SpecificationError) as error:  # a join that fails on late rows, or has ended
            found.append(type(error).__name__)
            continue
        pairs.validate(full=True)
        found += comparable(pairs)
    rest = join.finish()
    rest.validate(full=True)
    return sorted([*found, *comparable(rest)], key=str)


def comparable(table: pa.Table) -> list[str]:
    """Return rows as text. Timestamps may lie beyond what Python can show."""
    columns = []
    for column in table.columns:
        plain = column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
        columns.append([str(value) for value in plain.combine_chunks()] if len(column) else [])
    return [str(row) for row in zip(*columns, strict=True)]


def tried(join: Join, original: bytes, blob: bytes) -> str:
    """Restore a mutated snapshot; return what came of it, or raise."""
    kind = type(join)
    try:
        restored = kind.restore(blob)
    except wm.SnapshotError as error:
        return "refused" if "next step:" in str(error) else "refused without a word"
    saved, before = saved_in(join, blob), saved_in(join, original)
    latest = max(saved.state.progress.rows.values())
    pushes = list(pushes_for(saved.plan.schemas, min(latest, 10**9)))
    found = results_of(restored, pushes)
    assert found == results_of(reference(join, blob), pushes), "not as the reference"
    is_inner = saved.state.options.get("how", "inner") == "inner"  # of another one it matters who has met somebody
    if isinstance(join, wm.StreamJoin) and saved.plan.time is not None and not saved.state.finished and is_inner:
        assert found == results_of(fresh(saved), pushes), "not as a new join with these rows"
    if same(saved, before):
        assert found == results_of(kind.restore(original), pushes), "not as the original"
        return "as before"
    return "another"


def reference(join: Join, blob: bytes) -> Join:
    """Return the join that a snapshot holds, in its plainest form."""
    _, sections = layout.read_sections(blob[:16], (blob[16],), blob)
    description = json.loads(sections[0]) | {"structure": "scan"}
    plain = packed(join, replaced(sections, 0, json.dumps(description).encode()))
    if isinstance(join, wm.StreamJoin):
        return wm.StreamJoin.restore(plain, topology="kang", cores=1)
    return wm.MultiStreamJoin.restore(plain, strategy="circular", cores=1)


def fresh(saved: snapshot.Saved) -> wm.StreamJoin:
    """Return a new join whose windows got the same rows by a push."""
    plan, late = saved.plan, saved.state.options.get("late", "drop")
    schemas = plan.schemas
    join = wm.StreamJoin(
        left=schemas["left"], right=schemas["right"], on=plan.predicate, window=plan.window, topology="kang", late=late
    )
    stored = {
        side: pa.Table.from_batches([rows for rows, _ in own], schemas[side]) for side, own in saved.segments.items()
    }
    join.push(**stored)
    join._intake.progress = saved.state.progress
    join._owed = saved.owed
    return join


def same(saved: Any, other: Any) -> bool:
    parts = ("predicate", "window", "schemas", "structure")
    if any(getattr(saved.plan, part) != getattr(other.plan, part) for part in parts):
        return False
    if replace(saved.state, results=0) != replace(other.state, results=0):
        return False
    rows = [one.segments if hasattr(one, "segments") else one.rows for one in (saved, other)]
    waiting = [
        {side: [some.tolist() for some in own] for side, own in getattr(one, "waiting", {}).items()}
        for one in (saved, other)
    ]
    if waiting[0] != waiting[1]:
        return False
    owed = [comparable(one.owed) if hasattr(one, "owed") else [] for one in (saved, other)]
    return owed[0] == owed[1] and all(same_rows(rows[0][name], rows[1][name]) for name in rows[0])


def same_rows(some: list[Any], others: list[Any]) -> bool:
    def numbers(what: Any) -> Any:
        return what.tolist() if isinstance(what, np.ndarray) else what and {k: v.tolist() for k, v in what.items()}

    return [(comparable(pa.table(rows)), numbers(count)) for rows, count in some] == [
        (comparable(pa.table(rows)), numbers(count)) for rows, count in others
    ]


ORIGINALS: list[tuple[Join, Content, bytes]] = []


def main(seed: int, first: int, count: int) -> None:
    for join in bases():
        blob = join.snapshot()
        ORIGINALS.append((join, layout.read_sections(blob[:16], (blob[16],), blob)[1], blob))
        assert tried(join, blob, blob) == "as before"
    outcomes: Counter[str] = Counter()
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(first, first + count):
        rng = random.Random(f"{seed}/{number}")
        join, content, blob = rng.choice(ORIGINALS)
        mutation = rng.choice(MUTATIONS)
        say(f"{number} {mutation.__name__} {type(join).__name__}")
        outcomes[tried(join, blob, packed(join, mutation(content, rng)))] += 1
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - held
    say(json.dumps({"outcomes": outcomes, "grown_mib": grown >> 10}))


def say(what: str) -> None:
    sys.stdout.write(what + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
