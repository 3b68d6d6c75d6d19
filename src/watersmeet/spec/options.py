"""The options of a join: what each may be, in one table, and the one check of what a user gives.

Joins of two streams and of many, in-process and on Spark, have the same options under the same names, so a mistake is
refused everywhere in the same words. What the columns, predicates and windows themselves may be is checked where they
are made, and by the plan.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Final, Literal, get_args

import pyarrow as pa

from watersmeet.spec.errors import SpecificationError
from watersmeet.spec.expression import Predicate
from watersmeet.spec.kinds import How
from watersmeet.spec.ordering import STRICT, Relaxed
from watersmeet.spec.typing import check_depth
from watersmeet.spec.window import CountWindow, CountWindows, TimeWindow, TimeWindows

__all__ = [
    "BadMessages",
    "Balance",
    "How",
    "Late",
    "MessageFormat",
    "ResultForm",
    "Strategy",
    "Structure",
    "StructureName",
    "TopologyName",
    "check_join",
    "check_name",
    "check_options",
    "check_result",
    "check_schemas",
    "check_threads",
    "check_weights",
    "refuse_complete",
    "refuse_fanout",
    "refuse_late",
    "refuse_late_beside",
    "refuse_records",
    "refuse_weights",
    "refuse_without_window",
]

Late = Literal["drop", "error", "keep"]
ResultForm = Literal["pairs", "ranges", "count"]
TopologyName = Literal["kang", "handshake", "low_latency_handshake", "splitjoin", "panjoin"]
StructureName = Literal["scan", "hash", "rap_table", "wib_tree", "bi_sort"]
Structure = Literal["auto"] | StructureName
Strategy = Literal["auto", "circular", "stashed"]
Balance = Literal["auto", "off"]
MessageFormat = Literal["json", "arrow", "parquet"]
BadMessages = Literal["error", "drop"]

CHOICES: Final[Mapping[str, tuple[str | None, ...]]] = {
    "how": get_args(How),
    "late": get_args(Late),
    "order": (None, *STRICT),
    "result": get_args(ResultForm),
    "topology": get_args(TopologyName),
    "structure": ("auto", *get_args(StructureName)),
    "strategy": get_args(Strategy),
    "balance": get_args(Balance),
    "format": get_args(MessageFormat),
    "bad": get_args(BadMessages),
}
"""Options that are one of a few; all others are numbers."""
SPARKS_NAMES: Final[Mapping[str, How]] = {
    "outer": "full",
    "fullouter": "full",
    "leftouter": "left",
    "rightouter": "right",
    "leftsemi": "semi",
    "leftanti": "anti",
}
"""Spark's other names of kinds of joins, without ``_``, and what they are called here."""
BESIDE: Final = {"order": "wm.relaxed(rows=…)"}
"""What an option may be beside its choices."""
SECONDS: Final = ("batch_seconds",)
"""Options that are a span of time; all other numbers count something."""
UNSET: Final = ("batch_rows", "batch_seconds", "fanout")
"""Numbers that a user may leave out."""
MOST_THREADS: Final = 1024
DEFAULTS: Final = (None, "auto", "drop")
"""Options that have one of these were not given."""


def check_options(**given: object) -> None:
    """Raise unless every option is what it may be."""
    for name, value in given.items():
        if isinstance(value, Relaxed) and name == "order":
            continue
        if name in CHOICES:
            if value not in CHOICES[name]:
                allowed = ", ".join([*map(repr, CHOICES[name]), *([BESIDE[name]] if name in BESIDE else [])])
                raise _refused(name, value, allowed, _choice_step(name, value))
        elif value is None and name in UNSET:
            continue
        elif name in SECONDS:
            if not _is_positive(value):
                raise _refused(name, value, "seconds, more than 0 and finite", _number_step(name, value, "0.5"))
        elif isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise _refused(name, value, "a whole number of at least 1", _number_step(name, value, "4"))


def check_name(name: object) -> None:
    """Raise unless ``name`` can be a join's."""
    if not (isinstance(name, str) and name.strip()):
        raise _refused("name", name, "text that is not empty", 'give for example name="near"; or leave name out')


def check_threads(cores: object) -> None:
    """Raise unless ``cores`` is a number of threads that a machine can have."""
    check_options(cores=cores)
    if isinstance(cores, int) and cores > MOST_THREADS:
        raise _refused("cores", cores, f"at most {MOST_THREADS}", "give the number of this machine's cores")


def check_result(result: str, order: object, how: How) -> None:
    """Raise if results that are no pairs are to come in order, or with rows that met nobody."""
    if result != "pairs" and order is not None:
        raise SpecificationError(
            f"result={result!r} with order={order!r}: neither ranges nor a count stand for pairs one after the other",
            'an order with result="pairs"; order=None with any other result',
            "leave order out",
        )
    if result != "pairs" and how != "inner":
        raise SpecificationError(
            f"result={result!r} with how={how!r}: ranges and counts stand for pairs, not for rows that met nobody",
            'how="inner" with any result; result="pairs" with any other how',
            "leave result out, and count the rows of the tables",
        )


def refuse_records(what: str, result: str) -> SpecificationError:
    """Return the error for turning into pairs what is no record of ranges that a join still knows."""
    return SpecificationError(
        f"pairs_of() was given {what}",
        'with result="ranges" the records, or some of them, that the join returned last: by push, poll, finish or an '
        "iterator of pushes",
        "turn records into pairs before the next results are asked for"
        if result == "ranges"
        else 'build the join with result="ranges"',
    )


def refuse_fanout(fanout: int, topology: str) -> SpecificationError:
    """Return the error for a fanout that trees cannot have, or of a topology that has no trees."""
    return SpecificationError(
        f"fanout={fanout} with topology={topology!r}",
        'whole numbers of at least 2 with topology="splitjoin", which alone hands messages on in trees',
        "leave fanout out",
    )


def refuse_weights(weights: object, topology: str) -> SpecificationError:
    """Return the error for weights of a topology whose cores hold no segments."""
    return SpecificationError(
        f"weights={weights!r} with topology={topology!r}",
        'weights with topology="handshake", which alone cuts windows into a segment for each core',
        "leave weights out",
    )


def check_weights(weights: object, cores: int) -> None:
    """Raise unless ``weights`` are the shares of so many cores."""
    listed = list(weights) if isinstance(weights, Sequence) and not isinstance(weights, str) else []
    if len(listed) != cores or not all(_is_positive(weight) for weight in listed):
        raise _refused(
            "weights",
            weights,
            f"a number for each core (cores={cores}), more than 0 and finite",
            "leave weights out, and all cores hold equal shares",
        )


def _is_positive(value: object) -> bool:
    """Return whether a value is a finite number above 0."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= sys.float_info.max


def refuse_late(late: str) -> SpecificationError:
    """Return the error for asking a join for late rows that does not keep them."""
    return SpecificationError(
        f"late rows were asked for of a join with late={late!r}",
        'joins with late="keep"; all others count late rows and do not keep them',
        'build the join with late="keep"',
    )


def refuse_late_beside(how: str) -> SpecificationError:
    """Return the error for late rows among results that have left columns alone."""
    return SpecificationError(
        f'late="keep" with how={how!r} on Spark, where late rows come with the results: these have no right columns',
        'late="keep" with any other how; late="drop" or late="error" with this one',
        "leave late out, or take the late rows of a left join",
    )


def refuse_complete() -> SpecificationError:
    """Return the error for asking how far a join without an order is complete."""
    return SpecificationError(
        "complete was asked for of a join with order=None",
        "joins that return pairs in an order: only these tell when a row has met all before it",
        'build the join with order="outer", or wm.relaxed(rows=…)',
    )


def check_schemas(left: object, right: object) -> None:
    """Raise unless both streams of a join are given by schemas."""
    for name, schema in (("left", left), ("right", right)):
        if not isinstance(schema, pa.Schema):
            raise _refused_type(name, schema, "a pyarrow.Schema", f"give {name}=table.schema")


def refuse_without_window(**given: object) -> None:
    """Raise if an option is given that a join of a stream with a table does not have."""
    for name, value in given.items():
        if value not in DEFAULTS:
            allowed = f"no {name} with window=None: a table to look up has neither state nor cores of its own"
            raise _refused(name, value, allowed, f"leave {name} out")


def check_join(on: object, window: object, *, many: bool, may_be_none: bool = False) -> None:
    """Raise unless ``on`` is a predicate or text, and ``window`` one of two streams, or where ``many`` of more.

    It ``may_be_none`` where one of the sides is a table.
    """
    if not isinstance(on, str | Predicate):
        raise _refused_type("on", on, "a predicate or Spark SQL text", _predicate_step(on, many=many))
    if isinstance(on, Predicate):
        check_depth(on)
    if window is None and may_be_none:
        return
    of_many = isinstance(window, TimeWindows | CountWindows)
    if not isinstance(window, TimeWindow | CountWindow) and not (many and of_many):
        raise _refused(
            "window",
            window,
            "time_window(…) or count_window(…)" + (" of two streams: left and right" if of_many else ""),
            'give for example window=wm.time_window("10 minutes", ts="ts")',
        )


def _predicate_step(on: object, *, many: bool) -> str:
    """Return what to write instead of something that is no predicate."""
    streams = ("a", "b") if many else ("left", "right")
    text = f'on="{streams[0]}.x < {streams[1]}.y"'
    if type(on).__name__ == "Column":  # Spark's, whose own conditions do not tell which stream a name is of
        return f"write the condition as text that names the streams, such as {text}"
    names = on if isinstance(on, list | tuple) and on and all(isinstance(name, str) for name in on) else ["key"]
    written = [f'"a.{name}", "b.{name}"' if many else f'"{name}"' for name in names]
    return "give for example on=" + " & ".join(f"wm.equal({columns})" for columns in written) + f", or {text}"


def _choice_step(name: str, value: object) -> str:
    """Return what to do where one of a few was expected."""
    if name == "how" and isinstance(value, str):
        plain = value.lower().replace("_", "")
        meant = SPARKS_NAMES.get(plain, plain)
        if meant in CHOICES[name]:
            return f'give how="{meant}"'
    return f"leave {name} out, or give one of these"


def _number_step(name: str, value: object, example: str) -> str:
    """Return what to do where a number was expected."""
    if isinstance(value, str) and value.isdecimal() and value.strip("0"):
        return f"give {name}={value} without quotes"
    return f"give for example {name}={example}, or leave {name} out"


def _refused(name: str, value: object, allowed: str, next_step: str) -> SpecificationError:
    return SpecificationError(f"{name}={value!r}", allowed, next_step)


def _refused_type(name: str, value: object, allowed: str, next_step: str) -> SpecificationError:
    return SpecificationError(f"{name}={type(value).__name__}", allowed, next_step)
