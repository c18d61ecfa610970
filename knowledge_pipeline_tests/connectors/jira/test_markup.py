"""Jira's wiki markup as Markdown: no word lost, no markup left, nothing raised."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_pipeline.connectors.jira.wiki_markup import wiki_to_markdown


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        ("h2. A *big* title", "## A **big** title"),
        ("*bold* _leaning_ -gone- +new+ ^up^ ~down~", "**bold** *leaning* ~~gone~~ new up down"),
        ("??cited??", "cited"),
        ("snake_case_name and a-b-c, 2*3*4, 1 - 2 -- 3", "snake_case_name and a-b-c, 2*3*4, 1 - 2 – 3"),
        ("in{*}side{*}rs and {_}alone{_}, 10{^}2{^}", "insiders and *alone*, 10^2"),
        ("{{a_b*c*}} stays", "`a_b*c*` stays"),
        ("{color:#ff0000}red{color} {anchor:here}", "red"),
        (r"\*not bold\* \{id}", "*not bold* {id}"),
        ("one\\\\\ntwo", "one\ntwo"),
        (r"C:\\temp\\x", r"C:\\temp\\x"),
        ("one\r\ntwo", "one\ntwo"),
        ("[text|https://a.b/c_d_e]", "[text](https://a.b/c_d_e)"),
        ("[*b*|https://a.b|smart-link]", "[**b**](https://a.b)"),
        ("[https://a.b]", "https://a.b"),
        ("[mailto:a@b.example]", "a@b.example"),
        ("see https://a.b/x_y_z, and *https://a.b*", "see https://a.b/x_y_z, and **https://a.b**"),
        ("[~jdoe] and [~nobody] and [~accountid:712020:x]", "@Jane Doe and @nobody and @someone"),
        ("[^log.txt] [the log|^log.txt]", "(attachment: log.txt) the log (attachment: log.txt)"),
        ("[#place] [there|#place]", "place there"),
        ("[A page|Some Title]", "A page (Some Title)"),
        ("[INFO] started [x]", "[INFO] started [x]"),
        ("!shot.png|thumbnail! and !https://a.b/c.png!", "(attachment: shot.png) and [image](https://a.b/c.png)"),
        ("wow! really! no.", "wow! really! no."),
        ("(/) done (x) f(x)", "✔ done ✘ f(x)"),
        ("* one\n** two\n*# three\n*# four\n* five", "- one\n  - two\n  1. three\n  2. four\n- five"),
        ("# one\n# two\n#* in it", "1. one\n2. two\n   - in it"),
        ("- a\nstill a\n- b", "- a\n  still a\n- b"),
        ("# do\n{code:sh}\nmake\n{code}\n# then", "1. do\n\n   ```sh\n   make\n   ```\n2. then"),
        ("||a||b||\n|1|[x|https://a.b]|\n|two\nlines|{{c|d}}|",
         "| a | b |\n| --- | --- |\n| 1 | [x](https://a.b) |\n| two lines | `c\\|d` |"),
        ("||do||run||\n|1|{code:sh}# why\nmake{code}|\n|2|{{x}}|",
         "do\n\nrun\n\n1\n\n```sh\n# why\nmake\n```\n\n2\n\n`x`"),
        ("{warning}\nhot\n{warning}\nand {info}read *on*{info}", "Warning:\nhot\n\nand\n\nInfo: read **on**"),
        ("{note:title=Mind}\nthis\n{note}", "**Note: Mind**\n\nthis"),
        ("{quote}\nsaid *so*\n* one\n{quote}\nafter", "> said **so**\n>\n> - one\n\nafter"),
        ("{quote} never closed", "never closed"),
        ("bq. said", "> said"),
        ("----", "---"),
        ("{code:title=A.java|borderStyle=solid}\nint a; // {quote}\n{code}",
         "A.java\n\n```\nint a; // {quote}\n```"),
        ("text {code:java}x{code} more", "text\n\n```java\nx\n```\n\nmore"),
        ("{noformat}\n*raw* [x|y]\n{noformat}", "```\n*raw* [x|y]\n```"),
        ("{panel:title=Mind|borderStyle=dashed}\nthis\n{panel}", "**Mind**\n\nthis"),
        ("path /users/{id}/x", "path /users/{id}/x"),
        ("", ""),
    ],
)  # fmt: skip
def test_markup_becomes_markdown(markup, expected):
    assert wiki_to_markdown(markup, {"jdoe": "Jane Doe"}) == expected


_WORD = st.text("abcdefghij0123456789", min_size=1, max_size=8)
_PLAIN = st.lists(_WORD, min_size=1, max_size=4).map(" ".join)
_URL = _WORD.map(lambda word: f"https://{word}.example/{word}_x_y")
_INLINE = st.one_of(
    _PLAIN,
    st.tuples(st.sampled_from("*_-+^~"), _PLAIN).map(lambda drawn: f"{drawn[0]}{drawn[1]}{drawn[0]}"),
    st.tuples(_PLAIN, _URL).map(lambda drawn: f"[{drawn[0]}|{drawn[1]}]"),
    _URL.map(lambda url: f"[{url}]"),
    _PLAIN.map(lambda words: f"{{{{{words}}}}}"),
    _PLAIN.map(lambda words: f"{{color:red}}{words}{{color}}"),
    _WORD.map(lambda word: f"!{word}.png|thumbnail!"),
    _WORD.map(lambda word: f"[~{word}]"),
)
_LINE = st.lists(_INLINE, min_size=1, max_size=4).map(" ".join)
_ROW = st.lists(_LINE, min_size=1, max_size=3).map(lambda cells: f"|{'|'.join(cells)}|")
_BLOCK = st.one_of(
    _LINE,
    st.tuples(st.integers(1, 6), _LINE).map(lambda drawn: f"h{drawn[0]}. {drawn[1]}"),
    st.lists(st.tuples(st.sampled_from(["*", "**", "#", "#*", "-"]), _LINE), min_size=1, max_size=4).map(
        lambda items: "\n".join(f"{signs} {line}" for signs, line in items)
    ),
    st.lists(_ROW, min_size=1, max_size=3).map("\n".join),
    _LINE.map(lambda line: f"bq. {line}"),
    _LINE.map(lambda line: f"{{quote}}\n{line}\n{{quote}}"),
    _LINE.map(lambda line: f"{{panel:title=ptitle}}\n{line}\n{{panel}}"),
    st.lists(_PLAIN, min_size=1, max_size=3).map(
        lambda lines: "{code:java}\n" + "\n".join(lines) + "\n{code}"
    ),
)
_MARKUP = st.lists(_BLOCK, min_size=1, max_size=5).map("\n\n".join)
_NAMES = re.compile(
    r"\{code(?::java)?\}|\{color(?::red)?\}|\{quote\}|\{panel[^}]*\}|\|thumbnail!|^h\d\.|^bq\.", re.M
)
_LEFT = re.compile(
    r"\{(?:code|quote|panel|color)|\{\{|\|\||^h\d\. |^bq\. |\[[^\]]*\|http|\[~|thumbnail|[\x02\x03]", re.M
)


@given(_MARKUP)
def test_no_word_is_lost_no_markup_left_and_links_are_kept(markup):
    written = wiki_to_markdown(markup)
    assert set(re.findall(r"[a-z0-9]+", _NAMES.sub(" ", markup))) <= set(re.findall(r"[a-z0-9]+", written))
    assert set(re.findall(r"https://[^\]\s|]+", markup)) == set(re.findall(r"https://[^)\]\s|]+", written))
    assert not _LEFT.search(written)


_PIECES = st.sampled_from(
    ["{code}", "{code:java}", "{noformat}", "{quote}", "{panel:title=x}", "{panel}", "{{", "}}", "[", "]",
     "|", "||", "*", "_", "-", "--", "{*}", "!", "\\", "\\\\", "\n", "\n\n", "h1. ", "bq. ", "# ", "** ", " ",
     "a", "~", "^",
     "https://x", "\x02", "\x03", "\x02c0\x03", "(x)", "??", "{color}", "\r"]
)  # fmt: skip


@given(st.lists(_PIECES | st.text(max_size=3), max_size=40).map("".join))
def test_whatever_text_comes_in_nothing_is_raised(markup):
    written = wiki_to_markdown(markup)
    assert not re.search(r"[\x02\x03]", written)


@pytest.mark.sampled
@pytest.mark.parametrize(
    "piece", ["*a", "[a|", "{code:x}", "!a.b", "{{a", "|a", "{quote}", "-a ", "{*}a", "# a\n"]
)
def test_a_long_text_of_signs_is_read_to_its_end(piece):
    """What grew with the cube of the length would take hours; the tests' time limit ends it."""
    wiki_to_markdown(piece * (32_767 // len(piece)))  # the longest that Jira takes by default
