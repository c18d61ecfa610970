from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_pipeline.chunking.base import parse_blocks
from knowledge_pipeline.chunking.blocks import split_sections
from knowledge_pipeline.chunking.registry import chunk_document
from knowledge_pipeline.extraction.extraction import extract
from knowledge_pipeline.records import Chunk
from knowledge_pipeline_tests.chunking.documents import assert_sound, document, source, tokenize
from knowledge_pipeline_tests.connectors.files.test_extraction import word
from knowledge_pipeline_tests.thoroughness import examples


def cut(text: str, path: str = "docs/guide.md", language: str = "markdown", **chunking: Any) -> list[Chunk]:
    of = document(text, path, language)
    chunks = chunk_document(of, source(**{"min_tokens": 0, **chunking}), tokenize=tokenize, model_tokens=256)
    assert_sound(chunks, of)
    return chunks


def trails(text: str, language: str = "markdown", depth: int = 6) -> list[str]:
    found = split_sections(parse_blocks(document(text, "a", language)), depth)
    return ["/".join(section.trail) for section in found]


def test_a_chunk_is_a_section_with_its_trail_as_header_and_anchor():
    chunks = cut("# Guide\n\nHello.\n\n## Install\n\n### Linux\n\nRun it.\n\n## Use\n\nCall it.\n")
    assert [(chunk.anchor, chunk.text) for chunk in chunks] == [
        ("Guide", "# Guide\n\nHello."),
        ("Guide/Install/Linux", "## Install\n\n### Linux\n\nRun it."),
        ("Guide/Use", "## Use\n\nCall it."),
    ]
    assert chunks[1].header == "docs/guide.md\nGuide > Install > Linux"


def test_the_title_of_the_document_is_in_the_header_where_path_and_trail_do_not_say_it():
    of = document("# One\n\nText.\n", title="The Handbook")
    (chunk,) = chunk_document(of, source(), tokenize=tokenize, model_tokens=256)
    assert chunk.header == "docs/guide.md\nThe Handbook\nOne"


def test_headings_keep_the_names_in_angle_brackets_and_the_pictures_that_are_their_words():
    text = (
        "# List<T> of <b>x</b>\n\n## `Map<K>` &amp; <a name=y></a>z\n\n<h3><img alt='Logo &amp; name'></h3>\n"
    )
    assert trails(text)[-1] == "List<T> of x/Map<K> & z/Logo & name"


def test_setext_html_and_closed_headings_count_and_those_in_code_do_not():
    text = "Top\n===\n\nSub `x` [y](z)\n---\n\n### Third ###\n\n```\n# no\n```\n\n    # nor this\n\n"
    text += '<h2 align="center">Shown <b>bold</b></h2>\n\n> # quoted\n'
    assert trails(text) == ["Top", "Top/Sub x y", "Top/Sub x y/Third", "Top/Shown bold"]


@settings(max_examples=examples(60), deadline=None)
@given(
    levels=st.lists(st.integers(1, 6), min_size=1, max_size=12), feed=st.sampled_from(["\n", "\r\n", "\r"])
)
def test_the_trail_of_a_heading_is_its_nearest_higher_headings(levels, feed):
    text = feed.join(f"{'#' * level} H{number}{feed}{feed}text" for number, level in enumerate(levels))
    expected = []
    for number in range(len(levels)):
        trail, level = [f"H{number}"], levels[number]
        for above in range(number - 1, -1, -1):
            if levels[above] < level:
                trail.insert(0, f"H{above}")
                level = levels[above]
        expected.append("/".join(trail))
    assert trails(text) == expected


def test_headings_below_the_section_depth_stay_within_their_section():
    text = "# A\n\nnone\n\n## B\n\none\n\n### C\n\ntwo\n"
    assert trails(text, depth=2) == ["A", "A/B"]
    assert [chunk.text for chunk in cut(text, max_section_depth=2)][1] == "## B\n\none\n\n### C\n\ntwo"


def test_restructuredtext_titles_are_levelled_by_the_order_of_their_styles():
    text = """=====
Title
=====

Intro
-----

text ``code``

Sub :class:`~a.B`
'''''''''''''''''

.. code-block:: python

   class A:
   =======

Second
------
"""
    assert trails(text, "rst") == ["Title", "Title/Intro", "Title/Intro/Sub ~a.B", "Title/Second"]


def test_a_code_block_and_a_table_stay_whole_where_they_fit():
    code = "```python\n" + "value = compute(one)\n\n" * 6 + "```"
    table = "| a | b |\n|---|---|\n" + "| one | two |\n" * 6
    text = (
        "# A\n\n" + "Some words stand here. " * 12 + f"\n\n{code}\n\n" + "More words. " * 20 + f"\n\n{table}"
    )
    chunks = cut(text, max_tokens=120)
    assert len(chunks) > 2
    assert sum(code in chunk.text for chunk in chunks) == 1
    assert sum(table.strip() in chunk.text for chunk in chunks) == 1


@pytest.mark.parametrize("strategy", [None, "paragraph"])
@pytest.mark.parametrize("before", ["", "---\nid: 1\n---\n", "Some words stand here. " * 9 + "\n\n"])
def test_every_chunk_of_a_table_names_its_columns_and_fits(before, strategy):
    rows = "".join(f"| host-{n} | eu-west | Ada |\n" for n in range(60))
    text = f"{before}# Hosts\n\n| Name | Region | On  call |\n| --- | --- | --- |\n{rows}\nThat is all.\n"
    of = document(text)
    chunks = chunk_document(of, source(strategy=strategy), tokenize=tokenize, model_tokens=160)
    assert_sound(chunks, of, max_tokens=160 - 48)
    with_rows = [chunk for chunk in chunks if "host-" in chunk.text]
    assert len(with_rows) > 3
    for chunk in with_rows:
        assert ("| Name |" in chunk.text) != chunk.header.endswith("\nName | Region | On call")
        assert chunk.tokens + len(tokenize(chunk.header)) <= 160
    in_the_middle = [chunk for chunk in with_rows if "| Name |" not in chunk.text]
    assert in_the_middle and (strategy or all(chunk.text.startswith("| host-") for chunk in in_the_middle))
    assert not any("On call" in chunk.header for chunk in chunks if chunk.text.startswith("That"))


_HOSTS = [f"host-{n}" for n in range(60)]
_NAMES = ("Name", "Region", "On  call")
_GRID_RULE = "+----------+---------+---------+\n"
_SIMPLE_RULE = "========  =======  ========\n"


def _indent(text: str, by: str = "  ") -> str:
    return "".join(by + line for line in text.splitlines(keepends=True))


def _pipe_table() -> str:
    rows = "".join(f"| {name} | eu-west | Ada |\n" for name in _HOSTS)
    return f"| {' | '.join(_NAMES)} |\n| --- | --- | --- |\n{rows}"


def _html_rows(gap: str = "") -> str:
    names = "".join(f"<th align=left><b>{name}</b></th>" for name in _NAMES)
    rows = "".join(f"<tr>\n<td>{name}</td>{gap}<td>eu-west</td>\n<td>Ada</td></tr>\n" for name in _HOSTS)
    return f"<table>\n<thead>\n<tr>{names}</tr>\n</thead>\n<tbody>\n{rows}</tbody></table>\n"


def _grid_table() -> str:
    first, last = "| Name     | Region  | On      |\n", "|          |         | call    |\n"
    rows = "".join(f"| {name:8} | eu-west | Ada     |\n{_GRID_RULE}" for name in _HOSTS)
    return f"{_GRID_RULE}{first}{last}{_GRID_RULE.replace('-', '=')}{rows}"


def _simple_table() -> str:
    rows = "".join(f"{name:8}  eu-west  Ada\n" + "\n" * (n % 9 == 8) for n, name in enumerate(_HOSTS))
    return f"{_SIMPLE_RULE}Name      Region   On call\n{_SIMPLE_RULE}{rows}{_SIMPLE_RULE}"


def _list_table() -> str:
    rows = "".join(f"   * - {name}\n     - eu-west\n     - Ada\n" for name in ("Name", *_HOSTS))
    head = rows.replace("eu-west", "Region", 1).replace("Ada", "On\n       call", 1)
    return f".. list-table:: The hosts\n   :widths: 1 1 1\n   :header-rows: 1\n\n{head}"


def _csv_table(options: str, first: str) -> str:
    rows = "".join(f"   {name}, eu-west, Ada\n" for name in _HOSTS)
    return f".. csv-table:: The hosts\n{options}\n{first}{rows}"


TABLES = {
    "Markdown in a list": ("markdown", f"- First.\n\n{_indent(_pipe_table())}\n- Second.\n"),
    "Markdown in a list of lists": ("markdown", f"1. One\n   - Two\n\n{_indent(_pipe_table(), '     ')}\n"),
    "Markdown in a quotation": ("markdown", f"> Said:\n>\n{_indent(_pipe_table(), '> ')}\n"),
    "HTML": ("markdown", _html_rows()),
    "HTML with empty lines": ("markdown", _html_rows("\n\n")),
    "HTML in a list": ("markdown", f"- First.\n\n{_indent(_html_rows())}\n- Second.\n"),
    "HTML in a table's cell": (
        "markdown",
        _html_rows().replace("host-1<", "host-1 <table><tr><th>x</th></tr><tr><td>y</td></tr></table><"),
    ),
    "grid": ("rst", _grid_table()),
    "grid in a list": ("rst", f"- First.\n\n{_indent(_grid_table())}\n- Second.\n"),
    "grid in a directive": ("rst", f".. table:: The hosts\n\n{_indent(_grid_table(), '   ')}\n"),
    "simple": ("rst", _simple_table()),
    "list-table": ("rst", _list_table()),
    "csv-table": ("rst", _csv_table("   :header-rows: 1\n", "   Name, Region, On call\n")),
    "csv-table with names": ("rst", _csv_table('   :header: Name, "Region", On call\n', "")),
}


@pytest.mark.parametrize("strategy", [None, "paragraph"])
@pytest.mark.parametrize(("language", "table"), TABLES.values(), ids=TABLES)
def test_every_chunk_of_a_table_in_another_markup_names_its_columns_and_fits(language, table, strategy):
    of = document(f"Hosts\n=====\n\nBefore.\n\n{table}\nThat is all of it.\n", "docs/a", language)
    chunks = chunk_document(of, source(strategy=strategy), tokenize=tokenize, model_tokens=160)
    assert_sound(chunks, of, max_tokens=160 - 48)
    with_rows = [chunk for chunk in chunks if "host-" in chunk.text]
    in_the_middle = [chunk for chunk in with_rows if "Region" not in chunk.text]
    assert len(in_the_middle) > 3
    for chunk in with_rows:
        assert chunk.tokens + len(tokenize(chunk.header)) <= 160
    for chunk in in_the_middle:
        assert chunk.header.endswith("\nName | Region | On call"), chunk.header
    assert not any("Region" in chunk.header for chunk in chunks if chunk.text.startswith("That"))


@pytest.mark.parametrize(
    ("language", "table"),
    [
        ("markdown", _html_rows().replace("<th", "<td").replace("</th", "</td")),
        ("markdown", _html_rows().replace("</table>", "")),  # it may be all of the text that follows
        ("markdown", "```html\n" + _html_rows() + "```\n"),
        ("rst", _grid_table().replace("=", "-")),
        ("rst", _simple_table().replace(_SIMPLE_RULE, "", 1)),
        ("rst", _list_table().replace(":header-rows: 1", ":stub-columns: 1")),
    ],
)
def test_a_table_without_a_header_names_no_columns(language, table):
    of = document(f"Hosts\n=====\n\n{table}\nThat is all.\n", "docs/a", language)
    chunks = chunk_document(of, source(), tokenize=tokenize, model_tokens=160)
    assert_sound(chunks, of)
    assert len(chunks) > 3 and not any("Region" in chunk.header for chunk in chunks)


def test_a_table_whose_header_is_longer_than_a_chunk_is_cut_all_the_same():
    names = " | ".join(f"column number {n}" for n in range(60))
    of = document(f"# T\n\n| {names} |\n|{'---|' * 60}\n" + f"| {'x | ' * 60}\n" * 9)
    chunks = chunk_document(of, source(max_tokens=100), tokenize=tokenize, model_tokens=256)
    assert_sound(chunks, of)
    assert all(chunk.tokens + len(tokenize(chunk.header)) <= 100 for chunk in chunks)


def test_a_code_block_that_alone_exceeds_the_limit_is_cut_at_lines():
    text = "# A\n\n```\n" + "".join(f"call_{n:03}(x)\n" for n in range(60)) + "```\n"
    chunks = cut(text, max_tokens=90)
    assert len(chunks) > 2
    assert all(chunk.text.endswith((")", "```")) for chunk in chunks)


def test_a_long_list_is_cut_between_its_items():
    text = "# A\n\n" + "".join(f"- item {n} says. Something more\n  and goes on.\n" for n in range(30))
    chunks = cut(text, max_tokens=90)
    assert len(chunks) > 2
    assert all(chunk.text.startswith(("# A", "- item")) for chunk in chunks)


def test_a_heading_is_not_left_behind_by_what_follows_it():
    text = "# A\n\n" + "One two three four. " * 10 + "\n\n## B\n\n" + "Five six seven eight. " * 40
    for chunk in cut(text, max_tokens=90, max_section_depth=1):
        assert not chunk.text.endswith("## B")


def test_a_heading_without_a_body_joins_its_first_subsection_even_where_that_must_be_cut():
    body = "\n\n".join(f"Paragraph {n} of some words. " * 6 for n in range(6))
    chunks = cut(f"# Guide\n\n## Install\n\n{body}\n\n## Use\n\nCall it.", max_tokens=90)
    assert chunks[0].text.startswith("# Guide\n\n## Install\n\nParagraph 0")
    assert [chunk.anchor for chunk in chunks] == ["Guide/Install"] * (len(chunks) - 1) + ["Guide/Use"]


def test_a_heading_without_a_body_that_nothing_follows_joins_what_is_before_it():
    text = "# A\n\n## B\n\none\n\n## C\n"
    assert [chunk.text for chunk in cut(text)] == ["# A\n\n## B\n\none\n\n## C"]


def test_the_target_of_a_link_below_a_heading_is_no_body():
    text = '# A\n<a id="a"></a>\n\n## B\n<a id="b"></a>\n\nText.\n'
    assert [(chunk.anchor, chunk.text) for chunk in cut(text)] == [("A/B", text.strip())]


def test_a_label_of_restructuredtext_belongs_to_the_title_after_it():
    text = "One\n===\n\ntext\n\n.. _two:\n\nTwo\n===\n\nmore\n"
    assert [chunk.text for chunk in cut(text, "a.rst", "rst")] == [
        "One\n===\n\ntext",
        ".. _two:\n\nTwo\n===\n\nmore",
    ]


def test_the_last_part_of_a_long_section_is_not_a_scrap():
    text = "# A\n\n" + "\n\n".join(f"Paragraph {n} has words." for n in range(19))
    sizes = [chunk.tokens for chunk in cut(text, max_tokens=100, min_tokens=30)]
    assert len(sizes) > 1
    assert min(sizes) >= 30


def test_small_siblings_are_joined_under_what_they_share_and_large_ones_are_not():
    text = "# A\n\n## B\n\none\n\n## C\n\ntwo\n\n## D\n\n" + "word " * 60
    chunks = cut(text, min_tokens=8)
    assert [chunk.anchor for chunk in chunks] == ["A", "A/D"]
    assert chunks[0].text == "# A\n\n## B\n\none\n\n## C\n\ntwo"


def test_an_edit_in_one_section_leaves_the_other_chunks_alone():
    parts = [f"## S{n}\n\n" + f"Text number {n}. " * 30 for n in range(6)]
    before = cut("\n\n".join(parts), max_tokens=90)
    parts[2] += "\n\nAnd one more sentence, much later."
    after = cut("\n\n".join(parts), max_tokens=90)
    changed = {chunk.text for chunk in before} ^ {chunk.text for chunk in after}
    assert changed
    assert all("number 2" in text or "much later" in text for text in changed)


def test_front_matter_becomes_metadata_and_stays_in_the_text():
    text = "---\ntitle: The Guide\ntags: [a, b]\ndate: 2024-01-31\n---\n\n# Start\n\nText.\n"
    (chunk,) = cut(text, min_tokens=20)
    assert chunk.text.startswith("---\ntitle")
    assert chunk.metadata["title"] == "The Guide"
    assert chunk.metadata["tags"] == ["a", "b"]
    assert chunk.metadata["front_matter"]["date"] == "2024-01-31"
    assert chunk.metadata["section"] == "Start"


def _word_table(rows: list[tuple[str, str]]) -> bytes:
    def build(document):
        table = document.add_table(0, 2)
        for row in rows:
            for cell, text in zip(table.add_row().cells, row, strict=True):
                cell.text = text

    return word(build)


def _html_table(rows: list[tuple[str, str]]) -> bytes:
    cells = "".join(f"<tr>{''.join(f'<td>{text}</td>' for text in row)}</tr>" for row in rows)
    return f"<html><body><h1>Hosts</h1><table>{cells}</table></body></html>".encode()


@pytest.mark.parametrize(("name", "build"), [("hosts.docx", _word_table), ("hosts.html", _html_table)])
def test_a_table_of_an_office_file_or_page_names_its_columns_in_every_chunk(name, build):
    read = extract(name, build([("Name", "Region"), *((f"host-{n}", "eu-west") for n in range(60))]))
    of = document(read.text, name, read.language)
    chunks = chunk_document(of, source("files"), tokenize=tokenize, model_tokens=160)
    assert len(chunks) > 3
    assert all(chunk.header.endswith("\nName | Region") for chunk in chunks[1:])
