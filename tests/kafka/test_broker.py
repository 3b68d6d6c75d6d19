"""A broker keeps what it is given, and ends with the process that started it, however that ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from outliving import check_that_all_end_with_their_starter

STARTER = """
import sys
from pathlib import Path
from broker import Broker

broker = Broker(Path(sys.argv[1]))
broker.create("topic")
broker.write("topic", ["one", "two", "three"])
print([(record.partition, record.value) for record in broker.read("topic")], flush=True)
sys.stdin.read()
"""


@pytest.mark.long
def test_no_broker_outlives_a_starter_that_is_killed(tmp_path: Path) -> None:
    says = "[(0, 'one'), (0, 'three'), (1, 'two')]"
    check_that_all_end_with_their_starter(STARTER, tmp_path / "broker", says=says, marked="kafka.Kafka")
