"""Where the keys of a TOML text stand: every form that a key can have, and the same paths that ``tomllib`` reads."""

from __future__ import annotations

import json
import tomllib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from watersmeet.jobs.toml_lines import Path, line_of, lines_of

TEXT = '''\
# a comment with [brackets] and = signs
name = "near # no comment"   # a comment
a.b . "c d" = [1, 2,
  3,   # three
]
[streams."q \\" x"] # a table
path = """
[no.table]
x = "a"
"""
literal = \'\'\'
y = 1\'\'\'
inner = { a = 1, "b.c" = [ { d = 2 }, { d = "}" } ] }
[[steps]]
k = 1
[[steps]]
k = 2
[steps.sub]
at = 2026-01-05T09:30:00
[last]
'''


def paths_of(value: Any, path: Path = ()) -> set[Path]:
    """Return the paths of all values inside of one."""
    items = list(value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ())
    return {(*path, key) for key, _ in items} | {one for key, inner in items for one in paths_of(inner, (*path, key))}


def test_every_form_of_a_key_has_its_line() -> None:
    lines = lines_of(TEXT)
    assert set(lines) == paths_of(tomllib.loads(TEXT))
    assert {path: line for path, line in lines.items() if len(path) == 1} == {
        ("name",): 2,
        ("a",): 3,
        ("streams",): 6,
        ("steps",): 14,
        ("last",): 20,
    }
    assert lines["a", "b", "c d", 2] == 4
    assert lines["streams", 'q " x', "path"] == 7
    assert lines["streams", 'q " x', "inner", "b.c", 1, "d"] == 13
    assert lines["steps", 1, "k"] == 17
    assert lines["steps", 1, "sub", "at"] == 19


def test_a_key_that_is_not_there_has_the_line_of_its_table() -> None:
    lines = lines_of("a = 1\n[b]\nc = 2\n")
    assert line_of(lines, ("b", "missing", "deep")) == 2
    assert line_of(lines, ("missing",)) == 1
    assert lines_of("") == {}


def test_windows_line_ends_count_once() -> None:
    assert lines_of("a = 1\r\n\r\n[b]\r\nc = 2\r\n")["b", "c"] == 4


keys = st.text(st.sampled_from("ab-_ .\"'#=[]{}\\é\t"), min_size=1, max_size=4)
scalars = st.one_of(st.integers(-5, 5), st.booleans(), st.text(st.sampled_from("ab#'\"[]{},=\\\n"), max_size=5))
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=6
)


def inline(value: Any) -> str:
    """Write a value on one line."""
    if isinstance(value, dict):
        return (
            "{"
            + ", ".join(f"{json.dumps(key, ensure_ascii=False)} = {inline(one)}" for key, one in value.items())
            + "}"
        )
    if isinstance(value, list):
        return "[" + ", ".join(map(inline, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


@given(
    st.dictionaries(keys, values, max_size=4),
    st.dictionaries(keys, st.dictionaries(keys, values, max_size=3), max_size=3),
)
def test_differential_paths_are_those_that_tomllib_reads(
    top: dict[str, Any], tables: dict[str, dict[str, Any]]
) -> None:
    written = [f"{json.dumps(key, ensure_ascii=False)} = {inline(value)}" for key, value in top.items()]
    expected: dict[Path, int] = {(key,): number for number, key in enumerate(top, 1)}
    for name, table in tables.items():
        if name in top:
            continue
        written.append(f"[{json.dumps(name, ensure_ascii=False)}]")
        expected[name,] = len(written)
        for key, value in table.items():
            written.append(f"{json.dumps(key, ensure_ascii=False)} = {inline(value)}")
            expected[name, key] = len(written)
    text = "\n".join(written)
    lines = lines_of(text)
    assert set(lines) == paths_of(tomllib.loads(text))
    assert {path: lines[path] for path in expected} == expected
