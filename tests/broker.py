"""A real Kafka: one process that is broker and controller (KRaft), on loopback, with little memory.

It ends with the test, even with one that is killed (see :mod:`benchmarks.daemon`). What tests write and read goes
through a client that is not Spark's, so Spark has no part in what is compared.
"""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.daemon import Daemon
from jars import jars, java

LOOPBACK: Final = "127.0.0.1"
JVM: Final = ("-Xms64m", "-Xmx256m", "-XX:MaxMetaspaceSize=128m", "-XX:MaxDirectMemorySize=64m", "-XX:+UseSerialGC")
QUIET: Final = (
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info",  # says that it has started
)
SETTINGS: Final = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller}
listeners=PLAINTEXT://{host}:{broker},CONTROLLER://{host}:{controller}
controller.listener.names=CONTROLLER
log.dirs={folder}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
auto.create.topics.enable=false
log.cleaner.dedupe.buffer.size=4194304
"""
CLUSTER: Final = "d2F0ZXJzbWVldC10ZXN0cw"
"""Sixteen bytes in base 64; drawn ones may begin with a hyphen, which the command takes for an option."""
PATIENCE_SECONDS: Final = 60
MOST_AT_ONCE: Final = 100_000
"""Messages; the client takes no more than a million."""


@dataclass(frozen=True)
class Record:
    """One message of a topic."""

    partition: int
    offset: int
    key: str | None
    value: str


class Broker:
    """A Kafka with one broker; a ``with`` statement ends it."""

    def __init__(self, folder: Path) -> None:
        """Start it, with its topics and its log in a new ``folder``."""
        folder.mkdir()
        broker, controller = _free_ports(2)
        self.servers = f"{LOOPBACK}:{broker}"
        settings = folder / "settings"
        settings.write_text(
            SETTINGS.format(host=LOOPBACK, broker=broker, controller=controller, folder=folder / "topics"),
            encoding="utf-8",
        )
        program = [java(), *JVM, *QUIET, "-XX:TieredStopAtLevel=1", "-cp", os.pathsep.join(map(str, jars("broker")))]
        formatting = ["kafka.tools.StorageTool", "format", "--cluster-id", CLUSTER, "--config", str(settings)]
        done = subprocess.run(
            [*program, *formatting], capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS
        )
        assert done.returncode == 0, f"{done.stdout}{done.stderr}"
        self._daemon = Daemon([*program, "kafka.Kafka", settings], folder / "kafka", {})
        try:
            self._daemon.await_line("(Kafka Server started)")
        except RuntimeError:
            self._daemon.kill()
            raise
        self._consumer = Consumer(
            {"bootstrap.servers": self.servers, "group.id": "reader", "enable.auto.commit": False}
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._consumer.close()
        self._daemon.kill()

    def create(self, *topics: str, partitions: int = 2) -> None:
        """Create topics."""
        new = [NewTopic(topic, num_partitions=partitions, replication_factor=1) for topic in topics]
        client = AdminClient({"bootstrap.servers": self.servers})  # named: what it promises ends with it
        for created in client.create_topics(new).values():
            created.result(PATIENCE_SECONDS)

    def write(self, topic: str, values: Iterable[str], *, partitions: int = 2) -> None:
        """Write messages, to one partition after the other."""
        producer = Producer({"bootstrap.servers": self.servers, "queue.buffering.max.messages": 1_000_000})
        for number, value in enumerate(values):
            producer.produce(topic, value, partition=number % partitions)
        assert producer.flush(PATIENCE_SECONDS) == 0, "messages that were not written"

    def read(self, topic: str, *, partitions: int = 2) -> list[Record]:
        """Return all messages of a topic."""
        return [record for partition in range(partitions) for record in self._read(topic, partition)]

    def count(self, topic: str, *, partitions: int = 2) -> int:
        """Return how many messages a topic has."""
        return sum(self._end(topic, partition) for partition in range(partitions))

    def _read(self, topic: str, partition: int) -> list[Record]:
        end = self._end(topic, partition)
        self._consumer.assign([TopicPartition(topic, partition, 0)])
        records: list[Record] = []
        while len(records) < end:
            found = self._consumer.consume(min(end - len(records), MOST_AT_ONCE), timeout=PATIENCE_SECONDS)
            assert found, f"{end - len(records)} messages of {topic} do not come"
            records += map(_record, found)
        return records

    def _end(self, topic: str, partition: int) -> int:
        """Return the offset of the next message; the first one has 0."""
        return self._consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=PATIENCE_SECONDS)[1]


def _record(message: Message) -> Record:
    if error := message.error():
        raise KafkaException(error)
    partition, offset, key, value = message.partition(), message.offset(), message.key(), message.value()
    assert partition is not None
    assert offset is not None
    assert value is not None
    return Record(partition, offset, None if key is None else key.decode(), value.decode())


def _free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on."""
    sockets = [socket.create_server((LOOPBACK, 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports
