"""On which line of a TOML text each key and each element of an array stands; ``tomllib`` does not tell.

What is nested too deep, or longer than a word can be, is found before: ``tomllib`` fails in other ways there, or takes
hours.

Design: one pass over a text that ``tomllib`` has accepted, so nothing is checked and no value is read: a value is
skipped, and looked into only if it is an array or an inline table. Paths are those of the values that ``tomllib``
returns.

Cost: linear in the text.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from typing import Final

__all__ = ["DEEPEST", "LONGEST_WORD", "Path", "line_of", "lines_of", "too_much"]

Path = tuple[str | int, ...]

SPACE: Final = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
KEY: Final = re.compile(r"""[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*'""")
POINT: Final = re.compile(r"[ \t]*\.[ \t]*")
VALUE: Final = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}' + r"|'''.*?'{3,5}" + r"""|"(?:[^"\\]|\\.)*"|'[^']*'|[^,\]}#\n]+""", re.DOTALL
)

DEEPEST: Final = 10
"""Most parts of a key, and most brackets in each other."""
LONGEST_WORD: Final = 100
"""Most characters of a number, or of a part of a key that is not in quotation marks."""
PART: Final = r"""(?:[A-Za-z0-9_+-]+|"(?:[^"\\\n]|\\.)*"?|'[^'\n]*'?)"""
TOKEN: Final = re.compile(
    r'"""(?:[^\\]|\\.)*?(?:"{3,5}|\Z)' + r"|'''.*?(?:'{3,5}|\Z)|#[^\n]*"
    rf"|(?P<key>{PART}(?:[ \t]*\.[ \t]*{PART})*)|(?P<opens>[\[{{])|(?P<closes>[\]}}])",
    re.DOTALL,
)


def too_much(text: str) -> tuple[int, str] | None:
    """Return the line of what no job needs and ``tomllib`` cannot take, and what that is; the text may be no TOML."""
    depth = 0
    for found in TOKEN.finditer(text):
        depth += (found["opens"] is not None) - (found["closes"] is not None)
        parts = re.findall(PART, found["key"] or "")
        what = f"{depth} brackets in each other" if depth > DEEPEST else None
        if len(parts) > DEEPEST:
            what = f"a key of {len(parts):,} parts"
        elif any(len(part) > LONGEST_WORD and part[0] not in "\"'" for part in parts):
            what = f"a word or number of {max(map(len, parts)):,} characters"
        if what is not None:
            return text.count("\n", 0, found.start()) + 1, what
    return None


def lines_of(text: str) -> dict[Path, int]:
    r"""Return the lines of a valid TOML text's keys and elements, the first one being 1.

    Examples
    --------
    >>> lines_of('name = "near"\n[sink]\nformat = "console"')
    {('name',): 1, ('sink',): 2, ('sink', 'format'): 3}
    """
    return _Scanner(text).lines()


def line_of(lines: dict[Path, int], path: Path) -> int:
    """Return the line of what a path names, or of the nearest table around it that is there; 1 if none is."""
    while path:
        if path in lines:
            return lines[path]
        path = path[:-1]
    return 1


class _Scanner:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._ends = [found.start() for found in re.finditer("\n", text)]
        self._lines: dict[Path, int] = {}
        self._elements: dict[Path, int] = {}
        """How many elements each array of tables has so far."""

    def lines(self) -> dict[Path, int]:
        table: Path = ()
        self._skip(SPACE)
        while self._at < len(self._text):
            if self._text[self._at] == "[":
                table = self._header()
            else:
                self._pair(table)
            self._skip(SPACE)
        return self._lines

    def _header(self) -> Path:
        """Read ``[key]`` or ``[[key]]``; return where the keys below it belong."""
        line = self._line()
        is_array = self._text.startswith("[[", self._at)
        self._at += 1 + is_array
        table: Path = ()
        keys = self._keys()
        for number, key in enumerate(keys, 1):
            table = (*table, key)
            if is_array and number == len(keys):
                self._elements[table] = self._elements.get(table, 0) + 1
            self._lines.setdefault(table, line)
            if table in self._elements:
                table = (*table, self._elements[table] - 1)
                self._lines.setdefault(table, line)
        self._at = self._text.index("]", self._at) + 1 + is_array
        return table

    def _pair(self, table: Path) -> None:
        """Read ``key = value``."""
        line = self._line()
        for key in self._keys():
            table = (*table, key)
            self._lines.setdefault(table, line)
        self._at = self._text.index("=", self._at) + 1
        self._value(table)

    def _value(self, path: Path) -> None:
        self._skip(SPACE)
        opened = self._text[self._at]
        if opened not in "[{":
            self._skip(VALUE)
            return
        self._at += 1
        number = 0
        while True:
            self._skip(SPACE)
            if self._text[self._at] in "]}":
                self._at += 1
                return
            if self._text[self._at] == ",":
                self._at += 1
            elif opened == "{":
                self._pair(path)
            else:
                self._lines[*path, number] = self._line()
                self._value((*path, number))
                number += 1

    def _keys(self) -> list[str]:
        """Read a key and its parts: bare or quoted, with points between them."""
        keys = []
        while True:
            self._skip(re.compile(r"[ \t]*"))
            keys.append(self._plain(self._skip(KEY)))
            if not self._skip(POINT):
                return keys

    @staticmethod
    def _plain(key: str) -> str:
        """Return the key that its text in the file stands for."""
        return next(iter(tomllib.loads(f"{key} = 0"))) if key[0] in "\"'" else key

    def _skip(self, pattern: re.Pattern[str]) -> str:
        """Go on behind what the pattern finds here, and return that."""
        found = pattern.match(self._text, self._at)
        if found is None:
            return ""
        self._at = found.end()
        return found[0]

    def _line(self) -> int:
        return bisect_right(self._ends, self._at - 1) + 1 if self._at else 1
