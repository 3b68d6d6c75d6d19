"""What a soak has done so far: one line of JSON a finished piece, appended, so a soak may be killed and taken up again.

A line names the code that was tried: a digest of those of the package's sources that its half runs. Only lines of
today's code count, so a summary never mixes two versions. A change in a folder that a half never imports leaves its
lines valid.
"""

from __future__ import annotations

import json
from collections import Counter
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

from rich.table import Table
from rich.text import Text

__all__ = ["LEFT_OUT", "Record", "summary_of", "table_of"]

SOURCES: Final = Path(__file__).resolve().parents[1] / "src" / "watersmeet"
ABOVE: Final = ("cli", "jobs", "live", "testing.py", "__main__.py")
LEFT_OUT: Final = {"queries": ABOVE, "cases": (*ABOVE, "spark", "balance")}
"""What each half of the soak never imports."""


def _digest(half: str) -> str:
    digest = blake2b(digest_size=8)
    for file in sorted(SOURCES.rglob("*.py")):
        name = file.relative_to(SOURCES)
        if name.parts[0] not in LEFT_OUT[half]:
            digest.update(name.as_posix().encode() + file.read_bytes())
    return digest.hexdigest()


class Record:
    """The finished pieces of one half, in a file."""

    def __init__(self, folder: Path, half: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.code = _digest(half)
        self._file = folder / f"{half}.jsonl"
        self.lines: list[dict[str, Any]] = []
        if self._file.exists():
            for text in self._file.read_text(encoding="utf-8").splitlines():
                try:
                    line = json.loads(text)
                except json.JSONDecodeError:  # the last one, torn by a kill
                    continue
                if line["code"] == self.code:
                    self.lines.append(line)

    def add(self, **line: Any) -> None:  # noqa: ANN401 -- plain data
        """Append a finished piece."""
        self.lines.append({"code": self.code, **line})
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(self.lines[-1]) + "\n")

    def seeds(self) -> set[int]:
        """Return which pieces are done."""
        return {line["piece"] for line in self.lines}


def summary_of(cases: Record, queries: Record) -> dict[str, Any]:
    """Return counts of all that was done, and the failures with their seeds."""
    counts, kinds = Counter[str](), Counter[str]()
    for line in cases.lines:
        counts.update(line["counts"])
        kinds.update(line["kinds"])
    kills, disturbances = Counter[str](), Counter[str]()
    for line in queries.lines:
        kills.update(line["kills"])
        disturbances.update(line["disturbances"])
    failures = [failure for line in (*cases.lines, *queries.lines) for failure in line["failures"]]
    return {
        "cases": {
            "code": cases.code,
            **{name: counts[name] for name in ("cases", "results", "restarts", "refused")},
            "seconds": round(sum(line["seconds"] for line in cases.lines), 1),
            "kinds": dict(sorted(kinds.items())),
        },
        "queries": {
            "code": queries.code,
            "queries": len(queries.lines),
            "kills": sum(kills.values()),
            "kills by kind": dict(sorted(kills.items())),
            "disturbances": dict(sorted(disturbances.items())),
            "restarts": sum(line["restarts"] for line in queries.lines),
            "pairs": sum(line["pairs"] for line in queries.lines),
            "seconds": round(sum(line["seconds"] for line in queries.lines), 1),
        },
        "failures": failures,
    }


def table_of(summary: dict[str, Any]) -> Table:
    """Return the summary as a table to print."""
    cases, queries = summary["cases"], summary["queries"]
    rows = [
        ("cases in this process", f"{cases['cases']:,} ({cases['refused']:,} more were refused)"),
        ("  results compared", f"{cases['results']:,}"),
        ("  saved and restored", f"{cases['restarts']:,} times"),
        *((f"  {kind}", f"{count:,}") for kind, count in cases["kinds"].items()),
        ("queries on Spark", f"{queries['queries']:,}, {queries['pairs']:,} pairs compared"),
        ("  kills", f"{queries['kills']:,}"),
        *((f"    {kind}", f"{count:,}") for kind, count in queries["kills by kind"].items()),
        *((f"  {kind}", f"{count:,}") for kind, count in queries["disturbances"].items()),
        ("  restarts from the checkpoint", f"{queries['restarts']:,}"),
        ("wrong, lost or doubled, crashed or hung", f"{len(summary['failures']):,}"),
    ]
    table = Table.grid(padding=(0, 2))
    for name, value in rows:
        table.add_row(Text(name), Text(value))
    for failure in summary["failures"][:20]:
        table.add_row(Text("  FAILED", style="red"), Text(str(failure)))
    return table
