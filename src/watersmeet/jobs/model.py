"""What a job file may say: one frozen model for each of its tables.

Design: these models alone know the keys of a job file. Its JSON schema, the list of keys in an error and the reader
follow from them. A key of a join is called like the argument of ``wm.join`` or ``wm.multijoin`` that it becomes, and
has the type that is declared there. What one key has to do with another is in :mod:`watersmeet.jobs.checks`.

Invariant: no value is converted, so ``"4"`` is no number. A key that is not known is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, field_validator
from pydantic_core import PydanticCustomError

from watersmeet.spark.multiway.routing import MultiRoutingName
from watersmeet.spark.ordering import OrderName
from watersmeet.spark.routing.choose import RoutingName
from watersmeet.spec.options import Balance, How, Late, Strategy, Structure

__all__ = [
    "ONE_LINE",
    "SINKS",
    "SOURCES",
    "ConsoleSink",
    "DeltaSink",
    "DeltaSource",
    "FileSource",
    "Job",
    "Join",
    "KafkaSink",
    "KafkaSource",
    "ManyJoin",
    "PairJoin",
    "ParquetSink",
    "Part",
    "RateSource",
    "Sink",
    "Source",
    "SparkPart",
    "Table",
    "Trigger",
    "WindowPart",
    "part_at",
    "schema_text",
]

Scalar = str | int | float | bool
Options = dict[str, Scalar]
Text = Annotated[str, Field(min_length=1)]
ONE_LINE: Final = r"^[^\x00-\x1f\x7f-\x9f]*$"
Line = Annotated[str, Field(min_length=1, pattern=ONE_LINE)]
"""Text without control characters."""
Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
OPTIONS: Final = "Further options of Spark for this format, as it names them."
SELECT: Final = "Columns to go on with, as SQL expressions such as `price * 100 AS cents`; all when left out."
SCHEMA: Final = "Names and types of the columns, as Spark's DDL text."
PATH: Final = "A folder; a relative one is looked for beside the job file."
TRADES: Final = "ts TIMESTAMP, symbol STRING, price INT"


class Part(BaseModel):
    """A table of a job file."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


# --- streams and tables ---------------------------------------------------------------------------------------------


class KafkaSource(Part):
    """A topic of Kafka, whose values are JSON objects. Needs Spark's package for Kafka."""

    format: Literal["kafka"]
    servers: Line = Field(description="Kafka's servers.", examples=["localhost:9092"])
    topic: Line = Field(description="The topic to read.", examples=["trades"])
    columns: Text = Field(alias="schema", description=SCHEMA, examples=[TRADES])
    key: Name | None = Field(default=None, description="A column to put the record's key into, as text.")
    arrival: Name | None = Field(default=None, description="A column to put the record's own timestamp into.")
    keep: list[Literal["topic", "partition", "offset"]] = Field(
        default_factory=list, description="Columns to keep beside those of the schema: where the record stands."
    )
    starting_offsets: Text = Field(
        default="latest",
        description="Where the first start begins: `earliest`, `latest`, or JSON of offsets by partition.",
    )
    options: Options = Field(default_factory=dict, description=OPTIONS)
    select: list[Text] | None = Field(default=None, description=SELECT)


class FileSource(Part):
    """A folder to which files are added."""

    format: Literal["parquet", "json", "csv"]
    path: Line = Field(description=PATH, examples=["data/trades"])
    columns: Text = Field(alias="schema", description=SCHEMA, examples=[TRADES])
    files_per_trigger: int | None = Field(default=None, ge=1, description="Most files in one micro-batch.")
    arrival: Name | None = Field(
        default=None, description="A column to put the time into at which the file was written."
    )
    options: Options = Field(default_factory=dict, description=OPTIONS)
    select: list[Text] | None = Field(default=None, description=SELECT)


class DeltaSource(Part):
    """A Delta table to which rows are added; it knows its own schema. Needs the package of Delta Lake."""

    format: Literal["delta"]
    path: Line = Field(description=PATH, examples=["data/trades"])
    files_per_trigger: int | None = Field(default=None, ge=1, description="Most files in one micro-batch.")
    options: Options = Field(default_factory=dict, description=OPTIONS)
    select: list[Text] | None = Field(default=None, description=SELECT)


class RateSource(Part):
    """Generated rows with the columns `timestamp` and `value`, which counts from 0."""

    format: Literal["rate"]
    rows_per_second: int = Field(default=10, ge=1, description="How many rows are generated.")
    arrival: Name | None = Field(
        default=None, description="A column to put the time into at which the row was generated."
    )
    options: Options = Field(default_factory=dict, description=OPTIONS)
    select: list[Text] | None = Field(default=None, description=SELECT)


Source = Annotated[KafkaSource | FileSource | DeltaSource | RateSource, Field(discriminator="format")]


class Table(Part):
    """A table to look up: read once, when the job starts."""

    format: Literal["parquet", "json", "csv", "delta"]
    path: Line = Field(description=PATH, examples=["data/levels"])
    columns: Text | None = Field(default=None, alias="schema", description=f"{SCHEMA} Found out when left out.")
    options: Options = Field(default_factory=dict, description=OPTIONS)
    select: list[Text] | None = Field(default=None, description=SELECT)


# --- joins ----------------------------------------------------------------------------------------------------------


class WindowPart(Part):
    """How long a row can be met by rows of other streams: by time, or by count."""

    time: Text | dict[Name, Text] | None = Field(
        default=None,
        description="How long a row stays, such as `10 minutes`: one length for all streams, or by stream.",
    )
    ts: Text | dict[Name, Text] | None = Field(
        default=None, description="With `time`: the column with the timestamp, one for all streams, or by stream."
    )
    lateness: Text = Field(
        default="0 seconds", description="How far a row may lie behind the newest of the slower stream."
    )
    idle: Text | None = Field(default=None, description="How far a stream that pauses may hold the watermark back.")
    count: int | dict[Name, int] | None = Field(default=None, description="The last so many rows stay, of each stream.")
    order_by: Text | dict[Name, Text] | None = Field(
        default=None,
        description="With `count`: the column by which rows of a micro-batch arrive; of a join of many by stream.",
    )


class _JoinPart(Part):
    on: Text = Field(
        description="When rows go together, as Spark SQL text.",
        examples=["left.price BETWEEN right.bid - 5 AND right.bid + 5"],
    )
    structure: Structure = Field(default="auto", description="How windows are indexed.")
    cores: int | None = Field(
        default=None, ge=1, description="Parts of the join; the shuffle partitions when left out."
    )
    late: Late = Field(default="drop", description="What becomes of late rows.")
    balance: Balance = Field(default="auto", description="Whether load may move between cores.")
    select: list[Text] | None = Field(default=None, description=SELECT)


class PairJoin(_JoinPart):
    """A join of two, `left` and `right`; one may be a table, then without a window."""

    left: Name = Field(description="A stream, a table or another join.", examples=["trades"])
    right: Name = Field(description="A stream, a table or another join.", examples=["quotes"])
    window: WindowPart | None = Field(default=None, description="Left out if one of the two is a table.")
    how: How = Field(default="inner", description="Which rows come out.")
    routing: RoutingName = Field(default="auto", description="How rows are spread over cores.")
    order: OrderName | None = Field(
        default=None, description="The order of each micro-batch's results; none if left out."
    )


class ManyJoin(_JoinPart):
    """A join of two to eight, by the names that `on` uses."""

    streams: dict[Name, Name] = Field(
        description="Streams or other joins, by the names that `on` uses.",
        examples=[{"t": "trades", "q": "quotes", "n": "news"}],
    )
    window: WindowPart = Field(
        description="How long rows stay.", examples=[{"time": "1 second", "ts": "ts", "lateness": "5 seconds"}]
    )
    strategy: Strategy = Field(default="auto", description="How results are put together.")
    routing: MultiRoutingName = Field(default="auto", description="How rows are spread over cores.")
    largest: Name | None = Field(default=None, description='With `routing = "replicate"`: the stream that is spread.')
    stash_rows: int = Field(default=1 << 20, ge=1, description="How many matches of two streams a core may keep.")


def _kind_of_join(given: Any) -> str:  # noqa: ANN401 -- whatever the file says
    return "many" if isinstance(given, ManyJoin) or (isinstance(given, Mapping) and "streams" in given) else "pair"


Join = Annotated[Annotated[PairJoin, Tag("pair")] | Annotated[ManyJoin, Tag("many")], Discriminator(_kind_of_join)]


# --- the sink and the rest ------------------------------------------------------------------------------------------


class _SinkPart(Part):
    input: Name | None = Field(
        default=None,
        description="The join whose results are written; the last one, which no other join reads, if left out.",
    )


class KafkaSink(_SinkPart):
    """A topic of Kafka, which gets each result as a JSON object, at least once. Needs Spark's package for Kafka."""

    format: Literal["kafka"]
    servers: Line = Field(description="Kafka's servers.", examples=["localhost:9092"])
    topic: Line = Field(description="The topic to write to.", examples=["pairs"])
    key: Text | None = Field(default=None, description="The column of which the record's key is made.")
    options: Options = Field(default_factory=dict, description=OPTIONS)


class ParquetSink(_SinkPart):
    """Parquet files in a folder, each result exactly once for whoever reads it with Spark."""

    format: Literal["parquet"]
    path: Line = Field(description=PATH, examples=["data/pairs"])
    partition_by: list[Text] = Field(default_factory=list, description="Columns by which files lie in subfolders.")
    options: Options = Field(default_factory=dict, description=OPTIONS)


class DeltaSink(_SinkPart):
    """A Delta table, which gets each result exactly once. Needs the package of Delta Lake."""

    format: Literal["delta"]
    path: Line = Field(description=PATH, examples=["data/pairs"])
    partition_by: list[Text] = Field(default_factory=list, description="Columns by which files lie in subfolders.")
    options: Options = Field(default_factory=dict, description=OPTIONS)


class ConsoleSink(_SinkPart):
    """The terminal: the first results of each micro-batch, to have a look."""

    format: Literal["console"]
    rows: int = Field(default=8, ge=1, description="Most rows shown of a micro-batch.")


Sink = Annotated[KafkaSink | ParquetSink | DeltaSink | ConsoleSink, Field(discriminator="format")]


class Trigger(Part):
    """When micro-batches begin; each as soon as the one before is done if there is no trigger."""

    every: Text | None = Field(
        default=None, description="The time from one micro-batch to the next, such as `5 seconds`."
    )
    available_now: bool = Field(default=False, description="Take all there is, then end.")


class SparkPart(Part):
    """The Spark session."""

    master: Text | None = Field(
        default=None, description="Where Spark runs; on all cores of this machine when left out."
    )
    memory: Text = Field(default="4g", description="Memory of the driver's JVM.")
    settings: dict[str, Any] = Field(
        default_factory=dict, description="Settings, as Spark names them: `spark.sql.shuffle.partitions = 8`."
    )

    @field_validator("settings")
    @classmethod
    def _flat(cls, given: dict[str, Any]) -> dict[str, Scalar]:
        """Return settings under their whole names: TOML takes the points of a name for tables in each other."""
        return dict(_flattened(given, ()))


def _flattened(given: Mapping[str, Any], above: tuple[str, ...]) -> list[tuple[str, Scalar]]:
    found: list[tuple[str, Scalar]] = []
    for key, value in given.items():
        name = (*above, key)
        if isinstance(value, Mapping):
            found += _flattened(value, name)
            continue
        told = {"name": ".".join(name), "path": list(name), "given": value}
        if not isinstance(value, Scalar):
            raise PydanticCustomError("setting_value", "{name} is no text, number or flag", told)
        if name[0].partition(".")[0] != "spark":
            raise PydanticCustomError("setting_name", "{name} is no setting of Spark", told)
        found.append((".".join(name), value))
    return found


class Job(Part):
    """A job: streams, joins of them, and where the results go."""

    name: Line = Field(default="watersmeet", description="What Spark calls the job.")
    streams: dict[Name, Source] = Field(description="What is joined, by name.", examples=[{"trades": "…"}])
    tables: dict[Name, Table] = Field(default_factory=dict, description="Tables to look up, by name.")
    joins: dict[Name, Join] = Field(description="Joins, by name.", examples=[{"pairs": "…"}])
    sink: Sink = Field(description="Where the results go.", examples=[{"format": "console"}])
    checkpoint: Line | None = Field(
        default=None, description="The folder with all that a restart needs; it may be left out with a console sink."
    )
    trigger: Trigger = Field(default=Trigger(), description="When micro-batches begin.")
    spark: SparkPart = Field(default=SparkPart(), description="The Spark session.")

    def inputs_of(self, join: str) -> list[str]:
        """Return the names of what a join reads, in the order of its streams."""
        part = self.joins[join]
        return list(part.streams.values()) if isinstance(part, ManyJoin) else [part.left, part.right]

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """Return the job that the tables of a file describe."""
        return cls.model_validate(given)


SOURCES: Final[Mapping[str, type[Part]]] = {
    "kafka": KafkaSource,
    **dict.fromkeys(("parquet", "json", "csv"), FileSource),
    "delta": DeltaSource,
    "rate": RateSource,
}
SINKS: Final[Mapping[str, type[Part]]] = {
    "kafka": KafkaSink,
    "parquet": ParquetSink,
    "delta": DeltaSink,
    "console": ConsoleSink,
}


def part_at(path: Sequence[str | int], given: Any) -> type[Part] | None:  # noqa: ANN401 -- whatever the file says
    """Return the model of the table at a path of a file, if there is one; ``given`` is what the table has."""
    format_ = given.get("format") if isinstance(given, Mapping) else None
    match list(path):
        case []:
            return Job
        case ["streams", _]:
            return SOURCES.get(str(format_))
        case ["tables", _]:
            return Table
        case ["joins", _]:
            return ManyJoin if _kind_of_join(given) == "many" else PairJoin
        case ["joins", _, "window"]:
            return WindowPart
        case ["sink"]:
            return SINKS.get(str(format_))
        case ["trigger"]:
            return Trigger
        case ["spark"]:
            return SparkPart
        case _:
            return None


def schema_text() -> str:
    """Return the JSON schema of job files, as text."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema"} | Job.model_json_schema()
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
