"""Notebooks are read as Markdown and cut by cell."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_pipeline.chunking.registry import chunk_document
from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.extraction.extraction import extract
from knowledge_pipeline.extraction.notebook import read_notebook
from knowledge_pipeline.records import Chunk, Document
from knowledge_pipeline_tests.chunking.documents import assert_sound, source, texts, tokenize
from knowledge_pipeline_tests.thoroughness import examples


def notebook(*cells: dict[str, Any], **more: Any) -> bytes:
    return json.dumps({"nbformat": 4, "metadata": {}, "cells": cells} | more).encode()


def prose(text: str | list[str]) -> dict[str, Any]:
    return {"cell_type": "markdown", "source": text}


def code(text: str | list[str], *outputs: dict[str, Any]) -> dict[str, Any]:
    return {"cell_type": "code", "source": text, "outputs": outputs}


def read(payload: bytes, path: str = "sales.ipynb") -> Document:
    found = read_notebook(payload)
    return Document(
        uri=path,
        path=path,
        text=found.text,
        title=found.title,
        language=found.language,
        metadata=found.metadata,
    )


def cut(document: Document, type: Any = "code", **chunking: Any) -> list[Chunk]:
    return chunk_document(document, source(type, **chunking), tokenize=tokenize, model_tokens=256)


def test_cells_become_markdown_in_their_order_with_outputs_below_code():
    shown = {"output_type": "execute_result", "data": {"text/plain": ["3"], "image/png": "iVBORw0"}}
    document = read(notebook(prose(["# Sales\n", "by month"]), code("1 + 2", shown), prose("Done.")))
    assert document.text == "# Sales\nby month\n\n```python\n1 + 2\n```\n```output\n3\n```\n\nDone."
    assert (document.title, document.metadata) == ("Sales", {"format": "notebook"})


def test_of_a_long_output_the_beginning_and_the_end_are_kept():
    log = [f"epoch {n}: loss 0.{n:04}\n" for n in range(500)]
    text = read(notebook(code("fit()", {"output_type": "stream", "text": log}))).text
    assert "epoch 0: loss 0.0000\n" in text and "epoch 499: loss 0.0499\n```" in text
    assert "\n…\n" in text and len(text) < 700


def test_an_error_is_read_below_whatever_was_printed_before_it():
    printed = {"output_type": "stream", "text": ["z" * 100_000]}
    failed = {"output_type": "error", "ename": "KeyError", "evalue": "'month'", "traceback": ["\x1b[31mno"]}
    assert "KeyError: 'month'\n```" in read(notebook(code("f()", *[printed] * 9, failed))).text


def test_of_a_line_that_was_written_over_the_last_is_read():
    bar = {"output_type": "stream", "text": ["".join(f"\r{n}% done" for n in range(101)), "\nSaved.\n"]}
    assert "```output\n100% done\nSaved.\n```" in read(notebook(code("f()", bar))).text


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (
            {
                "text/plain": "<IPython.core.display.Markdown object>",
                "text/markdown": ["**Result:** churn\n", "is down"],
            },
            "**Result:** churn\nis down",
        ),
        (
            {
                "text/plain": ["<IPython.core.display.HTML object>"],
                "text/html": [
                    "<table><tr><th>City<th>Rate</tr>",
                    "<tr><td>Bern<td>7.5</table><script>x()</script>",
                ],
            },
            "| City | Rate |\n| --- | --- |\n| Bern | 7.5 |",
        ),
        ({"text/html": "<b>Basel</b> &amp; Bern"}, "**Basel** & Bern"),
        ({"text/plain": "   city\n0  Bern", "text/html": "<table><tr><td>Bern"}, "   city\n0  Bern"),
        (
            {"text/plain": "<Figure size 640x480>", "text/html": "<script>draw()</script>"},
            "<Figure size 640x480>",
        ),
        ({"text/plain": "<IPython.core.display.Latex object>", "text/latex": "$e^{x}$"}, "$e^{x}$"),
        ({"text/plain": "<Deep>", "text/html": "<div>" * 15_000}, "<Deep>"),
    ],
)
def test_an_output_is_read_in_the_form_that_was_made_for_readers(data, text):
    shown = {"output_type": "display_data", "data": data}
    assert read(notebook(code("f()", shown))).text == f"```python\nf()\n```\n```output\n{text}\n```"


def test_a_long_answer_in_markdown_is_kept_whole():
    answer = {"output_type": "display_data", "data": {"text/markdown": "\n\n".join(["word " * 20] * 30)}}
    assert read(notebook(code("ask()", answer))).text.count("word") == 600


def test_pictures_are_counted():
    picture = {"output_type": "display_data", "data": {"image/png": "iVBORw0", "text/plain": "<Figure>"}}
    document = read(
        notebook(code("f()", picture, picture), code("g()", {"data": {"image/svg+xml": "<svg>"}}))
    )
    assert document.metadata == {"format": "notebook", "note": "parts not read: 3 pictures"}
    assert document.text.endswith("```python\ng()\n```")


def test_code_that_holds_fences_stays_one_cell():
    document = read(notebook(code('print("""\n```\n# no heading\n```\n""")'), prose("# After")))
    chunks = cut(document, min_tokens=0)
    assert [chunk.text.partition("\n")[0] for chunk in chunks] == ["````python", "# After"]


def test_the_language_is_the_kernel_s():
    metadata = {"kernelspec": {"language": "julia"}}
    assert read(notebook(code("f(x) = x"), metadata=metadata)).text.startswith("```julia\n")


def test_a_notebook_of_an_old_format_is_read():
    cells = [prose("# Old"), {"cell_type": "code", "input": ["a = 1"], "outputs": []}]
    document = read(json.dumps({"nbformat": 3, "worksheets": [{"cells": cells}]}).encode())
    assert document.text == "# Old\n\n```python\na = 1\n```"


@pytest.mark.parametrize("type", ["code", "files", "markdown"])
def test_each_cell_is_a_chunk_below_its_headings(type):
    cells = [prose("# Sales"), prose("How much."), code("a = 1"), prose("## By month"), code("b = 2")]
    chunks = cut(read(notebook(*cells)), type, min_tokens=0)
    assert [(chunk.anchor, chunk.text) for chunk in chunks] == [
        ("Sales", "# Sales\n\nHow much."),
        ("Sales", "```python\na = 1\n```"),
        ("Sales/By month", "## By month"),
        ("Sales/By month", "```python\nb = 2\n```"),
    ]
    assert chunks[3].metadata["section"] == "By month"
    assert chunks[3].header == "sales.ipynb\nSales / By month"


def test_a_cell_put_in_leaves_the_others_alone():
    cells = [prose("# Sales"), *(code(f"step_{n}({n})\nshow({n})") for n in range(5))]
    before = cut(read(notebook(*cells)), min_tokens=3)
    after = cut(read(notebook(*cells[:3], code("extra(1)\nshow(9)"), *cells[3:])), min_tokens=3)
    added = {(chunk.anchor, chunk.text) for chunk in after} - {(chunk.anchor, chunk.text) for chunk in before}
    assert {text for _, text in added} == {"```python\nextra(1)\nshow(9)\n```"}
    assert len(after) == len(before) + 1


@pytest.mark.parametrize(
    "payload", [b'{"cells": [', b"[]", b'{"cells": "no"}', b'{"cells": [1, {"source": 2}]}', b"[" * 100_000]
)
def test_what_is_no_notebook_is_cut_by_lines_and_says_so(payload):
    document = read(payload)
    assert document.text == payload.decode()
    assert document.metadata == {"note": "could not be read as a notebook; cut by lines"}
    assert {chunk.anchor.partition(" ")[0] for chunk in cut(document)} == {"lines"}


def test_an_empty_notebook_file_is_skipped():
    with pytest.raises(DocumentSkipped, match="empty"):
        extract("a.ipynb", b" \n")


@settings(max_examples=examples(100), deadline=None)
@given(
    cells=st.lists(st.tuples(st.sampled_from(["code", "markdown", "raw"]), texts, texts), max_size=6),
    max_tokens=st.sampled_from([16, 60, 512]),
)
def test_any_notebook_is_cut_into_exact_slices_that_lose_nothing(cells, max_tokens):
    outputs = [[{"output_type": "stream", "text": shown}] for _, _, shown in cells]
    built = [
        {"cell_type": kind, "source": text, "outputs": output}
        for (kind, text, _), output in zip(cells, outputs, strict=True)
    ]
    document = read(notebook(*built))
    chunks = cut(document, max_tokens=max_tokens)
    assert_sound(chunks, document, max_tokens)
    assert chunks == cut(document, max_tokens=max_tokens)
