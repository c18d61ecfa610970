"""Records of a project: what they say of themselves, what is shown of them, and their files back."""

from __future__ import annotations

import codecs
import json
import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from pathspec import GitIgnoreSpec

from knowledge_pipeline.connectors.files import (
    ORIGINAL_KEY,
    FileSource,
    LocalTree,
    restore_original_bytes,
)
from knowledge_pipeline.connectors.patterns import SELECTION_DEFAULTS, FileSelection
from knowledge_pipeline.connectors.records import ARCHIVE_VERSION, parse_time, read_record
from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.records import Document

ADR = """---
id: ADR-7
type: ADR
title: Use Lance
status: accepted
date: 2026-01-31
updated: 2026-02-01T10:00:00+02:00
tags: [storage, tables]
labels: database, search
authors: [Ada Lovelace <ada@example.org>, {name: Grace Hopper}]
implements: SPEC-5
supersedes: [ADR-3, ADR-2]
closes: ["#12", 13]
references: https://example.org/lance
---

# Use Lance

Because of versions.
"""


def archive_of(folder: Path) -> FileSource:
    defaults = SELECTION_DEFAULTS["archive"]
    selection = FileSelection(defaults, None, GitIgnoreSpec.from_lines([]), frozenset(), False)
    return FileSource(
        LocalTree(folder, selection), lambda _: True, read_record, lambda _: ARCHIVE_VERSION, 1_000_000
    )


def read(folder: Path) -> dict[str, Document]:
    with archive_of(folder) as archive:
        return {item.uri: archive.fetch(item) for item in archive.discover() if item.skip is None}


def of_json(value: Any, name: str = "record.json") -> Document:
    made = read_record(name, json.dumps(value).encode())
    return Document(uri=name, text=made.text, title=made.title, metadata=made.metadata)


def test_the_front_matter_of_a_record_is_its_metadata_and_the_text_is_the_whole_file(tmp_path):
    (tmp_path / "0007.md").write_text(ADR)
    found = read(tmp_path)["0007.md"]
    assert (found.text, found.title, found.language) == (ADR, "Use Lance", "markdown")
    assert found.author == "Ada Lovelace, Grace Hopper"
    assert found.last_modified == datetime(2026, 2, 1, 8, tzinfo=UTC)
    assert found.metadata == {
        "id": "ADR-7",
        "kind": "adr",
        "status": "accepted",
        "tags": ["storage", "tables"],
        "labels": ["database", "search"],
        "authors": ["Ada Lovelace", "Grace Hopper"],
        "updated_at": "2026-02-01T08:00:00+00:00",
        "created_at": "2026-01-31T00:00:00+00:00",
        "mentions": [
            {"kind": "closes", "target": "#12"},
            {"kind": "closes", "target": "13"},
            {"kind": "implements", "target": "SPEC-5"},
            {"kind": "references", "target": "https://example.org/lance"},
            {"kind": "supersedes", "target": "ADR-2"},
            {"kind": "supersedes", "target": "ADR-3"},
        ],
    }


def test_a_record_without_front_matter_has_the_title_of_its_heading_and_the_time_of_its_file(tmp_path):
    for folder in ("docs/decisions", "sessions", "notes"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "a.md").write_text("# Use Lance\n\nText.\n")
        os.utime(tmp_path / folder / "a.md", (0, 1_600_000_000))
    found = read(tmp_path)
    assert {uri: document.metadata for uri, document in found.items()} == {
        "docs/decisions/a.md": {"kind": "adr"},
        "sessions/a.md": {"kind": "session"},
        "notes/a.md": {},
    }
    document = found["notes/a.md"]
    assert (document.title, document.author) == ("Use Lance", None)
    assert document.last_modified == datetime.fromtimestamp(1_600_000_000, UTC)


def test_front_matter_says_what_is_written_in_it():
    text = "---\nid: 0012\nstatus: yes\nproject: 1.10\ntitle: >-\n  A title\n  that is folded\n"
    text += (
        "date: 2015-11-17 16:16:01 -0600\nupdated: 2026-13-45\nsupersedes: [0011, 010]\ntags: [on, 2024]\n"
    )
    text += "labels: ~\nauthors: !!python/object/apply:os.getcwd []\n---\n# Heading\n"
    record = read_record("0012.md", text.encode())
    assert record.title == "A title that is folded"
    assert record.metadata == {
        "id": "0012",
        "status": "yes",
        "project": "1.10",
        "tags": ["on", "2024"],
        "created_at": "2015-11-17T22:16:01+00:00",
        "mentions": [{"kind": "supersedes", "target": "0011"}, {"kind": "supersedes", "target": "010"}],
    }


def test_front_matter_of_toml_is_read_too():
    made = read_record("a.md", b'+++\ntitle = "Plan"\nkind = "plan"\ndate = 2026-01-31\n+++\nText\n')
    assert made.title == "Plan"
    assert made.metadata == {"kind": "plan", "created_at": "2026-01-31T00:00:00+00:00"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("---\ntitle: [a\nstatus: x\n---\n# Heading\n", "no valid YAML (line"),
        ("---\ntitle: a\n\tb: c\n---\n# Heading\n", "no valid YAML (line"),
        ("---\n- a: b\n---\n# Heading\n", "has no fields"),
        ("---\ntitle: a\n\n# Heading\n", "has no end"),
        ("+++\ntitle = \n+++\n# Heading\n", "no valid TOML"),
        ("---\na: " + "[" * 9000 + "\n---\n# Heading\n", "it is nested too deep"),
    ],
)
def test_broken_front_matter_makes_plain_text_and_a_note(text, why):
    made = read_record("a.md", text.encode())
    assert made.text == text
    assert set(made.metadata) == {"note"}
    assert why in made.metadata["note"] and made.metadata["note"].endswith("; taken as plain text")


@pytest.mark.parametrize(
    "text", ["---\n\nText between\n\n---\nrulers\n", "---\n", "# No matter\n", "--- a\n"]
)
def test_rulers_are_no_front_matter(text):
    assert read_record("a.md", text.encode()).metadata == {}


def test_aliases_that_grow_without_end_cost_nothing():
    levels = "\n".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}, *a{n - 1}]" for n in range(1, 40))
    made = read_record("a.md", f"---\na0: &a0 [x]\n{levels}\ntags: *a39\n---\n".encode())
    assert "aliases grow beyond all bounds; taken as plain text" in made.metadata.pop("note")
    assert made.metadata == {}


SESSION = {
    "id": "s-1",
    "title": "Fix the lock",
    "type": "session",
    "created_at": "2026-03-01T09:00:00Z",
    "references": ["ADR-7"],
    "model": {"name": "small", "temperature": 0.25},
    "messages": [
        {"role": "user", "content": "Why does it hang?", "created_at": "2026-03-01T09:00:01Z"},
        {"role": "assistant", "content": [{"type": "text", "text": "The lock.\nIt is held."}], "tokens": 12},
        {"role": "tool_result", "author": {"name": "grep"}, "text": "lock.py:3", "created_at": 1772355603},
        {"role": "user", "content": ""},
    ],
}


def test_a_session_of_json_is_a_conversation_with_its_turns(tmp_path):
    (tmp_path / "s.json").write_text(json.dumps(SESSION))
    found = read(tmp_path)["s.json"]
    assert found.text == (
        "Fix the lock\n\n"
        "id: s-1\ntype: session\ncreated_at: 2026-03-01T09:00:00Z\n\n"
        "## references\n\n- ADR-7\n\n## model\n\nname: small\ntemperature: 0.25\n\n"
        "User, 2026-03-01:\nWhy does it hang?\n\n"
        "Assistant:\nThe lock.\nIt is held.\ntokens: 12\n\n"
        "Tool result by grep, 2026-03-01:\nlock.py:3"
    )
    assert (found.title, found.last_modified) == ("Fix the lock", datetime(2026, 3, 1, 9, tzinfo=UTC))
    told = found.metadata
    assert (told["kind"], told["mentions"]) == ("session", [{"kind": "references", "target": "ADR-7"}])
    assert [segment["kind"] for segment in told["segments"]] == [
        "description",
        "user",
        "assistant",
        "tool result",
    ]
    assert told["segments"][3]["author"] == "grep"
    for segment in told["segments"][1:]:
        assert found.text[segment["start_char"] :].lower().startswith(segment["kind"])
    assert restore_original_bytes(found.text, told) == (tmp_path / "s.json").read_bytes()


def test_a_list_of_messages_and_lines_of_messages_are_conversations_too():
    messages = [{"author": "Ada", "text": "Hello"}, {"author": "Bob", "text": "World"}]
    lines = "\n".join(json.dumps(message) for message in messages).encode()
    for name, payload in (("talk.json", json.dumps(messages).encode()), ("talk.jsonl", lines)):
        made = read_record(name, payload)
        assert made.text == "talk\n\nMessage by Ada:\nHello\n\nMessage by Bob:\nWorld"
        assert len(made.metadata["segments"]) == 3
        assert restore_original_bytes(made.text, made.metadata) == payload


def as_lines(*lines: dict[str, Any] | str) -> bytes:
    written = (line if isinstance(line, str) else json.dumps(line) for line in lines)
    return "\n".join(written).encode()


def by_agent(kind: str, content: Any, at: str, **more: Any) -> dict[str, Any]:
    message = {"role": kind, "content": content, **more}
    outer = {"uuid": "u1", "parentUuid": None, "sessionId": "5f0c", "cwd": "/src", "isSidechain": False}
    return {**outer, "type": kind, "message": message, "timestamp": f"2026-03-01T{at}Z"}


AGENT_SESSION = [
    {"type": "summary", "summary": "Fix the lock", "leafUuid": "u9"},
    {"type": "file-history-snapshot", "messageId": "m1", "snapshot": {"files": ["a.py"]}},
    by_agent("user", "Why does it hang?", "09:00:00"),
    by_agent(
        "assistant",
        [
            {"type": "thinking", "thinking": "Perhaps the lock.", "signature": "c2lnbmVk" * 40},
            {"type": "text", "text": "I look at the lock."},
            {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "grep lock *.py"}},
        ],
        "09:00:05",
        model="large",
        id="msg_1",
        usage={"input_tokens": 12},
    ),
    by_agent(
        "user",
        [
            {"type": "tool_result", "tool_use_id": "t1", "content": "lock.py:3: acquire()"},
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0" * 99},
            },
        ],
        "09:00:06",
    ),
    {
        "type": "system",
        "subtype": "info",
        "content": "Context is compacted",
        "timestamp": "2026-03-01T09:10:00Z",
    },
]
AGENT_TEXT = (
    "Fix the lock\n\n"
    "Summary:\nsummary: Fix the lock\n\n"
    "User, 2026-03-01:\nWhy does it hang?\n\n"
    "Assistant, 2026-03-01:\ntype: thinking\nthinking: Perhaps the lock.\nI look at the lock.\n"
    "type: tool_use\nid: t1\nname: Bash\ninput:\n  command: grep lock *.py\n\n"
    "User, 2026-03-01:\ntype: tool_result\ntool_use_id: t1\ncontent: lock.py:3: acquire()\n"
    "type: image\nsource:\n  type: base64\n  media_type: image/png\n  data: (data)\n\n"
    "System, 2026-03-01:\nContext is compacted\nsubtype: info"
)


def test_the_session_of_a_coding_agent_is_a_conversation():
    payload = as_lines(*AGENT_SESSION)
    made = read_record("5f0c.jsonl", payload)
    assert made.text == AGENT_TEXT
    assert made.title == "Fix the lock"
    assert made.last_modified == datetime(2026, 3, 1, 9, 10, tzinfo=UTC)
    told = dict(made.metadata)
    kinds = [segment["kind"] for segment in told.pop("segments")]
    assert kinds == ["title", "summary", "user", "assistant", "user", "system"]
    assert restore_original_bytes(made.text, told) == payload
    told.pop(ORIGINAL_KEY)
    assert told == {
        "id": "5f0c",
        "kind": "session",
        "created_at": "2026-03-01T09:00:00+00:00",
        "updated_at": "2026-03-01T09:10:00+00:00",
        "note": "lines left out as the program's own: 1 (1 file-history-snapshot)",
    }


def test_a_session_whose_last_line_is_cut_lacks_that_line_alone():
    whole = as_lines(*AGENT_SESSION)
    made = read_record("5f0c.jsonl", whole + b'\n{"type": "user", "message": {"role": "us')
    assert made.text == AGENT_TEXT
    assert made.metadata["note"].startswith(
        "its last line (7) is cut, and left out; lines left out as the program"
    )
    broken = as_lines(*AGENT_SESSION[:3], "<<<<<<< HEAD", *AGENT_SESSION[3:], "[" * 100_000, "")
    made = read_record("5f0c.jsonl", broken)
    assert made.text == AGENT_TEXT
    assert made.metadata["note"].startswith("2 lines that are no valid JSON are left out: 4, 8; ")
    one = read_record("s.jsonl", as_lines(by_agent("user", "Begin", "09:00:00"), '{"type": "assis'))
    assert one.text == "s\n\nUser, 2026-03-01:\nBegin"


def test_a_session_of_events_with_payloads_is_a_conversation():
    def event(outer: str, **payload: Any) -> dict[str, Any]:
        return {"timestamp": "2026-03-02T10:00:00.123Z", "type": outer, "payload": payload}

    made = read_record(
        "rollout.jsonl",
        as_lines(
            event("session_meta", id="019a", cwd="/src", cli_version="0.46.0", git={"branch": "main"}),
            event(
                "response_item",
                type="message",
                role="user",
                content=[{"type": "input_text", "text": "What fails?"}],
            ),
            event("event_msg", type="user_message", message="What fails?", kind="plain"),
            event("turn_context", cwd="/src", model="large", summary="auto"),
            event("response_item", type="reasoning", summary=[], encrypted_content="gAAAA" * 50),
            event(
                "response_item",
                type="function_call",
                name="shell",
                arguments='{"command":["make","test"]}',
                call_id="c1",
            ),
            event("response_item", type="function_call_output", call_id="c1", output="1 failed"),
            event("event_msg", type="token_count", info={"total": 12}),
            event(
                "response_item",
                type="message",
                role="assistant",
                content=[{"type": "output_text", "text": "test_lock fails."}],
            ),
        ),
    )
    assert made.text == (
        "rollout\n\n"
        "User, 2026-03-02:\nWhat fails?\n\n"
        'Function call, 2026-03-02:\nname: shell\narguments: {"command":["make","test"]}\n\n'
        "Function call output, 2026-03-02:\noutput: 1 failed\n\n"
        "Assistant, 2026-03-02:\ntest_lock fails."
    )
    assert (made.metadata["id"], made.metadata["kind"]) == ("019a", "session")
    assert made.metadata["note"] == (
        "lines left out as the program's own: 4 (1 session_meta, 1 turn_context, 1 reasoning, 1 token_count)"
    )


def test_records_that_only_look_like_turns_are_no_session():
    people = as_lines({"role": "CTO", "text": "Ada"}, {"team": "core"})
    assert read_record("people.jsonl", people).text.startswith("# people")
    assert read_record("one.json", b'{"role": "user", "text": "Ada"}').text.startswith("# one")


def test_other_json_is_shown_as_lines_and_sections():
    found = of_json(
        {
            "title": "Plan",
            "status": "done",
            "big": 12345678901234567890.10,
            "ok": True,
            "none": None,
            "steps": [{"do": "a", "why": "b"}, "c"],
            "body": "# One\r\n\nTwo",
        }
    )
    assert found.text == (
        "# Plan\n\nstatus: done\nbig: 1.2345678901234567e+19\nok: yes\nnone: \n\n"
        "## steps\n\n-\n  do: a\n  why: b\n- c\n\n## body\n\n# One\n\nTwo\n"
    )
    assert (found.title, found.metadata["status"], "segments" in found.metadata) == ("Plan", "done", False)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{oops", "no valid JSON (line 1)"),
        ('{"a": 1}\n{\n{', "no valid JSON"),
        ('{"a": 1}\n2\n{', "no valid JSON"),
        ("[" * 100_000, "nested too deep"),
    ],
)
def test_what_is_no_json_is_plain_text_with_a_note(text, why):
    made = read_record("a.json", text.encode())
    assert (made.text, made.language) == (text, "text")
    assert why in made.metadata["note"]


def test_what_a_table_cannot_hold_is_replaced_in_the_text_and_kept_in_the_original():
    payload = rb'{"title": "a\u0000b", "text": "\ud800 end"}'
    made = read_record("a.json", payload)
    assert "\0" not in made.text and "end" in made.text and made.text.encode()
    assert restore_original_bytes(made.text, made.metadata) == payload


def test_binary_and_empty_files_are_skipped():
    for payload in (b"a\0b", b"", b" \n", b"\xff\xfe\xfa"):
        with pytest.raises(DocumentSkipped):
            read_record("a.md", payload)


def test_usual_files_need_no_word_about_their_original():
    assert read_record("a.md", b"# Title\n\ntext  \n\n").metadata == {}
    crlf = read_record("a.md", codecs.BOM_UTF8 + b"# Title\r\ntext\r\n")
    assert crlf.metadata == {ORIGINAL_KEY: {"encoding": "utf-8", "newlines": "crlf"}}
    mixed = read_record("a.md", b"# Title\r\ntext\n")
    assert set(mixed.metadata[ORIGINAL_KEY]) == {"bytes"}


PIECES = ["a", "é", "\u2028", "\ufeff", "\r", "\n", "\r\n", " ", "\t", "-", ":", "𝄞"]
TEXTS = st.lists(st.sampled_from(PIECES)).map("".join) | st.lists(st.sampled_from(["a b", "\r\n"])).map(
    "".join
)
PAYLOADS = st.one_of(
    st.binary(),
    TEXTS.map(str.encode),
    st.text().map(lambda text: text.encode("utf-8", "replace")),
    st.tuples(
        st.sampled_from(
            [
                ("utf-8", codecs.BOM_UTF8),
                ("utf-16-le", codecs.BOM_UTF16_LE),
                ("utf-16-be", codecs.BOM_UTF16_BE),
                ("utf-32-le", codecs.BOM_UTF32_LE),
                ("utf-32-be", codecs.BOM_UTF32_BE),
            ]
        ),
        TEXTS,
    ).map(lambda made: made[0][1] + made[1].encode(made[0][0])),
    TEXTS.map(lambda text: b"# coding: latin-1\n" + text.encode("latin-1", "replace")),
    TEXTS.map(lambda text: f"---\ntitle: a\n---\n{text}".encode()),
)
JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.sampled_from([*"abc", "title", "messages", "role"]), inner)
    ),
)


@given(PAYLOADS, st.sampled_from(["a.md", "a.txt", "a.rst", "a.json", "a.jsonl"]))
def test_every_file_that_is_accepted_comes_back_byte_for_byte(payload, name):
    try:
        made = read_record(name, payload)
    except DocumentSkipped:
        assume(False)
        raise
    stored = json.loads(json.dumps(made.metadata))
    assert restore_original_bytes(made.text.encode().decode(), stored) == payload


@example({"a": None, "b": 0, "title": 0}, None, False)
@given(JSONS, st.sampled_from([None, 1]), st.booleans())
def test_any_json_comes_back_and_no_word_of_it_is_lost(value, indent, escaped):
    payload = json.dumps(value, indent=indent, ensure_ascii=escaped).encode("utf-8", "replace")
    made = read_record("record.json", payload)
    assert restore_original_bytes(made.text, made.metadata) == payload
    for word in words_of(json.loads(payload)):
        assert word in made.text


def words_of(value: Any) -> set[str]:
    if isinstance(value, dict):
        return {word for pair in value.items() for part in pair for word in words_of(part)} - {
            *("role", "title", "messages")
        }
    if isinstance(value, list):
        return {word for each in value for word in words_of(each)}
    if isinstance(value, str):
        return {word for word in re.findall(r"\w+", value)} - {"role", "title", "messages"}
    return {str(value)} if isinstance(value, int) and not isinstance(value, bool) else set()


TURNS = st.fixed_dictionaries(
    {"role": st.text(max_size=9) | st.integers(), "content": st.text() | st.lists(JSONS, max_size=3)},
    optional={"author": st.text() | JSONS, "created_at": st.text() | JSONS, "more": JSONS},
)


@given(st.lists(TURNS, min_size=1))
def test_what_was_said_in_any_conversation_is_in_its_text_where_the_segments_say(turns):
    made = read_record("talk.json", json.dumps({"messages": turns}).encode())
    starts = [segment["start_char"] for segment in made.metadata.get("segments", [{"start_char": 0}])]
    assert starts == sorted(set(starts)) and starts[0] == 0 and starts[-1] <= len(made.text)
    for turn in turns:
        if isinstance(turn["content"], str):
            assert words_of(turn["content"]) <= words_of(made.text) or not turn["content"].strip()


@pytest.mark.slow
@given(st.dictionaries(st.sampled_from(["tags", "date", "author", "closes", "title", "id", "kind"]), JSONS))
def test_any_front_matter_gives_metadata_that_a_table_can_hold(fields):
    made = read_record("a.md", f"---\n{json.dumps(fields)}\nx: y\n---\n{json.dumps(fields)}\n".encode())
    json.dumps(made.metadata).encode()
    made = read_record(
        "a.md", ("---\n" + "".join(f"{k}: {json.dumps(v)}\n" for k, v in fields.items()) + "---\n").encode()
    )
    json.loads(json.dumps(made.metadata, allow_nan=False))
    made.title.encode()


@pytest.mark.parametrize(
    ("told", "moment"),
    [
        ("2026-01-31", datetime(2026, 1, 31, tzinfo=UTC)),
        ("2026-01-31T10:00:00+02:00", datetime(2026, 1, 31, 8, tzinfo=UTC)),
        (1_769_817_600, datetime(2026, 1, 31, tzinfo=UTC)),
        ("1769817600000", datetime(2026, 1, 31, tzinfo=UTC)),
        ("0001-01-01T00:00:00+14:00", None),
        ("soon", None),
        ("", None),
        (None, None),
        (True, None),
        ("12", None),
    ],
)
def test_times_are_understood_however_they_are_written(told, moment):
    assert parse_time(told) == moment


def test_a_revision_changes_with_the_file(tmp_path):
    place = tmp_path / "a.md"
    place.write_text("# One")
    os.utime(place, (0, 1_600_000_000))
    with archive_of(tmp_path) as archive:
        [before] = archive.discover()
        place.write_text("# Two")
        [after] = archive.discover()
    assert before.revision != after.revision and before.uri == after.uri == "a.md"
