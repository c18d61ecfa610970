"""Notebooks: the Python of their cells, on the lines of the text that chunks show."""

from __future__ import annotations

import json

import pytest

from knowledge_pipeline.extraction.notebook import read_notebook
from knowledge_pipeline_tests.code_graph.files import resolved
from knowledge_pipeline_tests.code_graph.proportion import assert_in_proportion


def cell(source: str, kind: str = "code", **more: object) -> dict[str, object]:
    return {"cell_type": kind, "source": source.splitlines(keepends=True), **more}


def render(*cells: dict[str, object], language: str = "python") -> str:
    notebook = {"cells": cells, "metadata": {"kernelspec": {"language": language}}}
    return read_notebook(json.dumps(notebook).encode()).text


SHOP = "class Store:\n    def get(self): pass\n"


def test_the_cells_of_a_notebook_are_one_module() -> None:
    output = {"output_type": "stream", "text": ["Store.get()"]}
    text = render(
        cell("# Report\n\nSee `Store.get()`.", "markdown"),
        cell("%matplotlib inline\nfrom shop import Store\nif True:\n    !pip install x\nstore = Store()"),
        cell("def report():\n    return store.get()", outputs=[output]),
        cell("%%bash\nreport()"),
        cell("%%time\nreport()"),
    )
    edges = resolved({"shop.py": SHOP, "notes/a.ipynb": text})["notes/a.ipynb"].edges
    calls = {(it.source, it.target, it.line) for it in edges if it.kind == "calls"}
    lines = text.split("\n")
    assert {(source, target, lines[line - 1]) for source, target, line in calls} == {
        ("", "Store", "store = Store()"), ("report", "Store.get", "    return store.get()"),
        ("", "report", "report()"),
    }  # fmt: skip
    assert max(line for _, _, line in calls) == len(lines) - 1  # of the two calls of `report`, the second


def test_notebooks_of_other_languages_say_nothing() -> None:
    text = render(cell("report()"), language="R")
    assert resolved({"shop.py": SHOP, "a.ipynb": text})["a.ipynb"].edges == ()


@pytest.mark.parametrize("piece", ["```python\nf()\n```\n", "```python\nf(\n", "````\n```\n"])
def test_reading_a_notebook_takes_work_in_proportion_to_its_length(piece: str) -> None:
    assert_in_proportion("a.ipynb", "notebook", piece * 60)
