from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_pipeline.chunking.registry import chunk_document
from knowledge_pipeline.records import Document
from knowledge_pipeline_tests.chunking.documents import assert_sound, source, texts, tokenize
from knowledge_pipeline_tests.thoroughness import examples

SHA = "0123456789abcdef0123456789abcdef01234567"


def commit(body: str = "Because it leaked.", diffs: int = 2, lines: int = 3) -> Document:
    parts: list[tuple[dict[str, Any], str]] = [
        ({"kind": "message"}, f"Close the file\n\n{body}\n\nAuthor: Ann\nDate: 2024-01-31T10:00:00+00:00"),
        ({"kind": "files"}, "Files changed: 2 (+3 -1)\n- a0.py (+2 -1)\n- a1.py (+1 -0)"),
    ]
    for number in range(diffs):
        excerpt = "@@ -1 +1 @@\n" + "\n".join(f"+line {n} of {number}" for n in range(lines))
        path = f"src/a{number}.py"
        parts.append(({"kind": "diff", "path": path}, f"diff {path}\n{excerpt}"))
    segments, at = [], 0
    for facts, text in parts:
        segments.append({**facts, "start_char": at, "end_char": at + len(text)})
        at += len(text) + 2
    return Document(
        uri=f"commit/{SHA}",
        text="\n\n".join(text for _, text in parts),
        path=f"commit/{SHA[:12]}",
        title="Close the file",
        author="Ann",
        last_modified=datetime(2024, 1, 31, 10, tzinfo=UTC),
        metadata={"sha": SHA, "segments": segments},
    )


def test_a_short_commit_is_one_chunk():
    of = commit()
    (chunk,) = chunk_document(of, source("git_history"), tokenize=tokenize, model_tokens=512)
    assert (chunk.anchor, chunk.text) == ("message", of.text)
    assert chunk.header == "commit 0123456789ab"
    assert chunk.metadata["paths"] == ["src/a0.py", "src/a1.py"]
    assert chunk.metadata["sha"] == SHA


def test_a_long_commit_is_its_message_with_the_files_and_then_its_diffs():
    of = commit(diffs=3, lines=20)
    chunks = chunk_document(of, source("git_history", max_tokens=192), tokenize=tokenize, model_tokens=512)
    assert_sound(chunks, of, 144)
    assert [chunk.anchor for chunk in chunks] == [
        "message",
        "diff src/a0.py",
        "diff src/a1.py",
        "diff src/a2.py",
    ]
    assert "Files changed" in chunks[0].text
    assert "diff" not in chunks[0].text
    assert chunks[1].header == "commit 0123456789ab: Close the file\nAnn, 2024-01-31"
    assert "paths" not in chunks[0].metadata
    assert chunks[2].metadata["paths"] == ["src/a1.py"]


def test_small_diffs_share_a_chunk():
    of = commit(body="Long story. " * 30, diffs=6)
    chunks = chunk_document(of, source("git_history", max_tokens=150), tokenize=tokenize, model_tokens=512)
    assert_sound(chunks, of, 102)
    assert any(len(chunk.metadata.get("paths", ())) > 1 for chunk in chunks)


def test_parts_are_found_again_after_a_sanitizer_moved_them():
    of = commit(diffs=3, lines=20)
    moved = Document(
        **{name: getattr(of, name) for name in of.__slots__ if name != "text"},
        text=of.text.replace("Because it leaked.", "[redacted]"),
    )
    chunks = chunk_document(moved, source("git_history", max_tokens=192), tokenize=tokenize, model_tokens=512)
    assert_sound(chunks, moved, 144)
    assert [chunk.anchor for chunk in chunks][1:] == ["diff src/a0.py", "diff src/a1.py", "diff src/a2.py"]


@settings(max_examples=examples(60), deadline=None)
@given(body=texts, lines=st.integers(1, 60), max_tokens=st.sampled_from([16, 60, 200]))
def test_any_commit_is_cut_soundly(body, lines, max_tokens):
    of = commit(body, lines=lines)
    by = source("git_history", max_tokens=max_tokens)
    chunks = chunk_document(of, by, tokenize=tokenize, model_tokens=512)
    assert_sound(chunks, of, max_tokens - min(48, max_tokens // 3))
    assert chunks == chunk_document(of, by, tokenize=tokenize, model_tokens=512)
