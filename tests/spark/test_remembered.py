"""What a worker remembers: those used last, within a limit. Without Spark."""

from __future__ import annotations

import pytest

from watersmeet.spark import remembered
from watersmeet.spark.remembered import Owner, Remembered, Turns


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Remembered[str, int]:
    monkeypatch.setattr(remembered, "REMEMBERED_BYTES", 10)
    return Remembered()


def known(memory: Remembered[str, int], keys: str) -> str:
    return "".join(key for key in keys if memory.get(key) is not None)


def test_those_not_used_for_longest_are_forgotten_first(memory: Remembered[str, int]) -> None:
    for value, key in enumerate("abc", 1):
        memory.put(key, value, 3)
    assert memory.get("a") == 1
    memory.put("d", 4, 4)  # 13 bytes: b goes, which was used before a
    assert known(memory, "abcd") == "acd"


def test_the_last_one_is_kept_whatever_it_takes(memory: Remembered[str, int]) -> None:
    memory.put("a", 1, 4)
    memory.put("b", 2, 40)
    assert known(memory, "ab") == "b"
    memory.put("c", 3, 4)
    assert known(memory, "bc") == "c"


def test_a_value_put_again_counts_once(memory: Remembered[str, int]) -> None:
    memory.put("a", 1, 4)
    for value in range(9):
        memory.put("b", value, 6)
    assert (memory.get("a"), memory.get("b")) == (1, 8)


def test_what_is_gone_makes_room(memory: Remembered[str, int]) -> None:
    memory.put("a", 1, 5)
    memory.put("b", 2, 5)
    memory.forget(lambda key, _: key == "a")
    assert memory.pop("a") is None
    memory.put("c", 3, 5)
    assert known(memory, "abc") == "bc"
    assert memory.pop("b") == 2
    memory.clear()
    assert known(memory, "abc") == ""
    memory.put("d", 4, 10)
    memory.put("e", 5, 0)
    assert known(memory, "de") == "de"


def served(turns: Turns, cores: str, join: str = "j") -> str:
    return "".join(core for core in cores if turns.serves(Owner(join, ord(core))))


def test_a_core_is_served_until_it_misses_a_micro_batch() -> None:
    turns = Turns()
    for micro_batch in ("abc", "cba", "bac"):
        for core in micro_batch:
            turns.begin(Owner("j", ord(core)))
            assert core in served(turns, "abc")
    assert served(turns, "abc") == "abc"
    for core in "ababab":
        turns.begin(Owner("j", ord(core)))
    assert served(turns, "abc") == "ab"


def test_the_turns_of_another_join_say_nothing() -> None:
    turns = Turns()
    turns.begin(Owner("slow", ord("a")))
    for _ in range(9):
        turns.begin(Owner("fast", ord("a")))
    assert served(turns, "a", "slow") == "a"
    assert served(turns, "b", "slow") == ""
    assert served(turns, "a", "other") == ""
