"""Questions, chats, completions and tasks of several files, on real tables."""

from __future__ import annotations

import json
from typing import Any

import pytest

from knowledge_pipeline import ChatTurn, KnowledgeBase, Task
from knowledge_pipeline.context.prompt import keep_newest
from knowledge_pipeline.context.task_text import fit_code_around_cursor
from knowledge_pipeline.context.tokens import estimate_tokens
from knowledge_pipeline.contract.requests import parse_history
from knowledge_pipeline.errors import InvalidQuery
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline_tests.query.search.rows import publish, row, write

ROWS = [
    row("def retry(send, times):\n    return any(send() for _ in range(times))", "src/retry.py"),
    row("def retry_later(send, times):\n    return any(send(9) for _ in range(times))", "src/later.py"),
    row("def backoff(attempt):\n    return 2 ** attempt  # seconds to wait before a retry", "src/backoff.py"),
    row("A failed request is tried again three times.", "guide.md", source="docs", source_type="markdown"),
    row("Backoff doubles with every attempt.", "backoff.md", source="docs", source_type="markdown"),
]


@pytest.fixture
def base(base: KnowledgeBase, lake: Lake, space: str) -> KnowledgeBase:
    write(lake, space, ROWS)
    publish(lake)
    return base


def test_a_task_of_several_files_names_each_and_finds_what_is_like_any_but_none_of_them(base: KnowledgeBase):
    files = ("src/retry.py", "src/backoff.py", "src/new.py")
    context = base.context(Task("retry a request", kind="code_review", files=files))
    assert "Files:\n- src/retry.py\n- src/backoff.py\n- src/new.py\n" in context.text
    searches = {run.name: run for run in context.searches}
    assert searches["semantic"].query == "retry a request src/retry.py src/backoff.py src/new.py"
    assert searches["similar"].query == ", ".join(files) and searches["similar"].found == 1
    assert "no file 'src/new.py'" in searches["similar"].degraded["similar"]
    assert context.degraded == ("similar",)
    one = base.context(Task("review", kind="code_review", files=("src/retry.py",)))
    assert one.text == base.context(Task("review", kind="code_review", file="src/retry.py")).text


def test_a_question_is_answered_from_documents_and_code(base: KnowledgeBase):
    context = base.context(Task("what happens to a failed request?", kind="question"))
    assert "## Question\n\nwhat happens to a failed request?\n" in context.text
    assert context.excerpts[0].citation.path == "guide.md" and context.messages is None
    assert "messages" not in context.as_json() and "dropped_turns" not in context.as_json()


def test_a_chat_has_messages_within_the_budget_without_its_oldest_turns(base: KnowledgeBase):
    history = (
        ChatTurn("user", "tell me everything " * 60),
        ChatTurn("assistant", "a long answer " * 60),
        ChatTurn("user", "how does backoff work?"),
        ChatTurn("assistant", "It waits."),
    )
    task = Task("and how long?", kind="chat", history=history)
    whole, small = base.context(task), base.context(task, max_tokens=300)
    roles = [each.role for each in whole.messages or ()]
    assert roles == ["system", *("user", "assistant") * 2, "user"]
    assert whole.dropped_turns == 0 and "history" not in whole.degraded
    assert small.messages and [each.content for each in small.messages[1:]] == [
        *("how does backoff work?", "It waits.", "and how long?")
    ]
    assert small.dropped_turns == 2 and small.degraded == ("history",)
    assert sum(estimate_tokens(each.content) for each in small.messages) < small.tokens <= 300
    assert small.messages[0].content == small.text and "and how long?" not in small.text
    assert "backoff.md" in {each.citation.path for each in small.excerpts}  # by the question before
    assert json.loads(json.dumps(small.as_json()))["messages"][-1] == {
        "role": "user",
        "content": "and how long?",
    }


def test_a_completion_keeps_what_is_nearest_to_the_cursor_on_both_sides(base: KnowledgeBase):
    before = "\n".join(f"first_{n} = {n}" for n in range(300)) + "\n\ndef retry_now(send):\n    return "
    after = "\n\n\ndef last(send):\n    pass\n" + "\n".join(f"last_{n} = {n}" for n in range(300))
    task = Task("complete it", kind="complete_code", file="src/now.py", snippet=before, suffix=after)
    context = base.context(task, max_tokens=800)
    assert context.tokens <= 800 and context.excerpts
    assert "\n\ndef retry_now(send):\n    return \n```\n\n## Code after the cursor\n" in context.text
    assert "def last(send):\n" in context.text
    assert "first_0 =" not in context.text and "last_299" not in context.text
    assert context.degraded == ("snippet", "suffix")
    short = base.context(Task("complete it", kind="complete_code", snippet="x = ", suffix="\ny = 2"))
    assert "```\nx = \n```" in short.text and "```\n\ny = 2\n```" in short.text and short.degraded == ()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"suffix": "x"}, "has no suffix: choose complete_code"),
        ({"history": (ChatTurn("user", "x"),)}, "has no history: choose chat"),
        ({"kind": "chat", "history": (ChatTurn("user", "x" * 200_000),)}, "the task with its history has"),
        ({"kind": "complete_code", "suffix": "x" * 20_001}, "the suffix has 20,001 characters"),
        ({"files": tuple(map(str, range(21)))}, r"the task has 21 files; allowed: at most 20 \(limits.task"),
    ],
)
def test_what_a_task_of_a_kind_cannot_have_is_refused(base: KnowledgeBase, given: dict[str, Any], said: str):
    with pytest.raises(InvalidQuery, match=said):
        base.context(Task("x", **given))


@pytest.mark.parametrize(
    "text", ["", "{", "1", '[{"role": "system", "content": "x"}]', '[{"role": "user"}]', "[[]]"]
)
def test_a_history_that_is_none_is_one_sentence(text: str):
    with pytest.raises(InvalidQuery, match="history"):
        parse_history(text)


def test_the_newest_turns_are_kept_and_no_answer_without_its_question():
    history = [ChatTurn(role, "x " * 10) for role in ("user", "assistant", "user", "assistant")]
    kept = [len(keep_newest(history, room, len)) for room in (0, 24, 47, 48, 72, 96)]
    assert kept == [0, 0, 0, 2, 2, 4]


def test_the_longer_side_of_the_cursor_takes_what_the_other_leaves():
    lines = "".join(f"{n:03}\n" for n in range(20))
    assert fit_code_around_cursor(lines, "abc\n", 24, len) == (lines[-20:], "abc\n")
    assert fit_code_around_cursor("abc\n", lines, 24, len) == ("abc\n", lines[:20])
    assert fit_code_around_cursor(lines, lines, 24, len) == (lines[-16:], lines[:8])
    assert fit_code_around_cursor("x" * 99, "", 24, len) == ("x" * 24, "")
