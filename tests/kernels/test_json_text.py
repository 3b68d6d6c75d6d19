"""Which texts are one JSON object each: what Python's own parser takes for one passes, and texts keep to themselves."""

from __future__ import annotations

import json
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from watersmeet.kernels.json_text import BLANK, NO_OBJECT, OBJECT, find_objects

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
PIECES = st.lists(
    st.sampled_from([b"{", b"}", b"[", b"]", b'"', b"\\", b",", b":", b"1", b" ", b"\n", b"a"]), max_size=12
)


def found(*texts: bytes) -> list[int]:
    """Return what the kernel finds, with bytes before and behind that are none of theirs."""
    ends = np.cumsum([3, *map(len, texts)]).astype(np.int32)
    data = np.frombuffer(b'"{{' + b"".join(texts) + b"}}", np.uint8)
    return list(map(int, find_objects(ends, data)))


@given(values=st.lists(VALUES, max_size=5), spaces=st.sampled_from(["", " ", "\n\t\r"]))
def test_oracle_values_as_pythons_parser_has_them(values: list[object], spaces: str) -> None:
    texts = [f"{spaces}{json.dumps(value, ensure_ascii=False)}{spaces}".encode() for value in values]
    assert found(*texts) == [OBJECT if isinstance(value, dict) else NO_OBJECT for value in values]


@given(pieces=PIECES)
@example(pieces=[b"{", b'"', b"\\"])
def test_oracle_any_text(pieces: list[bytes]) -> None:
    """What one object begins and ends is found, where strings and depth say so."""
    text = b"".join(pieces)
    (kind,) = found(text)
    assert (kind == BLANK) == (not text.strip(b" \n\t\r"))
    with suppress(ValueError):
        assert isinstance(json.loads(text), dict) == (kind == OBJECT)
    if kind == OBJECT:
        assert text.strip().startswith(b"{")
        assert text.strip().endswith((b"}", b"]"))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (b"", BLANK),
        (b" \t\r\n", BLANK),
        (b"\x0b", NO_OBJECT),
        (b"{}", OBJECT),
        (b"{}{}", NO_OBJECT),
        (b"{} x", NO_OBJECT),
        (b"{", NO_OBJECT),
        (b"}", NO_OBJECT),
        (b'{"a":1', NO_OBJECT),
        (b'{"}', NO_OBJECT),
        (b'{"\\"}', NO_OBJECT),
        (b'{"\\\\"}', OBJECT),
        (b'{"a":"}{"}', OBJECT),
        (b"[{}]", NO_OBJECT),
        (b"\xef\xbb\xbf{}", NO_OBJECT),
        (b"{[}]", OBJECT),  # no JSON, which the parser sees; and it ends where it seems to
    ],
)
def test_edges(text: bytes, kind: int) -> None:
    assert found(text) == [kind]
    assert found(b"{", text, b"}") == [NO_OBJECT, kind, NO_OBJECT]
