from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_pipeline.chunking.registry import chunk_document
from knowledge_pipeline.connectors.conversations import Turn, format_conversation
from knowledge_pipeline.records import Document
from knowledge_pipeline_tests.chunking.documents import assert_sound, source, texts, tokenize
from knowledge_pipeline_tests.thoroughness import examples

DAY = datetime(2026, 3, 1, 12, tzinfo=UTC)


def ticket(*turns: Turn, title: str = "PROJ-12 Signing fails") -> Document:
    text, segments = format_conversation(title, turns)
    return Document(
        uri="issue/12", text=text, path="PROJ/PROJ-12", title=title, metadata={"segments": segments}
    )


def cut(document: Document, tokens: int = 512):
    settings_ = source("markdown", strategy="conversation", max_tokens=tokens)
    return chunk_document(document, settings_, tokenize=tokenize, model_tokens=512)


def test_a_short_conversation_is_one_chunk():
    document = ticket(Turn("description", "It fails."), Turn("comment", "Since Monday.", "Ada", DAY))
    (chunk,) = cut(document)
    assert (
        chunk.text
        == document.text
        == ("PROJ-12 Signing fails\n\nIt fails.\n\nComment by Ada, 2026-03-01:\nSince Monday.")
    )
    assert (chunk.anchor, chunk.header) == ("description", "PROJ/PROJ-12")
    assert chunk.metadata["authors"] == ["Ada"]


def test_turns_stay_whole_and_the_title_is_repeated():
    said = [Turn("comment", f"Number {n}. " + "word " * 30, f"Author{n}", DAY) for n in range(6)]
    document = ticket(Turn("description", "It fails."), *said)
    chunks = cut(document, 120)
    assert_sound(chunks, document, 120)
    assert len(chunks) > 2
    for chunk in chunks[1:]:
        assert chunk.text.startswith("Comment by Author")
        assert chunk.header == "PROJ/PROJ-12\nPROJ-12 Signing fails"
    for n in range(6):
        holders = [chunk for chunk in chunks if f"Number {n}." in chunk.text]
        assert len(holders) == 1
        assert f"Comment by Author{n}, 2026-03-01:" in holders[0].text


def test_what_a_long_table_in_a_turn_goes_on_with_names_its_columns():
    rows = "".join(f"| host-{n} | eu-west |\n" for n in range(60))
    document = ticket(Turn("comment", f"| Name | Region |\n| --- | --- |\n{rows}\nThat is all.", "Ada", DAY))
    chunks = cut(document, 160)
    assert_sound(chunks, document, 160)
    first, *others = [chunk for chunk in chunks if "host-" in chunk.text]
    assert "| Name |" in first.text and len(others) > 2
    assert all(chunk.header.endswith("Comment by Ada, 2026-03-01\nName | Region") for chunk in others)


def test_what_a_long_turn_goes_on_with_says_who_speaks():
    long = "\n\n".join(f"Paragraph {n}: " + "word " * 20 for n in range(6))
    document = ticket(
        Turn("description", "It fails."), Turn("review comment", long, "Ada", DAY, "a.py line 3")
    )
    chunks = cut(document, 96)
    assert_sound(chunks, document, 96)
    assert chunks[-1].header.endswith("Review comment by Ada on a.py line 3, 2026-03-01")
    assert not chunks[-1].text.startswith("Review comment")


def test_turns_are_found_again_where_a_sanitizer_moved_them():
    said = [Turn("comment", f"Mail someone@example.org {'word ' * 30}", f"Author{n}", DAY) for n in range(4)]
    document = ticket(Turn("description", "Write to someone@example.org."), *said)
    moved = replace(document, text=document.text.replace("someone@example.org", "[REDACTED:email_address]"))
    chunks = cut(moved, 120)
    assert_sound(chunks, moved, 120)
    assert all(chunk.text.startswith("Comment by Author") for chunk in chunks[1:])


def test_a_line_like_a_turn_inside_a_turn_does_not_cut_it():
    document = ticket(Turn("description", "Before.\n\nNote:\nAfter."), Turn("comment", "Yes.", "Ada", DAY))
    assert len(cut(document)) == 1


def test_what_is_no_conversation_is_cut_otherwise():
    document = Document(uri="a", text="Just a text.", path="a")
    (chunk,) = cut(document)
    assert "not cut by 'conversation'" in chunk.metadata["note"]


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["description", "comment", "review"]), texts), max_size=6), texts)
def test_any_conversation_is_cut_soundly(said, title):
    turns = [Turn(kind, text, "Ada" if len(text) % 2 else None, DAY) for kind, text in said]
    document = ticket(*turns, title=title or "T")
    if document.text.isspace():
        pytest.skip("nothing to cut")
    assert_sound(cut(document, 64), document, 64)


def test_hunks_of_a_diff_are_chunks_of_their_own_and_are_cut_at_lines():
    small = "```diff\n@@ -1 +1 @@\n-a\n+b\n```"
    lines = [f"+    value{n} = compute(n). Then {n}" for n in range(40)]
    long = "\n".join(["```diff", "@@ -0,0 +1,40 @@", *lines, "```"])
    places = ["src/a.py line 1", "src/b.py line 1 in def pay(order)", "src/c.py lines 1-40"]
    diffs = [
        Turn("diff", text, "Ada", DAY, place)
        for text, place in zip((small, small, long), places, strict=True)
    ]
    document = ticket(Turn("description", "It fails."), Turn("comment", "Yes.", "Ada", DAY), *diffs)
    chunks = cut(document, 100)
    assert_sound(chunks, document, 100)
    assert [chunk.anchor.partition(":")[0] for chunk in chunks[:3]] == ["description", "diff", "diff"]
    assert "Yes." in chunks[0].text and "src/a.py" not in chunks[0].text
    for chunk, place in zip(chunks[1:3], places, strict=False):
        assert chunk.text.startswith(f"Diff by Ada on {place}, 2026-03-01:")
    pieces = chunks[3:]
    assert len(pieces) > 1 and all("src/c.py lines 1-40" in each.header for each in pieces[1:])
    assert all(sum(line in each.text.splitlines() for each in pieces) == 1 for line in lines)
