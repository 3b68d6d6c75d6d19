"""The layout of a snapshot: sections of bytes behind a header, with any content.

``MAGIC`` (16 bytes), the format's version (2 bytes), a BLAKE2b digest of the rest (16 bytes), then the sections, each
with its length before it (8 bytes). The digest finds accidents; anybody can compute it, so what the sections hold is
distrusted nonetheless (:mod:`watersmeet.engine.saved_state`). Whatever goes wrong while bytes are read is raised as
:class:`~watersmeet.spec.errors.SnapshotError`.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from watersmeet.engine.arrow_bytes import DAMAGE
from watersmeet.spec.errors import SnapshotError

__all__ = ["MAGICS", "read_sections", "refuse_damaged", "refusing_damage", "write_sections"]

MAGIC_SIZE: Final = 16
MAGICS: Final = {"StreamJoin": b"watersmeet-state", "MultiStreamJoin": b"watersmeet-multi"}
"""How a snapshot of each kind of join begins."""
DIGEST_SIZE: Final = 16
HEADER: Final = struct.Struct(f"<{MAGIC_SIZE}sH{DIGEST_SIZE}s")
LENGTH: Final = struct.Struct("<Q")


def write_sections(magic: bytes, version: int, sections: list[bytes]) -> bytes:
    """Return sections as the bytes of a snapshot."""
    body = b"".join(LENGTH.pack(len(section)) + section for section in sections)
    return HEADER.pack(magic, version, _digest(body)) + body


def read_sections(magic: bytes, versions: tuple[int, ...], blob: bytes) -> tuple[int, list[bytes]]:
    """Check version and digest; return the version and the sections that :func:`write_sections` was given."""
    if not isinstance(blob, bytes | bytearray | memoryview):
        raise SnapshotError(
            f"restore() was given a {type(blob).__name__}",
            "the bytes that snapshot() returned",
            "read a file that holds them with pathlib.Path(…).read_bytes()",
        )
    blob = bytes(blob)
    if len(blob) < HEADER.size:
        raise refuse_damaged(f"it has {len(blob)} bytes, fewer than its header")
    its_magic, its_version, digest = HEADER.unpack_from(blob)
    if its_magic != magic and its_magic in MAGICS.values():
        kinds = {begin: kind for kind, begin in MAGICS.items()}
        raise SnapshotError(
            f"this is the snapshot of a {kinds[its_magic]}",
            f"the bytes that snapshot() of a {kinds[magic]} returned",
            f"restore it with {kinds[its_magic]}.restore(…)",
        )
    if its_magic != magic:
        raise refuse_damaged("it does not begin as one")
    if its_version not in versions:
        raise SnapshotError(
            f"the snapshot has format version {its_version}",
            f"versions {', '.join(map(str, versions))}",
            "restore it with the watersmeet that wrote it; CHANGELOG.md says which releases changed the format",
        )
    body = blob[HEADER.size :]
    if _digest(body) != digest:
        raise refuse_damaged("its digest does not fit its content")
    sections, position = [], 0
    while position < len(body):
        if len(body) < position + LENGTH.size:
            raise refuse_damaged("its last section is cut off")
        (length,) = LENGTH.unpack_from(body, position)
        position += LENGTH.size
        if length > len(body) - position:
            raise refuse_damaged("its last section is cut off")
        sections.append(body[position : position + length])
        position += length
    return its_version, sections


@contextmanager
def refusing_damage() -> Iterator[None]:
    """Raise all errors while a snapshot is read or loaded as :class:`SnapshotError`."""
    try:
        yield
    except SnapshotError:
        raise
    except DAMAGE as error:
        raise refuse_damaged(f"its content cannot be read ({type(error).__name__}: {error})") from error


def _digest(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=DIGEST_SIZE).digest()


def refuse_damaged(why: str) -> SnapshotError:
    """Return the error for bytes that are no snapshot of this join."""
    return SnapshotError(
        f"this is no watersmeet snapshot, or it is damaged: {why}",
        "the bytes that snapshot() of a join of this kind returned, unchanged",
        "restore an earlier snapshot",
    )
