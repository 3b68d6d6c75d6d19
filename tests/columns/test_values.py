"""The evaluator against the oracle's, row by row: overflow, decimals, division, casts, nulls and NaN."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import oracle
import watersmeet as wm
from watersmeet.columns.values import evaluate, is_true
from watersmeet.columns.vectors import Vector
from watersmeet.spec import expression as ex
from watersmeet.spec.membership import without_lists
from watersmeet.spec.sql import parse_predicate
from watersmeet.spec.typing import type_of

NAN, INF = float("nan"), float("inf")
# One name per type: the first letter says which operations it takes part in (n: number, t: time, s: text, b: boolean).
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "n_int8": (pa.int8(), [0, 1, -1, 127, -128, None]),
    "n_int32": (pa.int32(), [0, 1, 7, -3, 2**31 - 1, -(2**31), None]),
    "n_int64": (pa.int64(), [0, 1, -7, 2**53 + 1, 2**60 + 2**36 + 1, 2**63 - 1, -(2**63), None]),
    "n_uint64": (pa.uint64(), [0, 3, 2**63, 2**64 - 1, None]),
    "n_float32": (pa.float32(), [0.0, -0.0, 0.1, 2.5, -1e30, 3e38, NAN, INF, -INF, None]),
    "n_float64": (pa.float64(), [0.0, -0.0, 0.1, 2.5, -2.5, 1e18, 9.3e18, 1.7e308, 5e-324, NAN, INF, -INF, None]),
    "n_dec9": (pa.decimal128(9, 2), [Decimal(n) / 100 for n in (0, 5, 150, 250, -250, 999999999)] + [None]),
    "n_dec38": (
        pa.decimal128(38, 10),
        [Decimal(0), Decimal("0.5"), Decimal("1.0000000001"), Decimal("-" + "9" * 28), None],
    ),
    "n_dec256": (pa.decimal256(50, 3), [Decimal("1.5"), Decimal("9" * 40), Decimal("-" + "9" * 46), None]),
    "n_hundreds": (pa.decimal128(7, -2), [Decimal(f"{n}E2") for n in (0, 1, -3, 400, 9_999_999, -9_999_999)] + [None]),
    "n_huge": (pa.decimal128(38, -4), [Decimal(f"{n}E4") for n in (0, -7, 10**33, 9 * 10**33 + 1)] + [None]),
    "t_us": (pa.timestamp("us"), [0, 1, -1, 86_400_000_000, 2**63 - 1, -(2**63), None]),
    "t_ns": (pa.timestamp("ns", "UTC"), [0, 1, -1, 999, 86_400_000_000_000, 2**63 - 1, None]),
    "t_ms": (pa.timestamp("ms"), [0, -1, 1, 86_400_000, None]),
    "t_date": (pa.date32(), [date(1970, 1, 1), date(1969, 12, 31), date(2024, 2, 29), date.max, date.min, None]),
    "t_date64": (pa.date64(), [date(1970, 1, 1), date(1969, 12, 31), date(2024, 2, 29), None]),
    "s_text": (pa.string(), ["", "a", "ab", "ä", "\U0001f600", None]),
    "s_view": (pa.string_view(), ["", "a", "b", None]),
    "s_large": (pa.large_string(), ["", "a", "b", None]),
    "b_flag": (pa.bool_(), [True, False, None]),
    "b_null": (pa.null(), [None]),
}
ROWS = 40
LITERALS = {
    "n": [
        "0",
        "1",
        "-3",
        "2.50",
        "0.1",
        "1e0",
        "0.1D",
        "9223372036854775807",
        "-123456789012345678901234567890.125",
        "NULL",
    ],
    "t": ["TIMESTAMP '1970-01-01 00:00:01.000001'", "DATE '1970-01-01'", "NULL"],
    "s": ["'a'", "'ä'", "''", "NULL"],
}
CASTS = {
    "n": ["TINYINT", "INT", "BIGINT", "DECIMAL(10,2)", "DECIMAL(38,6)", "DOUBLE", "FLOAT", "BOOLEAN"],
    "t": ["DATE", "TIMESTAMP"],
}
SCHEMA = pa.schema([(name, arrow) for name, (arrow, _) in COLUMNS.items()])
SCHEMAS = {"left": SCHEMA, "right": SCHEMA}


def table_of_domains(seed: int) -> pa.Table:
    random = np.random.default_rng(seed)
    return pa.table(
        {name: [values[i] for i in random.integers(len(values), size=ROWS)] for name, (_, values) in COLUMNS.items()},
        schema=SCHEMA,
    )


TABLES = {"left": table_of_domains(1), "right": table_of_domains(2)}
PAIRS = [
    {**left, **right}
    for left, right in zip(
        oracle.rows_of("left", TABLES["left"]), oracle.rows_of("right", TABLES["right"]), strict=True
    )
]


def column(kind: str) -> st.SearchStrategy[str]:
    return st.builds(
        "{}.{}".format, st.sampled_from(["left", "right"]), st.sampled_from([n for n in COLUMNS if n[0] == kind])
    )


def leaf(kind: str) -> st.SearchStrategy[str]:
    return st.one_of(column(kind), column(kind), st.sampled_from(LITERALS[kind]))


def is_typed(text: str) -> bool:
    try:
        type_of(parse_predicate(f"({text}) IS NULL"), SCHEMAS)
    except wm.ColumnTypeError:
        return False
    return True


NUMBERS = st.recursive(
    leaf("n"),
    lambda inner: st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from("+-*/%"), inner),
        st.builds("(- {})".format, inner),
        st.builds("ABS({})".format, inner),
        st.builds("{}({}, {})".format, st.sampled_from(["LEAST", "GREATEST"]), inner, inner),
        st.builds("CAST({} AS {})".format, inner, st.sampled_from(CASTS["n"][:-1])),
    ),
    max_leaves=4,
).filter(is_typed)
INTERVALS = st.sampled_from(["INTERVAL 1 DAY", "INTERVAL -1 MICROSECOND", "INTERVAL 36 HOURS"])
TIMES = st.one_of(
    leaf("t"),
    st.builds("({} {} {})".format, leaf("t"), st.sampled_from("+-"), INTERVALS),
    st.builds("({} {} {})".format, column("t"), st.sampled_from("+-"), st.sampled_from(["1", "left.n_int8"])),
    st.builds("CAST({} AS {})".format, column("t"), st.sampled_from(CASTS["t"])),
    st.builds("{}({}, {})".format, st.sampled_from(["LEAST", "GREATEST"]), leaf("t"), leaf("t")),
).filter(is_typed)
SPANS = st.one_of(
    INTERVALS,
    st.builds("({} - {})".format, column("t"), column("t")),
    st.builds("ABS({} - {})".format, column("t"), column("t")),
    st.builds("({} * {})".format, INTERVALS, st.sampled_from(["3", "left.n_int8"])),
).filter(is_typed)
TEXTS = st.one_of(
    leaf("s"), st.builds("{}({}, {})".format, st.sampled_from(["LEAST", "GREATEST"]), leaf("s"), leaf("s"))
)
FLAGS = st.one_of(column("b"), st.sampled_from(["TRUE", "FALSE"]), st.builds("CAST({} AS BOOLEAN)".format, column("n")))
OPERATORS = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
COMPARISONS = st.one_of(
    *(st.builds("{} {} {}".format, values, OPERATORS, values) for values in (NUMBERS, NUMBERS, TIMES, SPANS, TEXTS)),
    st.builds("{} IS NULL".format, NUMBERS | TIMES | TEXTS),
    st.builds("{} = {}".format, FLAGS, FLAGS),
    column("b"),
).filter(is_typed)
CONDITIONS = st.recursive(
    COMPARISONS,
    lambda inner: st.one_of(
        st.builds("({} AND {})".format, inner, inner),
        st.builds("({} OR {})".format, inner, inner),
        st.builds("NOT ({})".format, inner),
    ),
    max_leaves=4,
)


def evaluated(text: str) -> tuple[ex.Predicate, Vector]:
    predicate = parse_predicate(text)
    type_of(predicate, SCHEMAS)
    columns = {(side, name): TABLES[side][name].combine_chunks() for side in TABLES for name in COLUMNS}
    return predicate, evaluate(predicate, lambda wanted: columns[wanted.stream, wanted.name], SCHEMAS)


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(CONDITIONS)
@example("CAST(left.n_int64 AS FLOAT) = CAST(right.n_int64 AS FLOAT)")
@example("CAST(left.n_dec38 AS FLOAT) <= right.n_float32")
@example("left.n_dec256 > -123456789012345678901234567890.125")
@example("left.n_dec9 / right.n_dec9 = left.n_int8 / right.n_dec9")
@example("GREATEST(left.n_float64, right.n_int64) = right.n_int64")
def test_oracle_conditions(text: str) -> None:
    predicate, truth = evaluated(text)
    truth_of = oracle.Evaluator(SCHEMAS)
    expected = [truth_of.value(predicate, pair) for pair in PAIRS]
    data = np.broadcast_to(truth.data, ROWS).tolist()
    valid = np.broadcast_to(True if truth.valid is None else truth.valid, ROWS).tolist()
    assert [value if known else None for value, known in zip(data, valid, strict=True)] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("9223372036854775807 + 1 > 9223372036854775807", True),
        ("-9223372036854775808 - 1 < -9223372036854775808", True),
        ("ABS(-9223372036854775808) = 9223372036854775808", True),
        ("- (-9223372036854775808) > 0", True),
        ("9223372036854775807 * 9223372036854775807 = 85070591730234615847396907784232501249", True),
        ("1 / 0 IS NULL", True),
        ("1 % 0 IS NULL", True),
        ("1.0 / 0 IS NULL", True),
        ("1e0 / 0 IS NULL", True),
        ("-7 % 3 = -1", True),
        ("-7.5 % 2 = -1.5", True),
        ("7 / 2 = 3.5", True),
        ("1.0 / 3 = 0.333333", True),
        ("2.0 / 3 = 0.666667", True),
        ("CAST(2.5 AS INT) = 2", True),
        ("CAST(-2.5 AS INT) = -2", True),
        ("CAST(2.5 AS DECIMAL(10,0)) = 3", True),
        ("CAST(-2.5 AS DECIMAL(10,0)) = -3", True),
        ("CAST(128 AS TINYINT) IS NULL", True),
        ("CAST(99999999999 AS INT) IS NULL", True),
        ("CAST(12345 AS DECIMAL(3,1)) IS NULL", True),
        ("CAST(1e19 AS BIGINT) IS NULL", True),
        ("CAST(DATE '1969-12-31' AS TIMESTAMP) = TIMESTAMP '1969-12-31 00:00:00'", True),
        ("CAST(TIMESTAMP '1969-12-31 23:59:59' AS DATE) = DATE '1969-12-31'", True),
        ("DATE '2024-02-28' + 1 = DATE '2024-02-29'", True),
        ("DATE '2024-02-28' + INTERVAL 36 HOURS = TIMESTAMP '2024-02-29 12:00:00'", True),
        ("DATE '2024-03-01' - DATE '2024-02-28' = INTERVAL 2 DAYS", True),
        ("0.1 + 0.2 = 0.3", True),
        ("0.1D + 0.2D = 0.3D", False),
        ("NULL = NULL", False),
        ("NOT (NULL = NULL)", False),
        ("NULL IS NULL", True),
        ("TRUE OR NULL", True),
        ("NOT (FALSE AND NULL)", True),
        ("LEAST(NULL, 3) = 3", True),
        ("GREATEST(1, 2.5, NULL) = 2.5", True),
        ("'a' < 'b'", True),
        ("1 IN (2, NULL)", False),
        ("NOT (1 IN (2, NULL))", False),
    ],
)
def test_constants(text: str, expected: bool) -> None:
    predicate = parse_predicate(text)
    planned = without_lists(predicate, SCHEMAS)
    type_of(planned, SCHEMAS)
    assert is_true(planned, lambda column: pytest.fail(str(column)), SCHEMAS, 1).tolist() == [expected]
    assert (oracle.Evaluator(SCHEMAS).value(predicate, {}) is True) == expected


def crossed(arrow: pa.DataType, values: list[Any]) -> dict[str, pa.Array]:
    """Return two columns whose rows are all pairs of some values."""
    return {
        "left": pa.array([a for a in values for _ in values], arrow),
        "right": pa.array([b for _ in values for b in values], arrow),
    }


def truth_of(text: str, columns: dict[str, pa.Array]) -> tuple[list[bool], list[bool]]:
    """Return for each row of ``left.x`` and ``right.x`` whether a condition holds: evaluated, and by the oracle."""
    schemas = {side: pa.schema([("x", column.type)]) for side, column in columns.items()}
    predicate = parse_predicate(text)
    type_of(predicate, schemas)
    rows = [oracle.rows_of(side, pa.table({"x": column})) for side, column in columns.items()]
    oracles = oracle.Evaluator(schemas)
    expected = [oracles.value(predicate, {**a, **b}) is True for a, b in zip(*rows, strict=True)]
    return is_true(predicate, lambda column: columns[column.stream], schemas, len(expected)).tolist(), expected


@pytest.mark.parametrize("operator", ["=", "<>", "<", "<=", ">", ">="])
@pytest.mark.parametrize("arrow", [pa.float32(), pa.float64()])
def test_nan_compares_with_nan_and_with_all_others(operator: str, arrow: pa.DataType) -> None:
    found, expected = truth_of(f"left.x {operator} right.x", crossed(arrow, [NAN, -INF, -0.0, 0.0, 1.5, INF, None]))
    assert found == expected
    assert found[0] == (operator in ("=", "<=", ">=")), "NaN equals NaN and is not less than it"


@pytest.mark.parametrize("operation", ["left.x - right.x", "left.x + right.x", "left.x * right.x", "-left.x - right.x"])
@pytest.mark.parametrize("bound", ["0", "9223372036854775807", "-9223372036854775808"])
@pytest.mark.parametrize(
    "values",
    [
        [-(2**63), 5],
        [2**63 - 1, -5],
        [2**63 - 1, 1],
        [-(2**63), -1],
        [-(2**63), -(2**62), -1, 0, 1, 2**62, 2**63 - 1],
        [-3, 0, 2**31, 2**32 + 1],
    ],
    ids=str,
)
def test_ends_of_int64_do_not_wrap_around(operation: str, bound: str, values: list[int]) -> None:
    """Each pair of values by itself too: what lies beyond 64 bits must be seen by the ends of the two columns."""
    for some in (values, *([a, b] for a in values for b in values)):
        for operator in ("<", ">=", "="):
            found, expected = truth_of(f"{operation} {operator} {bound}", crossed(pa.int64(), some))
            assert found == expected, some


def test_slices_with_offsets_read_their_own_rows() -> None:
    columns = {(side, name): TABLES[side][name].combine_chunks() for side in TABLES for name in COLUMNS}
    for name in COLUMNS:
        whole = oracle.column_values(TABLES["left"][name])
        part = columns["left", name].slice(7, 9)
        vector = evaluate(parse_predicate(f"left.{name} IS NULL"), lambda _, part=part: part, SCHEMAS)
        assert np.broadcast_to(vector.data, 9).tolist() == [value is None for value in whole[7:16]]
        same = evaluate(parse_predicate(f"left.{name} = right.{name}"), lambda _, part=part: part, SCHEMAS)
        known = np.broadcast_to(same.data if same.valid is None else same.data & same.valid, 9)
        assert known.tolist() == [value is not None for value in whole[7:16]]


@pytest.mark.parametrize("name", COLUMNS)
def test_oracle_reads_what_arrow_holds(name: str) -> None:
    kind = oracle.column_type(COLUMNS[name][0]).kind
    values = [v for v in oracle.column_values(TABLES["left"][name]) if v is not None]
    expected = {
        "int": int,
        "decimal": Fraction,
        "float": np.float32,
        "double": np.float64,
        "timestamp": Fraction,
        "date": int,
        "string": str,
        "boolean": bool,
        "null": object,
    }[kind]
    assert all(type(value) is expected for value in values)
