"""A notebook as a page of the site: its text, its code, and what the code has given, as stored in the notebook.

``python -m docsite.notebooks`` runs the notebook of the examples and stores what it gives anew.
"""

from __future__ import annotations

import base64
import json
import re
import tempfile
from pathlib import Path
from typing import Any, Final

__all__ = ["NOTEBOOK", "page_of", "run"]

NOTEBOOK: Final = Path(__file__).resolve().parents[1] / "examples" / "first_join.ipynb"

STYLE: Final = re.compile(r"<style.*?</style>\n?", re.DOTALL)
"""What pandas says of its tables' looks; the site has its own."""


def page_of(notebook: str, name: str) -> tuple[str, dict[str, bytes]]:
    """Return a notebook as Markdown, and its pictures by their file names, which begin with ``name``."""
    parts: list[str] = []
    pictures: dict[str, bytes] = {}
    for cell in json.loads(notebook)["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            data: dict[str, Any] = output.get("data", {"text/plain": output.get("text", "")})
            if "image/png" in data:
                file = f"{name}-{len(pictures) + 1}.png"
                pictures[file] = base64.b64decode(data["image/png"])
                parts.append(f"![What the code above draws]({file})")
            elif "text/html" in data:
                parts.append(STYLE.sub("", "".join(data["text/html"])))
            else:
                parts.append(f"```text\n{''.join(data['text/plain']).rstrip()}\n```")
    return "\n\n".join(parts) + "\n", pictures


def run(notebook: Path) -> dict[str, Any]:
    """Return a notebook with what its code gives now, but for what goes to the log of errors: that is the machine's."""
    import nbformat  # noqa: PLC0415 -- of the extra dev; a site is built without
    from nbclient import NotebookClient  # noqa: PLC0415 -- likewise

    node = nbformat.read(notebook, as_version=4)  # type: ignore[no-untyped-call]
    with tempfile.TemporaryDirectory() as folder:
        place = {"metadata": {"path": folder}}
        NotebookClient(node, timeout=600, record_timing=False, resources=place).execute()
    for cell in node.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    given: dict[str, Any] = json.loads(nbformat.writes(node))  # type: ignore[no-untyped-call]
    return given


if __name__ == "__main__":
    NOTEBOOK.write_text(json.dumps(run(NOTEBOOK), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
