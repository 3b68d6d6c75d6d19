"""Draws the pictures of the concepts: `python -m docsite.pictures` writes them to `docs/pictures/`.

Each is a few boxes, arrows and lines of text, in a coordinate system of pixels. A test sees that the files are those
that this module draws.
"""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Final

__all__ = ["FOLDER", "PICTURES"]

FOLDER: Final = Path(__file__).resolve().parents[1] / "docs" / "pictures"
LEFT, RIGHT, CORE, PLAIN, OLD = "#cfe8e5", "#fde3c8", "#e3e6f5", "#ffffff", "#eeeeee"
"""What is filled how: left rows, right rows, cores, anything else, what is about to go."""
LINE: Final = 17


class _Picture:
    """Shapes, in the order in which they are drawn."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self._head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            f'role="img" font-family="sans-serif" font-size="13">\n<title>{escape(title)}</title>\n'
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
            'orient="auto-start-reverse"><path d="M0 0 8 4 0 8z" fill="#37474f"/></marker></defs>\n'
            f'<rect width="{width}" height="{height}" rx="8" fill="#fafafa"/>\n'
        )
        self._shapes: list[str] = []

    def text(self, x: float, y: float, text: str, *, anchor: str = "middle", bold: bool = False) -> None:
        weight = ' font-weight="bold"' if bold else ""
        self._shapes.append(
            f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="#263238"{weight}>{escape(text)}</text>'
        )

    def box(self, x: float, y: float, width: float, height: float, text: str = "", *, fill: str = PLAIN) -> None:
        """Draw a box with lines of text in its middle."""
        self._shapes.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="5" fill="{fill}" stroke="#546e7a"/>'
        )
        lines = text.split("\n") if text else []
        first = y + height / 2 - LINE * (len(lines) - 1) / 2 + 4.5
        for number, line in enumerate(lines):
            self.text(x + width / 2, first + LINE * number, line)

    def arrow(self, *points: tuple[float, float], dashed: bool = False, both: bool = False) -> None:
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        dashes = ' stroke-dasharray="5 4"' if dashed else ""
        start = ' marker-start="url(#tip)"' if both else ""
        self._shapes.append(
            f'<polyline points="{path}" fill="none" stroke="#37474f" stroke-width="1.4"{dashes}{start} '
            'marker-end="url(#tip)"/>'
        )

    def svg(self) -> str:
        return self._head + "\n".join(self._shapes) + "\n</svg>\n"


def row_on_spark() -> str:
    """Draw how rows of both sides come to a core, and pairs out of it."""
    picture = _Picture(900, 250, "A row's way on Spark")
    for y, side, fill in ((30, "left", LEFT), (130, "right", RIGHT)):
        picture.box(15, y, 90, 50, f"{side}\nrows", fill=fill)
        picture.box(150, y, 130, 50, "pack: keys, route,\nenvelopes", fill=fill)
        picture.arrow((105, y + 25), (150, y + 25))
        picture.arrow((280, y + 25), (330, 105))
    picture.box(330, 75, 90, 60, "shuffle\nby core")
    for number, y in enumerate((15, 95, 175)):
        picture.box(480, y, 190, 48, f"core {number}: probe the other\nwindow, then insert", fill=CORE)
        picture.arrow((420, 105), (480, y + 24))
        picture.box(730, y, 75, 48, "unpack")
        picture.arrow((670, y + 24), (730, y + 24))
        picture.arrow((805, y + 24), (850, 119))
    picture.text(872, 123, "pairs", bold=True)
    picture.text(575, 241, "state: runs of rows in Spark's state store, so in the checkpoint")
    return picture.svg()


def segments() -> str:
    """Draw a window as a chain of segments, the newest of which grows while the oldest goes."""
    picture = _Picture(820, 230, "A window is a chain of segments")
    picture.text(20, 30, "the window of one stream", anchor="start", bold=True)
    names = ("oldest:\nrows leave it", "segment", "segment", "newest:\nrows enter it")
    for number, name in enumerate(names):
        x = 20 + 200 * number
        picture.box(x, 50, 160, 60, name, fill=OLD if number == 0 else LEFT)
        picture.box(x + 15, 120, 130, 28, "its index")
        if number:
            picture.arrow((x - 40, 80), (x, 80))
    picture.arrow((60, 195), (780, 195))
    picture.text(420, 215, "event time, or the number of arrival")
    picture.arrow((120, 170), (120, 193), dashed=True)
    picture.text(128, 180, "end of the window", anchor="start")
    picture.text(780, 30, "a probe asks every index within its reach", anchor="end")
    return picture.svg()


def topologies() -> str:
    """Draw where rows are stored and where they meet, in each topology."""
    picture = _Picture(900, 440, "The topologies")

    picture.text(20, 28, "kang, panjoin: one window a side; panjoin shares out probes", anchor="start", bold=True)
    picture.box(20, 45, 170, 40, "left window", fill=LEFT)
    picture.box(20, 95, 170, 40, "right window", fill=RIGHT)
    for number in range(3):
        picture.box(260, 40 + 34 * number, 130, 28, f"probes, thread {number}", fill=CORE)
        picture.arrow((260, 54 + 34 * number), (190, 65 + 25 * number), both=True)

    picture.text(480, 28, "splitjoin: stored on one core, probes all", anchor="start", bold=True)
    picture.box(480, 75, 80, 40, "rows")
    for number in range(3):
        picture.box(640, 40 + 42 * number, 230, 34, f"core {number}: a third of both windows", fill=CORE)
        picture.arrow((560, 95), (640, 57 + 42 * number))

    picture.text(20, 200, "handshake: the streams flow past each other", anchor="start", bold=True)
    for number in range(4):
        x = 110 + 195 * number
        picture.box(x, 240, 150, 70, fill=CORE)
        picture.box(x + 10, 247, 130, 24, "left rows", fill=LEFT)
        picture.box(x + 10, 279, 130, 24, "right rows", fill=RIGHT)
        picture.arrow((x - 45, 259), (x + 8, 259))
        picture.arrow((x + 195, 291), (x + 142, 291))
    picture.text(55, 245, "left rows")
    picture.text(845, 325, "right rows")

    picture.text(20, 355, "low_latency_handshake: runs through all cores, stays at home", anchor="start", bold=True)
    home = {2: "home of this row"}
    for number in range(4):
        x = 110 + 195 * number
        picture.box(x, 375, 150, 45, home.get(number, f"core {number}"), fill=CORE)
        picture.arrow((x - 45, 397), (x, 397), dashed=True)
    picture.text(45, 401, "a row")
    return picture.svg()


def generations() -> str:
    """Draw how load moves from one core to another while no stored row does."""
    picture = _Picture(860, 260, "Generations of the routing table")
    for x, title in ((20, "generation 0"), (310, "generation 1, first window"), (600, "one window later")):
        picture.text(x, 28, title, anchor="start", bold=True)
        picture.box(x, 90, 100, 34, "group g", fill=LEFT)
        picture.box(x + 130, 50, 110, 50, "core 0", fill=CORE)
        picture.box(x + 130, 130, 110, 50, "core 1", fill=CORE)
    picture.arrow((120, 107), (150, 80))
    picture.text(20, 215, "stored on core 0", anchor="start")
    picture.text(20, 235, "looked for on core 0", anchor="start")
    picture.arrow((410, 107), (440, 80), dashed=True)
    picture.arrow((410, 107), (440, 150))
    picture.text(310, 215, "stored on core 1", anchor="start")
    picture.text(310, 235, "looked for on cores 0 and 1", anchor="start")
    picture.arrow((700, 107), (730, 150))
    picture.text(600, 215, "core 0 has no such rows left", anchor="start")
    picture.text(600, 235, "looked for on core 1", anchor="start")
    return picture.svg()


PICTURES: Final[dict[str, Callable[[], str]]] = {
    "row-on-spark.svg": row_on_spark,
    "segments.svg": segments,
    "topologies.svg": topologies,
    "generations.svg": generations,
}


def main() -> None:
    """Write all pictures."""
    FOLDER.mkdir(exist_ok=True)
    for name, draw in PICTURES.items():
        (FOLDER / name).write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main()
