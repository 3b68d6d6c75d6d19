"""The notebook shows what it gives."""

from __future__ import annotations

import json
from typing import Any

import pytest

from docsite.notebooks import NOTEBOOK, page_of, run

Outputs = list[list[str]]


def given_by(notebook: dict[str, Any]) -> Outputs:
    """Return what each cell of code has given: what it has printed, what it is worth, whether it has drawn."""
    return [
        [
            part
            for output in cell["outputs"]
            for part in ("".join(output.get("text", "")), *_parts(output.get("data", {})))
            if part
        ]
        for cell in notebook["cells"]
        if cell["cell_type"] == "code"
    ]


def _parts(data: dict[str, Any]) -> list[str]:
    return ["picture"] if "image/png" in data else ["".join(data.get("text/plain", ""))]


def test_everything_is_shown_and_nothing_of_one_machine() -> None:
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert all(given_by(notebook)), "every cell of code shows something"
    assert sum(part == "picture" for parts in given_by(notebook) for part in parts) == 1
    assert not any(output.get("name") == "stderr" for cell in notebook["cells"] for output in cell.get("outputs", []))
    assert not any("execution" in cell["metadata"] for cell in notebook["cells"]), "no times of a run"


def test_the_page_has_all_that_the_notebook_has() -> None:
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    page, pictures = page_of(NOTEBOOK.read_text(encoding="utf-8"), "plot")
    assert all("".join(cell["source"]) in page for cell in notebook["cells"])
    assert list(pictures) == ["plot-1.png"]
    assert pictures["plot-1.png"].startswith(b"\x89PNG")
    assert "](plot-1.png)" in page
    assert "the same as in this process: True\n```" in page
    assert "<table" in page
    assert "<style" not in page


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # Jupyter's own warnings are not ours to mend
def test_notebook_gives_what_it_shows() -> None:
    assert given_by(run(NOTEBOOK)) == given_by(json.loads(NOTEBOOK.read_text(encoding="utf-8")))
