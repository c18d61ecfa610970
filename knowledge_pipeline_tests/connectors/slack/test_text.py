"""Slack's markup, blocks and attachments as text."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_pipeline.connectors.slack.text import keep_ids, render_message, render_text


def find_name(kind: str, id_: str) -> str | None:
    return {"U1": "Ada Lovelace", "W2": "Bob", "C1": "general"}.get(id_)


def rich(*elements: dict, kind: str = "rich_text_section", **more) -> dict:
    inside = {"type": kind, "elements": list(elements), **more}
    return {"text": "", "blocks": [{"type": "rich_text", "elements": [inside]}]}


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("ask <@U1> or <@W2>, not <@U9> or <@U8|carol>", "ask @Ada Lovelace or @Bob, not @someone or @carol"),
        ("in <#C1> and <#C2|old> and <#C3>", "in #general and #old and #unknown-channel"),
        ("<#C1|formerly>", "#general"),
        ("<https://a.example/x?a=1&amp;b=2|the &lt;site&gt;>", "[the <site>](https://a.example/x?a=1&b=2)"),
        ("see <https://a.example/x>.", "see https://a.example/x."),
        ("<mailto:ada@example.org|ada@example.org>", "ada@example.org"),
        ("<mailto:ada@example.org|write>", "[write](mailto:ada@example.org)"),
        ("<tel:+4912345|+49 123 45>", "[+49 123 45](tel:+4912345)"),
        ("<!here> <!channel> <!everyone|everybody>", "@here @channel everybody"),
        ("<!subteam^S1|@authors> <!subteam^S2>", "@authors @group"),
        ("<!date^1392734382^{date}|Feb 18>", "Feb 18"),
        ("<!date^1392734382^{date}^https://a.example|Feb 18>", "[Feb 18](https://a.example)"),
        ("<!date^1392734382^{date}>", "2014-02-18 14:39 UTC"),
        ("<!date^soon^{date}>", "soon"),
        ("a &lt; b &amp;&amp; c &gt; d &amp;lt;", "a < b && c > d &lt;"),
        ("*bold* _italic_ ~gone~ :tada:", "*bold* _italic_ ~gone~ :tada:"),
        ("&gt; said before", "> said before"),
        ("`a &lt;b&gt; *c*` and `<https://a.example|a.example>`", "`a <b> *c*` and `a.example`"),
        ("run ```x &lt; 1\n  <@U1>``` now", "run \n```\nx < 1\n  <@U1>\n```\n now"),
        ("```\nalone\n```", "```\nalone\n```"),
        ("<not a thing> < > <>", "<not a thing> < > <>"),
        ("<https://a.example|`code`>", "[`code`](https://a.example)"),
        ("half of a \ud83d character", "half of a ? character"),
    ],
)
def test_markup_is_shown_as_people_see_it(given, shown):
    assert render_text(given, find_name) == shown


WORD = st.from_regex(r"[a-z]{3,8}", fullmatch=True)
PIECE = st.one_of(
    WORD.map(lambda word: (word, word)),
    WORD.map(lambda word: (f"*{word}*", word)),
    WORD.map(lambda word: (f"&lt;{word}&gt;", f"<{word}>")),
    WORD.map(lambda word: (f"`{word}`", word)),
    WORD.map(lambda word: (f"```{word}\n  {word}```", f"\n{word}\n  {word}\n")),
    st.tuples(WORD, WORD).map(
        lambda two: (f"<https://{two[0]}.example|{two[1]}>", f"[{two[1]}](https://{two[0]}.")
    ),
    WORD.map(lambda word: (f"<https://{word}.example/a>", f"https://{word}.example/a")),
    WORD.map(lambda word: (f"<#C9|{word}>", f"#{word}")),
    WORD.map(lambda word: (f"<!subteam^S1|@{word}>", f"@{word}")),
    st.just(("<@U1>", "@Ada Lovelace")),
    st.just((":smile:", ":smile:")),
    st.just(("\n", "\n")),
)


@given(st.lists(PIECE))
def test_no_word_is_lost_and_no_markup_is_left(pieces):
    shown = render_text(" ".join(raw for raw, _ in pieces), find_name)
    at = 0
    for _, expected in pieces:
        at = shown.find(expected, at)
        assert at >= 0, expected
        at += len(expected)
    assert not re.search(r"<[@#!]|&(lt|gt|amp);|\|", shown)


@given(st.text(alphabet="<>@#!|^`&;*U1C \nlt:ah/\ud800"))
def test_whatever_is_in_a_text_it_becomes_valid_text(text):
    render_text(text, find_name).encode()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *("type", "text", "elements", "blocks", "fields", "style", "rows"),
                    *("title", "url", "indent", "files", "accessory", "options", "element", "tasks"),
                    *("actions", "details", "sources", "call", "v1", "is_share", "message_blocks", "message"),
                ]
            ),
            inner
            | st.sampled_from(
                [
                    *("rich_text", "rich_text_list", "section", "table", "mrkdwn", "link", "user"),
                    *("actions", "button", "plan", "task_card", "input", "call", "carousel"),
                ]
            ),
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(["text", "blocks", "attachments", "files"]), JSON))
def test_no_message_however_odd_breaks_the_reading(message):
    render_message(message, find_name).encode()


@pytest.mark.parametrize(
    ("element", "shown"),
    [
        ({"type": "text", "text": "plain"}, "plain"),
        ({"type": "text", "text": " a < b ", "style": {"bold": True}}, "*a < b*"),
        ({"type": "text", "text": "x", "style": {"italic": True, "strike": True}}, "_~x~_"),
        ({"type": "text", "text": "x = 1", "style": {"code": True}}, "`x = 1`"),
        ({"type": "link", "url": "https://a.example", "text": "here"}, "[here](https://a.example)"),
        ({"type": "link", "url": "https://a.example"}, "https://a.example"),
        ({"type": "user", "user_id": "U1"}, "@Ada Lovelace"),
        ({"type": "channel", "channel_id": "C1"}, "#general"),
        ({"type": "usergroup", "usergroup_id": "S1"}, "@group"),
        ({"type": "broadcast", "range": "here"}, "@here"),
        ({"type": "emoji", "name": "tada"}, ":tada:"),
        ({"type": "date", "timestamp": 1392734382, "format": "{date}"}, "2014-02-18 14:39 UTC"),
        ({"type": "color", "value": "#F405B3"}, "#F405B3"),
    ],
)
def test_rich_text_is_read_where_the_text_is_empty(element, shown):
    assert render_message(rich(element), find_name) == shown


def test_lists_quotes_and_code_of_rich_text_keep_their_shape():
    item = {"type": "rich_text_section", "elements": [{"type": "text", "text": "one"}]}
    text = {"type": "text", "text": "a\nb"}
    assert render_message(rich(item, item, kind="rich_text_list", style="bullet"), keep_ids) == "- one\n- one"
    assert render_message(rich(item, kind="rich_text_list", style="ordered", offset=2), keep_ids) == "3. one"
    assert render_message(rich(text, kind="rich_text_quote"), keep_ids) == "> a\n> b"
    assert render_message(rich(text, kind="rich_text_preformatted"), keep_ids) == "```\na\nb\n```"


def test_blocks_that_are_composed_are_read_in_the_place_of_their_fallback():
    blocks = [
        {"type": "header", "text": {"type": "plain_text", "text": "Deploy < 3"}},
        {
            "type": "section",
            "text": {"type": "mrkdwn", "text": "by <@U1> &amp; co"},
            "fields": [{"type": "mrkdwn", "text": "*env*"}, {"type": "plain_text", "text": "live"}],
        },
        {"type": "divider"},
        {
            "type": "context",
            "elements": [{"type": "image", "alt_text": "logo"}, {"type": "mrkdwn", "text": "x"}],
        },
        {"type": "image", "title": {"type": "plain_text", "text": "Load"}, "alt_text": "a graph"},
        {"type": "markdown", "text": "## done"},
        {"type": "table", "rows": [[{"type": "raw_text", "text": "a"}], [{"type": "raw_text", "text": "1"}]]},
    ]
    shown = "Deploy < 3\n\nby @Ada Lovelace & co\n*env*\nlive\n\nlogo x\n\nLoad\n\n## done"
    shown += "\n\n| a |\n| --- |\n| 1 |"
    assert render_message({"text": "a deploy", "blocks": blocks}, find_name) == shown
    assert render_message({"text": "a deploy", "blocks": [{"type": "divider"}]}, find_name) == "a deploy"


def plain(text: str) -> dict:
    return {"type": "plain_text", "text": text}


def button(text: str, url: str | None = None) -> dict:
    return {"type": "button", "action_id": "a", "text": plain(text), **({"url": url} if url else {})}


@pytest.mark.parametrize(
    ("block", "shown"),
    [
        (
            {"type": "actions", "elements": [button("Open run", "https://ci.example/7"), button("Approve")]},
            "a deploy\n\n[Open run](https://ci.example/7)",
        ),
        (
            {
                "type": "section",
                "text": plain("Build 7 failed"),
                "accessory": button("Logs", "https://ci.example/7/logs"),
            },
            "Build 7 failed\n[Logs](https://ci.example/7/logs)",
        ),
        (
            {
                "type": "section",
                "text": plain("Build 7"),
                "accessory": {
                    "type": "overflow",
                    "options": [
                        {"text": plain("Rerun"), "value": "1"},
                        {**button("Diff", "https://d.example")},
                    ],
                },
            },
            "Build 7\n[Diff](https://d.example)",
        ),
        (
            {
                "type": "input",
                "label": plain("What happened?"),
                "element": {"type": "plain_text_input", "initial_value": "The disk is full"},
                "hint": plain("In one sentence"),
            },
            "What happened?\nThe disk is full\nIn one sentence",
        ),
        (
            {
                "type": "plan",
                "title": "Look into the outage",
                "tasks": [
                    {"type": "task_card", "task_id": "t1", "title": "Read the logs", "status": "complete"},
                    {
                        "type": "task_card",
                        "task_id": "t2",
                        "title": "Find the change",
                        "details": rich({"type": "text", "text": "since noon"})["blocks"][0],
                        "output": rich({"type": "text", "text": "It was 4f2a"})["blocks"][0],
                        "sources": [{"type": "url", "url": "https://g.example/4f2a", "text": "4f2a"}],
                    },
                ],
            },
            "Look into the outage\nRead the logs\nFind the change\nsince noon\nIt was 4f2a\n"
            "[4f2a](https://g.example/4f2a)",
        ),
        (
            {
                "type": "call",
                "call_id": "R1",
                "call": {"v1": {"id": "R1", "name": "Stand-up", "join_url": "https://call.example/j/1"}},
            },
            "[Stand-up](https://call.example/j/1)",
        ),
        (
            {
                "type": "carousel",
                "elements": [
                    {"type": "card", "title": plain("Plan A"), "body": plain("Cheap")},
                    {"type": "card", "subtitle": plain("B"), "actions": [button("Buy", "https://b.example")]},
                ],
            },
            "Plan A\nCheap\nB\n[Buy](https://b.example)",
        ),
        (
            {"type": "video", "title": plain("Demo"), "title_url": "https://v.example/1", "alt_text": "x"},
            "[Demo](https://v.example/1)",
        ),
    ],
)
def test_blocks_of_apps_keep_their_words_and_addresses(block, shown):
    assert render_message({"text": "a deploy", "blocks": [block]}, find_name) == shown


def test_blocks_within_blocks_without_end_are_read_to_a_depth():
    block: dict = {"type": "container", "title": "deep"}
    for _ in range(400):
        block = {"type": "container", "title": "deep", "child_blocks": [block]}
    assert render_message({"text": "", "blocks": [block]}, find_name) == "\n".join(["deep"] * 6)


FORWARDED = {
    "ts": "1795295742.000100",
    "author_id": "U1",
    "author_subname": "Ada Lovelace",
    "channel_id": "C1",
    "is_msg_unfurl": True,
    "is_share": True,
    "from_url": "https://example.slack.com/archives/C1/p1795295742000100",
    "fallback": "[November 21st] Ada: The lock hangs",
    "text": "The lock hangs, <@W2>",
    "author_name": "Ada Lovelace",
    "mrkdwn_in": ["text"],
    "files": [{"id": "F1", "name": "trace.txt"}],
    "footer": "Posted in <#C1>",
}


def test_a_forwarded_message_keeps_its_words_and_its_files_beside_the_comment():
    quoted = "Ada Lovelace\nThe lock hangs, @Bob\nFiles: trace.txt\nPosted in #general"
    message = {"text": "who knows this?", "attachments": [FORWARDED]}
    assert render_message(message, find_name) == f"who knows this?\n\n{quoted}"
    assert render_message({"text": "", "attachments": [FORWARDED]}, find_name) == quoted
    said = rich({"type": "text", "text": "Only in blocks"})["blocks"]
    unfurled = {
        "author_subname": "Bob",
        "is_msg_unfurl": True,
        "from_url": "https://example.slack.com/archives/C1/p1",
        "message_blocks": [{"team": "T1", "channel": "C1", "ts": "1.1", "message": {"blocks": said}}],
        "fallback": "not shown",
    }
    message = {"text": "see <https://example.slack.com/archives/C1/p1>", "attachments": [unfurled]}
    assert render_message(message, find_name).endswith("/p1\n\nBob\nOnly in blocks")
    buttons = {
        "text": "Alert",
        "actions": [{"type": "button", "text": "Runbook", "url": "https://r.example"}],
    }
    assert render_message({"attachments": [buttons]}, find_name) == "Alert\n[Runbook](https://r.example)"


def test_attachments_of_bots_are_taken_and_previews_of_links_are_not():
    alert = {
        "pretext": "look",
        "title": "Disk full",
        "title_link": "https://a.example",
        "text": "on <@U1>",
        "fields": [{"title": "host", "value": "db1"}],
        "footer": "monitor",
        "fallback": "not shown",
    }
    assert render_message({"text": "hi", "attachments": [alert]}, find_name) == (
        "hi\n\nlook\n[Disk full](https://a.example)\non @Ada Lovelace\nhost: db1\nmonitor"
    )
    assert render_message({"attachments": [{"fallback": "only this"}]}, find_name) == "only this"
    preview = {"from_url": "https://a.example", "title": "A site"}
    assert (
        render_message({"text": "<https://a.example>", "attachments": [preview]}, find_name)
        == "https://a.example"
    )
    assert render_message({"text": "", "attachments": [preview]}, find_name) == "A site"


def test_files_are_named_and_deleted_ones_are_not():
    files = [{"name": "plan.pdf"}, {"mode": "tombstone"}, {"title": "Drawing"}]
    assert render_message({"text": "see", "files": files}, find_name) == "see\n\nFiles: plan.pdf, Drawing"
    snippet = {"mode": "snippet", "name": "Untitled.sh", "title": "How to restart the queue", "lines": 4}
    assert render_message({"files": [snippet]}, find_name) == (
        "Files: How to restart the queue (Untitled.sh)"
    )


def test_both_ways_of_writing_a_message_come_out_alike():
    message = json.loads('{"text": "*now* <https://a.example|x> `c`", "blocks": []}')
    elements = [
        {"type": "text", "text": "now", "style": {"bold": True}},
        {"type": "text", "text": " "},
        {"type": "link", "url": "https://a.example", "text": "x"},
        {"type": "text", "text": " "},
        {"type": "text", "text": "c", "style": {"code": True}},
    ]
    assert render_message(rich(*elements), find_name) == render_message(message, find_name)
