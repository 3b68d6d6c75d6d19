"""The job that ``watersmeet init`` writes: it runs as it stands, and its comments say what else there is."""

from __future__ import annotations

from typing import Final

import pyspark

from watersmeet.jobs.packages import lines_for

__all__ = ["EXAMPLE"]

EXAMPLE: Final = """\
# A job of watersmeet. Run it:         watersmeet run job.toml
# See what it will do:                 watersmeet explain job.toml
# All keys, for editors and people:    watersmeet schema, and docs/jobs.md
#
# It runs as it stands: two generated streams are joined, and results are shown here. Ctrl-C ends it.

name = "trades near quotes"
# checkpoint = "checkpoint"            # a folder; needed for every sink but the console, so that restarts go on

[streams.trades]
format = "rate"                        # or kafka, parquet, json, csv, delta; see below
rows_per_second = 20
select = ["timestamp AS ts", "CAST(value % 7 AS INT) AS symbol", "CAST(value * 37 % 1000 AS INT) AS price"]

[streams.quotes]
format = "rate"
rows_per_second = 50
select = ["timestamp AS ts", "CAST(value % 7 AS INT) AS symbol", "CAST(value * 53 % 1000 AS INT) AS bid"]

# A stream from files, a micro-batch of at most so many files:
# [streams.trades]
# format = "parquet"                   # or json, csv
# path = "data/trades"                 # beside this file, or an address such as s3a://bucket/trades
# schema = "ts TIMESTAMP, symbol INT, price INT"
# files_per_trigger = 10
#
# A stream from Kafka, whose values are JSON objects; it needs a package, see [spark.settings]:
# [streams.trades]
# format = "kafka"
# servers = "localhost:9092"
# topic = "trades"
# schema = "ts TIMESTAMP, symbol INT, price INT"
# starting_offsets = "earliest"
# arrival = "arrived"                  # a column with Kafka's time, for the latency from arrival
# options = { "kafka.security.protocol" = "SASL_SSL", "kafka.sasl.jaas.config" = "${KAFKA_LOGIN}" }

[joins.pairs]
left = "trades"
right = "quotes"
on = "left.symbol = right.symbol AND left.price BETWEEN right.bid - 5 AND right.bid + 5"
window = { time = "10 seconds", ts = "ts", lateness = "2 seconds" }
# how = "left"                         # inner, left, right, full, semi, anti
# select = ["left_ts AS ts", "price - bid AS spread"]

[sink]
format = "console"                     # or kafka, parquet, delta
rows = 5
# format = "parquet"
# path = "data/pairs"

[trigger]
every = "2 seconds"
# available_now = true                 # instead: take all there is, then end

[spark]
# master = "spark://host:7077"         # all cores of this machine when left out
memory = "1g"

[spark.settings]
spark.sql.shuffle.partitions = 2
# For Kafka, Spark's package of its own:
""" + "".join(f"# {line}\n" for line in lines_for("kafka", pyspark.__version__))
