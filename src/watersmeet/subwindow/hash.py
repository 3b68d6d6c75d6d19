"""Hash: extendible hashing, for equality.

Chakraborty and Singh's fine-tuned partitions (paper 004, section IV-D): a directory of 2^d buckets by the d low bits
of a mixed hash of the key, every bucket kept between theta and 2 * theta rows. A bucket that would exceed 2 * theta is
split by its next hash bit, and the directory doubled when the bucket already uses all of its bits. A bucket below
theta is merged with its buddy when both have the same depth and together fewer than 2 * theta rows; the directory is
halved when no bucket needs its last bit.

Invariant. All rows of one key are in one bucket. A bucket of more than 2 * theta rows holds a single key, which no bit
can split apart, or has reached the greatest depth, ``DEPTH_TO_SPARE`` bits more than an even hash needs (so that a few
hot keys cannot inflate the directory). Its rows then continue on overflow pages chained to the bucket.

Cost. Insert and point lookup: one bucket, prefetched. A row is moved by splits about 1.5 times in all. A range with
``lo < hi`` is answered too, by a scan of all rows: right, but no reason to choose a hash.

Departures from the paper.

- Rows never expire singly, so a bucket never shrinks, and the two halves of a split bucket have more than 2 * theta
  rows together for ever: splits alone leave nothing to merge. What can be underfull is a bucket that was there from
  the start: a subwindow begins with about as many buckets as its predecessor ended with (a power of two, all of one
  depth), which spares it most of the splits, and ``seal`` merges those that turned out to be too many.
- The paper's formula for the buddy's first entry, ``l +- 2^(d-d')``, numbers entries by their high bits although its
  directory uses the low ones. By low bits the buddy of pattern ``p`` of depth d' is ``p XOR 2^(d'-1)``.
- Sizes are in rows, not in blocks, and a bucket is one page: short enough to scan in a few cache lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from watersmeet.arrays import Bools, Int32s, Int64s
from watersmeet.kernels import extendible_hash, llat
from watersmeet.kernels.extendible_hash import DIRECTORY_FULL, DONE
from watersmeet.subwindow.chains import chained_pairs
from watersmeet.subwindow.contract import Entries, Matches, Pairs, Probes
from watersmeet.subwindow.scan import scanned_pairs, sorted_entries

__all__ = ["Hash"]

THETA = 16
FIRST_PAGES = 16
DEPTH_TO_SPARE = 3


class Hash:
    """A hashed subwindow.

    Parameters
    ----------
    capacity
        The most rows that will ever be inserted.
    predecessor
        The subwindow before this one: its number of buckets is the number to begin with.
    theta
        Buckets are kept between ``theta`` and ``2 * theta`` rows.
    """

    supports_groups: ClassVar[bool] = False
    equality_only: ClassVar[bool] = True
    fixed_capacity: ClassVar[bool] = True
    scans: ClassVar[bool] = False

    def __init__(
        self,
        capacity: int,
        predecessor: Hash | None = None,
        theta: int = THETA,
    ) -> None:
        self._theta = theta
        self._size = 0
        self._deepest = (max(1, capacity) // theta).bit_length() + DEPTH_TO_SPARE
        depth = 0 if predecessor is None else min(len(predecessor.bucket_numbers()).bit_length() - 1, self._deepest)
        self._used = 1 << depth
        pages = max(self._used, FIRST_PAGES)
        self._table = llat.new_table(pages, 2 * theta)
        self._depth: Int32s = np.full(pages, depth, np.int32)
        self._pattern: Int64s = np.arange(pages, dtype=np.int64)
        self._directory: Int32s = np.arange(self._used, dtype=np.int32)
        self._sealed = False

    @property
    def directory(self) -> Int32s:
        """The bucket of every pattern of ``global_depth`` low bits."""
        return self._directory

    @property
    def global_depth(self) -> int:
        """The number of hash bits that the directory uses."""
        return len(self._directory).bit_length() - 1

    @property
    def deepest(self) -> int:
        """The depth at which a bucket overflows instead of splitting."""
        return self._deepest

    def buckets(self) -> list[tuple[int, int, Int64s]]:
        """Return pattern, local depth and keys of every bucket (for tests and inspection)."""
        bucket = self.bucket_numbers()
        key, _, start, fill, _, _ = llat.pack_chains(self._table, bucket)
        return [
            (int(self._pattern[b]), int(self._depth[b]), key[begin : begin + size])
            for b, begin, size in zip(bucket, start, fill, strict=True)
        ]

    def bucket_numbers(self) -> Int32s:
        """Return the buckets' first pages; overflow pages and merged buckets are not among them."""
        return np.flatnonzero(np.bincount(self._directory)).astype(np.int32)

    def insert(self, entries: Entries) -> None:
        """Store a batch."""
        hashed = extendible_hash.mix_keys(entries.key)
        done = 0
        while True:
            done, self._used, need = extendible_hash.insert_rows(
                self._table,
                2 * self._theta,
                self._depth,
                self._pattern,
                self._directory,
                self._deepest,
                self._used,
                entries.key,
                entries.row,
                hashed,
                done,
            )
            if need == DONE:
                break
            if need == DIRECTORY_FULL:
                self._directory = np.concatenate((self._directory, self._directory))
            else:
                self._add_pages()
        self._size += len(entries)

    def _add_pages(self) -> None:
        pages = len(self._depth)
        more = pages // 2
        self._table = llat.grow_table(self._table, pages + more, 2 * self._theta)
        self._depth = np.append(self._depth, np.zeros(more, np.int32))
        self._pattern = np.append(self._pattern, np.zeros(more, np.int64))

    def probe(self, probes: Probes) -> Iterator[Matches]:
        """Yield all matches of a batch of probes; points by lookup, ranges by a scan."""
        if not self._size or not len(probes):
            return
        point = probes.lo == probes.hi
        if point.all():
            yield from self._look_up(probes)
            return
        scanned = probes.lo < probes.hi
        if point.any():
            yield from self._look_up(_picked(probes, point))
        if scanned.any():
            yield from scanned_pairs(*self._rows(), _picked(probes, scanned))

    def _look_up(self, points: Probes) -> Iterator[Pairs]:
        mask = np.uint64(len(self._directory) - 1)
        bucket = self._directory[(extendible_hash.mix_keys(points.lo) & mask).view(np.int64)]
        one_bucket_each = bucket  # a point has no second chain to follow to
        return chained_pairs(self._table, one_bucket_each, bucket, bucket, points)

    def _rows(self) -> tuple[Int64s, Int32s]:
        """Return all rows without gaps."""
        key, row, *_ = self._table if self._sealed else llat.pack_chains(self._table, self.bucket_numbers())
        return key, row

    def seal(self) -> None:
        """Merge underfull buddies, halve the directory as often as possible and pack the buckets."""
        depth_needed = extendible_hash.merge_buddies(
            self._table, self._theta, self._depth, self._pattern, self._directory, self._used
        )
        directory = self._directory[: 1 << depth_needed]
        bucket = self.bucket_numbers()
        self._table = llat.pack_chains(self._table, bucket)
        self._depth = self._depth[bucket]
        self._pattern = self._pattern[bucket]
        number: Int32s = np.zeros(self._used, np.int32)
        number[bucket] = np.arange(len(bucket), dtype=np.int32)
        self._directory = number[directory]
        self._used = len(bucket)
        self._sealed = True

    @property
    def nbytes(self) -> int:
        """Bytes of memory held."""
        return llat.table_bytes(self._table) + self._depth.nbytes + self._pattern.nbytes + self._directory.nbytes

    def snapshot(self) -> Entries:
        """Return every stored row, sorted."""
        return sorted_entries(*self._rows())


def _picked(probes: Probes, which: Bools) -> Probes:
    return Probes(probes.lo[which], probes.hi[which], probes.who[which])
