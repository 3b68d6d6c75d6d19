"""The cache of decoded runs: a file that is not just as it was written is no file."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from watersmeet.spark import run_cache
from watersmeet.spark.run_cache import MOST_OPEN, PREFIX, RunCache

CONTENT = np.random.default_rng(3).bytes(1003)  # no whole number of words
LIMIT = 10_000


@pytest.fixture
def cache(tmp_path: Path) -> RunCache:
    return RunCache(tmp_path / "watersmeet", LIMIT)


def _file(tmp_path: Path, name: str = "one") -> Path:
    return tmp_path / "watersmeet" / f"{name}.run"


def _content(cache: RunCache, name: str = "one") -> bytes | None:
    found = cache.get(name)
    return None if found is None else found.content.to_pybytes()


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 1003])
def test_a_run_comes_back_as_it_was(cache: RunCache, size: int) -> None:
    cache.put("one", CONTENT[:size])
    cache.put("two", pa.py_buffer(CONTENT))
    assert _content(cache) == CONTENT[:size]
    assert _content(cache, "two") == CONTENT


def test_what_was_never_put_is_not_there(cache: RunCache) -> None:
    assert _content(cache) is None
    cache.put("one", CONTENT)
    assert _content(cache, "two") is None


def test_the_content_begins_aligned(cache: RunCache) -> None:
    cache.put("one", CONTENT)
    found = cache.get("one")
    assert found is not None
    assert found.content.address % 8 == 0


def test_no_draft_is_left(cache: RunCache, tmp_path: Path) -> None:
    cache.put("one", CONTENT)
    assert [file.name for file in (tmp_path / "watersmeet").iterdir()] == ["one.run"]


def test_a_dropped_run_is_gone_and_what_is_mapped_stays(cache: RunCache) -> None:
    cache.put("one", CONTENT)
    mapped = cache.get("one")
    assert mapped is not None
    cache.drop("one")
    cache.drop("one")
    assert _content(cache) is None
    assert mapped.is_intact
    assert mapped.content.to_pybytes() == CONTENT


def _flip(place: int) -> Callable[[bytes], bytes]:
    return lambda whole: whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]


@pytest.mark.parametrize(
    "damage",
    [
        _flip(0),
        _flip(8),
        _flip(16),
        _flip(PREFIX.size),
        _flip(PREFIX.size + 500),
        _flip(-1 % (PREFIX.size + len(CONTENT))),
        lambda _: b"",
        lambda whole: whole[: PREFIX.size - 1],
        lambda whole: whole[: PREFIX.size],
        lambda whole: (
            whole[: PREFIX.size]
            + whole[PREFIX.size + 8 : PREFIX.size + 16]
            + whole[PREFIX.size : PREFIX.size + 8]
            + whole[PREFIX.size + 16 :]
        ),
        lambda whole: whole[:-1],
        lambda whole: whole + b"\0",
        lambda whole: b"another!" + whole[8:],
        lambda whole: np.random.default_rng(4).bytes(len(whole)),
        lambda whole: bytes(len(whole)),
    ],
    ids=[
        *("magic", "size", "checksum", "first byte", "a byte", "last byte", "empty", "half a header", "no content"),
        *("two words swapped", "one byte less", "one byte more", "another format", "random bytes", "zeros"),
    ],
)
def test_a_damaged_file_is_no_file_and_is_removed(
    cache: RunCache, tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    cache.put("one", CONTENT)
    file = _file(tmp_path)
    file.write_bytes(damage(file.read_bytes()))
    assert _content(cache) is None
    assert not file.exists()
    cache.put("one", CONTENT)
    assert _content(cache) == CONTENT


def test_a_file_changed_after_it_was_opened_is_noticed(cache: RunCache, tmp_path: Path) -> None:
    cache.put("one", CONTENT)
    mapped = cache.get("one")
    assert mapped is not None
    assert mapped.is_intact
    again = cache.get("one")
    assert again is not None
    assert mapped.is_intact, "opening is no change"
    file = _file(tmp_path)
    with file.open("r+b") as opened:
        opened.seek(PREFIX.size)
        opened.write(bytes(8))
    assert not mapped.is_intact
    assert _content(cache) is None


def test_a_file_shortened_after_it_was_opened_is_noticed(cache: RunCache, tmp_path: Path) -> None:
    cache.put("one", CONTENT)
    mapped = cache.get("one")
    assert mapped is not None
    os.truncate(_file(tmp_path), 100)
    assert not mapped.is_intact
    assert _content(cache) is None


def test_what_was_not_opened_for_longest_makes_room(cache: RunCache, tmp_path: Path) -> None:
    size = LIMIT // 4
    for number, name in enumerate(("one", "two", "three")):
        cache.put(name, bytes(size))
        os.utime(_file(tmp_path, name), (number, 1000))  # opened in this order, when the machine was started
    assert cache.get("one") is not None  # opened again
    cache.put("four", bytes(size))
    assert sorted(file.stem for file in (tmp_path / "watersmeet").iterdir()) == ["four", "one", "three"]
    cache.put("five", bytes(size * 2))
    assert sorted(file.stem for file in (tmp_path / "watersmeet").iterdir()) == ["five", "four"]


def test_any_two_words_may_not_change_places(cache: RunCache, tmp_path: Path) -> None:
    """Words that differ in their highest bit alone among them, and places that lie far apart."""
    random = np.random.default_rng(8)
    words = np.concatenate([random.integers(0, 4, 1 << 15, np.uint64) << np.uint64(62), np.arange(64, dtype=np.uint64)])
    cache = RunCache(tmp_path / "watersmeet", 1 << 20)
    for place, other in random.integers(0, len(words), (300, 2)).tolist():
        if words[place] == words[other]:
            continue
        cache.put("one", words.tobytes())
        with _file(tmp_path).open("r+b") as file:
            for at, word in ((place, words[other]), (other, words[place])):
                file.seek(PREFIX.size + 8 * at)
                file.write(word.tobytes())
        assert cache.get("one") is None, (place, other)


def test_more_runs_than_may_be_open_are_copied_and_stay_right(tmp_path: Path) -> None:
    cache = RunCache(tmp_path / "watersmeet", 1 << 20)
    before = run_cache._OpenFile.count  # what this process remembers of other tests
    names = [str(number) for number in range(MOST_OPEN + 50)]
    for name in names:
        cache.put(name, CONTENT + name.encode())
    found = [cache.get(name) for name in names]
    assert [run is not None and run.content.to_pybytes() for run in found] == [
        CONTENT + name.encode() for name in names
    ]
    assert [run is not None and run.is_copy for run in found].count(True) == 50 + before
    first, last = found[0], found[-1]
    assert first is not None
    assert last is not None
    for name in (names[0], names[-1]):
        _file(tmp_path, name).write_bytes(b"damaged")
    assert not first.is_intact
    assert last.is_intact, "no file can change a copy"
    del found, first
    assert not getattr(cache.get(names[1]), "is_copy", True), "files that nobody refers to are closed"


def test_the_folder_leaves_part_of_the_disk_free(
    cache: RunCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "watersmeet"
    free = 5_000

    def held() -> int:
        return sum(file.stat().st_size for file in folder.iterdir())

    monkeypatch.setattr(run_cache, "room_on_disk", lambda _: free - held())
    for number in range(30):
        cache.put(str(number), bytes(900))
        assert held() <= free
    assert cache.get("29") is not None
    free = 0  # others have filled the disk
    cache.put("30", bytes(900))
    assert cache.get("30") is None


def test_a_disk_that_becomes_full_while_a_run_is_written_costs_the_file_alone(cache: RunCache, tmp_path: Path) -> None:
    cache.put("one", CONTENT)
    (tmp_path / "watersmeet" / f"two.{os.getpid()}").symlink_to("/dev/full")
    cache.put("two", CONTENT)
    assert sorted(file.name for file in (tmp_path / "watersmeet").iterdir()) == ["one.run"]
    assert _content(cache) == CONTENT


def test_the_folder_stays_below_its_bound(cache: RunCache, tmp_path: Path) -> None:
    for number in range(30):
        cache.put(str(number), bytes(900))
        held = sum(file.stat().st_size for file in (tmp_path / "watersmeet").iterdir())
        assert held <= LIMIT + PREFIX.size
    assert cache.get("29") is not None


def test_a_run_larger_than_the_bound_is_not_kept(cache: RunCache) -> None:
    cache.put("one", CONTENT)
    cache.put("large", bytes(LIMIT + 1))
    assert cache.get("large") is None
    assert _content(cache) == CONTENT


@pytest.mark.parametrize("where", ["/proc/watersmeet", "/dev/null/watersmeet"])
def test_where_nothing_can_be_written_nothing_is_kept(where: str) -> None:
    cache = RunCache(Path(where), LIMIT)
    cache.put("one", CONTENT)
    assert cache.get("one") is None
    cache.drop("one")


def test_a_file_in_the_folders_place_is_borne(cache: RunCache, tmp_path: Path) -> None:
    (tmp_path / "watersmeet").write_bytes(b"in the way")
    cache.put("one", CONTENT)
    assert cache.get("one") is None
    cache.drop("one")
    assert (tmp_path / "watersmeet").read_bytes() == b"in the way"


def test_a_folder_in_a_files_place_is_borne(cache: RunCache, tmp_path: Path) -> None:
    _file(tmp_path).mkdir(parents=True)
    assert cache.get("one") is None
    cache.put("one", CONTENT)
    assert cache.get("one") is None
    cache.drop("one")


def test_the_folder_lies_in_the_first_of_sparks_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path / 'a'},{tmp_path / 'b'}")
    cache = RunCache.of_executor(LIMIT)
    assert cache is not None
    cache.put("one", CONTENT)
    assert (tmp_path / "a" / "watersmeet" / "one.run").exists()
    monkeypatch.delenv("SPARK_LOCAL_DIRS")
    assert RunCache.of_executor(LIMIT) is None
