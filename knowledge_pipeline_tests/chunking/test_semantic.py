from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_pipeline.chunking.base import parse_blocks
from knowledge_pipeline.chunking.blocks import split_sections
from knowledge_pipeline.chunking.registry import chunk_document
from knowledge_pipeline.records import Chunk
from knowledge_pipeline_tests.chunking.documents import assert_sound, document, source, tokenize
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
