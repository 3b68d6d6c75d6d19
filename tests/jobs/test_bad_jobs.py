"""Bad job files: one clear message each, at the right line and key, exit code 2, and no traceback.

Each case changes one good job in one place. ``<<`` stands at the end of the line that the message has to name.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from watersmeet.cli.main import main
from watersmeet.jobs.model import KafkaSource
from watersmeet.jobs.problems import JobError
from watersmeet.jobs.reading import job_of

GOOD = """\
name = "near"
checkpoint = "checkpoint"

[streams.trades]
format = "parquet"
path = "trades"
schema = "ts TIMESTAMP, symbol STRING, price INT"

[streams.quotes]
format = "kafka"
servers = "localhost:9092"
topic = "quotes"
schema = "ts TIMESTAMP, symbol STRING, bid INT"

[tables.levels]
format = "csv"
path = "levels"

[joins.pairs]
left = "trades"
right = "quotes"
on = "left.price BETWEEN right.bid - 5 AND right.bid + 5"
how = "inner"

[joins.pairs.window]
time = "1 second"
ts = "ts"

[joins.graded]
left = "pairs"
right = "levels"
on = "left.price >= right.low"

[sink]
format = "parquet"
path = "out"

[trigger]
every = "5 seconds"

[spark.settings]
spark.sql.shuffle.partitions = 2
"""

CASES = {
    "not TOML": ('name = "near"', 'name = "near <<', "this is not TOML: illegal character"),
    "a value without a key": ('path = "out"', "path <<", "this is not TOML: expected '=' after a key"),
    "an unknown key": ('checkpoint = "checkpoint"', 'checkpont = "checkpoint" <<', "write checkpoint"),
    "an unknown key of a join": ('how = "inner"', 'hwo = "inner" <<', "next step: write how"),
    "an unknown key of a window": ('time = "1 second"', 'time = "1 second"\nlatness = "1 second" <<', "write lateness"),
    "an unknown setting below spark": (
        "[spark.settings]",
        '[spark]\nmastr = "local" <<\n[spark.settings]',
        "write master",
    ),
    "a key of another format": (
        'topic = "quotes"',
        'topic = "quotes"\npath = "x" <<',
        "[streams.quotes] has no key path",
    ),
    "no streams": (GOOD[GOOD.index("[streams.trades]") : GOOD.index("[tables")], "", "the file has no streams"),
    "no sink": (GOOD[GOOD.index("[sink]") : GOOD.index("[trigger]")], "", 'add sink = { format = "console" }'),
    "no schema": (
        'path = "trades"\nschema = "ts TIMESTAMP, symbol STRING, price INT"',
        'path = "trades"',
        "schema is needed",
    ),
    "no topic": (
        '[streams.quotes]\nformat = "kafka"\nservers = "localhost:9092"\ntopic = "quotes"',
        '[streams.quotes] <<\nformat = "kafka"\nservers = "localhost:9092"',
        'add topic = "trades"',
    ),
    "no format": ('format = "parquet"\npath = "trades"', 'path = "trades"', "[streams.trades] has no format"),
    "an unknown format": ('format = "kafka"', 'format = "kafak" <<', 'write format = "kafka"'),
    "a sink's format": (
        'format = "parquet"\npath = "out"',
        'format = "jdbc" <<\npath = "out"',
        '"kafka", "parquet", "delta", "console"',
    ),
    "an unknown kind of join": ('how = "inner"', 'how = "left_outer" <<', 'next step: give how="left"'),
    "an unknown routing": ('how = "inner"', 'routing = "replicate" <<', '"auto", "hash", "bucket", "broadcast"'),
    "a number as text": (
        'path = "trades"',
        'path = "trades"\nfiles_per_trigger = "4" <<',
        "a whole number, without quotation marks",
    ),
    "a number too small": ('path = "trades"', 'path = "trades"\nfiles_per_trigger = 0 <<', "0 is too small"),
    "a number for text": ('topic = "quotes"', "topic = 5 <<", "text in quotation marks"),
    "empty text": ('topic = "quotes"', 'topic = "" <<', '"" is empty'),
    "a table for a stream": (
        "[joins.pairs]",
        "[joins]\nother = 5 <<\n[joins.pairs]",
        "[joins.other] with its keys below it",
    ),
    "a name that is none": ("[tables.levels]", "[tables.9-levels] <<", "letters, digits and underscores"),
    "a stream that is not there": ('right = "quotes"', 'right = "quote" <<', "write quotes"),
    "a predicate that is no SQL": (
        'on = "left.price BETWEEN right.bid - 5 AND right.bid + 5"',
        'on = "left.price BETWEEN" <<',
        "joins.pairs.on",
    ),
    "a predicate over unknown streams": (
        '"left.price >= right.low"',
        '"pairs.price >= right.low" <<',
        "joins.graded.on",
    ),
    "a duration": ('time = "1 second"', 'time = "1 sec" <<', 'write "1 seconds"'),
    "a lateness": ('ts = "ts"', 'ts = "ts"\nlateness = "soon" <<', "the duration 'soon'"),
    "a lateness that is a number": ('ts = "ts"', 'ts = "ts"\nlateness = 2 <<', 'lateness = "5 seconds"'),
    "a column of Kafka's that is not kept": (
        'topic = "quotes"',
        'topic = "quotes"\nkeep = ["ofset"] <<',
        'next step: write keep = ["offset"]',
    ),
    "a negative lateness": ('ts = "ts"', 'ts = "ts"\nlateness = "-5 seconds"', "lateness='-5 seconds'"),
    "a window by time and count": (
        'time = "1 second"',
        'time = "1 second"\ncount = 5',
        "the window has both time and count",
    ),
    "a window by nothing": ('time = "1 second"\n', "", "the window has neither time nor count"),
    "a window without ts": ('time = "1 second"\nts = "ts"', 'time = "1 second"', 'add ts = "ts"'),
    "an order in a window by time": ('ts = "ts"', 'ts = "ts"\norder_by = "ts" <<', "order_by in a window by time"),
    "a window for one side": ('time = "1 second"', 'time = { left = "1 second" } <<', "write { left = …, right = … }"),
    "no window": ('[joins.pairs.window]\ntime = "1 second"\nts = "ts"\n', "", "[joins.pairs] has no window"),
    "a window beside a table": (
        'right = "levels"',
        'right = "levels"\nwindow = { count = 5 } <<',
        "levels is a table to look up",
    ),
    "a kind that a table cannot have": (
        'right = "levels"',
        'right = "levels"\nhow = "full" <<',
        '"full" with the table on the right',
    ),
    "cores beside a table": ('right = "levels"', 'right = "levels"\ncores = 4 <<', "take cores out"),
    "late rows of a semi join": ('how = "inner"', 'how = "semi"\nlate = "keep" <<', 'late="keep" with how='),
    "a table in a join of many": (
        "[sink]",
        '[joins.all]\nstreams = { a = "graded", b = "levels" } <<\non = "a.x = b.x"\nwindow = { count = 5 }\n[sink]',
        '"levels" is a table to look up',
    ),
    "many that are not connected": (
        "[sink]",
        '[joins.all]\nstreams = { a = "graded", b = "trades" }\non = "a.x = 1" <<\nwindow = { count = 5 }\n[sink]',
        "joins.all.on",
    ),
    "one name twice": (
        "[tables.levels]",
        '[tables.trades] <<\nformat = "csv"\npath = "x"\n[tables.levels]',
        "trades is also one of the streams",
    ),
    "a circle": ('left = "trades"', 'left = "graded" <<', "a circle"),
    "a join that nobody reads": (
        "[sink]",
        '[joins.other] <<\nleft = "trades"\nright = "levels"\non = "left.price = right.low"\n[sink]',
        "nobody reads the results of",
    ),
    "an input that is not there": ('path = "out"', 'path = "out"\ninput = "grade" <<', 'write input = "graded"'),
    "an input that another join reads": ('path = "out"', 'path = "out"\ninput = "pairs" <<', 'write input = "graded"'),
    "no checkpoint": ('checkpoint = "checkpoint"\n', "", "there is no checkpoint for a sink in parquet"),
    "a sink in the folder of a source": ('path = "out"', 'path = "trades" <<', "sink.path a folder of its own"),
    "a sink in it by another way": (
        'path = "out"',
        'path = "./levels/../trades//" <<',
        "folder of streams.trades.path",
    ),
    "a sink below a source": ('path = "out"', 'path = "trades/out" <<', "folder of streams.trades.path"),
    "a sink above a source": ('path = "trades"', 'path = "out/trades"', "folder of streams.trades.path"),
    "a sink in the folder of a table": ('path = "out"', 'path = "levels" <<', "folder of tables.levels.path"),
    "a sink in the checkpoint": ('checkpoint = "checkpoint"', 'checkpoint = "out" <<', "folder of sink.path"),
    "a sink below the checkpoint": ('path = "out"', 'path = "checkpoint/out"', "folder of sink.path"),
    "a checkpoint below the sink": ('checkpoint = "checkpoint"', 'checkpoint = "out/_it" <<', "folder of sink.path"),
    "a checkpoint for a source": (
        'checkpoint = "checkpoint"',
        'checkpoint = "trades" <<',
        "streams.trades.path lie in",
    ),
    "a source in the checkpoint": ('path = "levels"', 'path = "checkpoint/x"', "folder of tables.levels.path"),
    "a source with stars": ('path = "trades"', 'path = "{a,o[^a]}*/day=*"', "folder of streams.trades.path"),
    "a name with a number of 5,000 digits": ('name = "near"', f"name = {'1' * 5000} <<", "number of 5,000 characters"),
    "a number that cannot be told": ('name = "near"', f"name = 0x{'f' * 4000} <<", "number of 4,002 characters"),
    "arrays in each other": ('name = "near"', f"name = {'[' * 5000} <<", "11 brackets in each other"),
    "tables in each other": ('name = "near"', f"name = {'{a=' * 5000} <<", "11 brackets in each other"),
    "arrays over lines": ('name = "near"', 'name = [\n# [\n"[",\n' + "[" * 9 + "\n[ <<\n", "11 brackets in each other"),
    "a key of 501 parts": ('name = "near"', f"name{'.a' * 500} = 1 <<", "a key of 501 parts"),
    "a table of many parts": ("[tables.levels]", "[a" + ' . "."' * 40_000 + "] <<", "a key of 40,001 parts"),
    "quotation marks without an end": ('name = "near"', 'name = "' + '\\"' * 50_000 + " <<", "this is not TOML"),
    "a folder with a control character": (
        'path = "out"',
        r'path = "o\u0000t" <<',
        r'"o\u0000t" has control characters',
    ),
    "a name with control characters": ('name = "near"', r'name = "\u001b[2J\u009b" <<', r'"\u001b[2J\x9b" has control'),
    "a key with control characters": ('name = "near"', r'"\u001b[2J\u202e" = "" <<', r"\x1b[2J\u202e out"),
    "two triggers": (
        'every = "5 seconds"',
        'every = "5 seconds"\navailable_now = true',
        "both every and available_now",
    ),
    "a trigger's time": ('every = "5 seconds"', 'every = "5s" <<', 'write "5 seconds"'),
    "a setting that is not Spark's": (
        "spark.sql.shuffle.partitions = 2",
        "sql.shuffle.partitions = 2 <<",
        'write "spark.sql',
    ),
    "a setting that is an array": (
        "spark.sql.shuffle.partitions = 2",
        "spark.jars = [1] <<",
        "write its value as text",
    ),
    "a variable that is not set": ('topic = "quotes"', 'topic = "${NO_SUCH_TOPIC}" <<', "export NO_SUCH_TOPIC=…"),
}
PLACES = {
    "no streams": 1,
    "no sink": 1,
    "no schema": 4,
    "no format": 4,
    "a negative lateness": 26,
    "a window by time and count": 25,
    "a window by nothing": 25,
    "a window without ts": 25,
    "no window": 19,
    "a circle": 19,
    "a join that nobody reads": 29,
    "no checkpoint": 33,
    "a sink below the checkpoint": 2,
    "a source in the checkpoint": 2,
    "a sink above a source": 36,
    "a source with stars": 36,
    "two triggers": 38,
}
"""Lines of what is missing, or concerns a table as a whole."""


def test_the_good_job_is_good() -> None:
    assert list(job_of(GOOD, Path("job.toml")).job.joins) == ["pairs", "graded"]


@pytest.mark.parametrize("case", CASES)
def test_a_bad_job_has_one_message_at_its_line(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new, told = CASES[case]
    assert GOOD.count(old) == 1
    marked = GOOD.replace(old, new).split("\n")
    line = PLACES.get(case) or next(number for number, text in enumerate(marked, 1) if "<<" in text)
    file = tmp_path / "job.toml"
    file.write_text("\n".join(text.replace(" <<", "") for text in marked), encoding="utf-8")
    assert main(["run", str(file)]) == 2
    said = capsys.readouterr().err
    assert f"job.toml, line {line}" in said.splitlines()[0]
    assert told in said
    assert said.count("  allowed: ") == said.count("  next step: ") == 1
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("read", "written", "is_refused"),
    [
        ("file://{home}/trades", "trades", True),
        ("trades", "file:{home}/link", True),
        ("link/below", "FILE:///{home}/trades", True),
        ("s3a://bucket/a/../trades", "s3a://bucket/trades/x", True),
        ("hdfs:/trades", "hdfs:///trades/", True),
        ("s3a://bucket/", "s3a://bucket/trades", True),
        ("s3a://bucket/trades", "s3a://other/trades", False),
        ("s3a://bucket/trades", "trades", False),
        ("trades", "trades2", False),
        ("trades/*.parquet", "trades/out", False),
        ("day/{{a,b}}{{c,d}}", "day/bd", True),
        ("day/{{a,b}}", "day/c", False),
        ("day/c", "day/*", False),
    ],
)
def test_folders_are_compared_as_they_are(read: str, written: str, is_refused: bool, tmp_path: Path) -> None:
    (tmp_path / "trades").mkdir()
    (tmp_path / "link").symlink_to("trades")
    text = GOOD.replace('path = "trades"', f'path = "{read.format(home=tmp_path)}"')
    text = text.replace('path = "out"', f'path = "{written.format(home=tmp_path)}"')
    if not is_refused:
        assert job_of(text, tmp_path / "job.toml").job.joins
        return
    with pytest.raises(JobError, match=r"folder of streams\.trades\.path lie in each other"):
        job_of(text, tmp_path / "job.toml")


def test_all_problems_come_at_once_by_line() -> None:
    text = GOOD.replace('"inner"', '"outer"').replace('"parquet"\npath = "trades"', '"parket"\npath = "trades"')
    with pytest.raises(JobError) as raised:
        job_of(text, Path("job.toml"))
    assert [line for line, _ in raised.value.problems] == [5, 23]


def test_a_file_without_an_end_is_not_read_to_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "/dev/zero"]) == 2
    said = capsys.readouterr().err
    assert "zero: the file is too large for a job\n  allowed: at most 262,144 characters" in said


def test_what_is_deep_but_not_too_deep_is_read() -> None:
    settings = "".join(f'spark.{"a." * 8}"b.{number}" = "{"[" * 50}{"x" * 500}" # {"[" * 50}\n' for number in range(20))
    job = job_of(GOOD + settings + "spark.x = '''" + "[" * 50 + "'''\n", Path("job.toml")).job
    assert len(job.spark.settings) == 22


def test_a_file_that_is_not_there_says_how_to_begin(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["explain", str(tmp_path / "none.toml")]) == 2
    said = capsys.readouterr().err
    assert "No such file" in said
    assert "watersmeet init none.toml" in said


def test_variables_of_the_environment_are_filled_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOPIC", "quotes of today")
    file = job_of(GOOD.replace('topic = "quotes"', 'topic = "${TOPIC}"'), Path("job.toml"))
    quotes = file.job.streams["quotes"]
    assert isinstance(quotes, KafkaSource)
    assert quotes.topic == "quotes of today"


def test_a_duration_is_told_without_what_toml_has_not() -> None:
    with pytest.raises(JobError) as raised:
        job_of(GOOD.replace('"5 seconds"', '"soon"'), Path("job.toml"))
    assert raised.value.allowed.startswith("numbers with units in full")
