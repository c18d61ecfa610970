"""Markdown as people write it on GitHub: nothing that shows is lost, nothing that is markup is left."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_pipeline.connectors.github.markdown_cleaning import clean_markdown

WORDS = st.text("abcdefghijklmnop", min_size=3, max_size=9)
TAGS = ("p", "div", "details", "summary", "li", "h2", "td", "tr", "b", "em", "code", "pre", "span", "sub")


@pytest.mark.parametrize(
    ("written", "cleaned"),
    [
        ("a\r\nb\rc", "a\nb\nc"),
        ("one <!-- two\nthree --> four", "one  four"),
        ("<!-- never closed", "<!-- never closed"),
        ("```\n<!-- shown -->\n```\n<!-- not -->", "```\n<!-- shown -->\n```"),
        ("~~~~html\n<b>&lt;\n~~~\n~~~~\n<b>x</b>", "~~~~html\n<b>&lt;\n~~~\n~~~~\n**x**"),
        ("```\nnever closed <b>", "```\nnever closed <b>"),
        ("`<b>` and ``a ` <i>`` and <i>c</i>", "`<b>` and ``a ` <i>`` and *c*"),
        ("a lone ` and <b>b</b>", "a lone ` and **b**"),
        ("List<String> and Map<K, V> and x < y > z", "List<String> and Map<K, V> and x < y > z"),
        (
            'see <a href="https://x.org/?a=1&amp;b=2">the <b>plan</b></a>.',
            "see [the **plan**](https://x.org/?a=1&b=2).",
        ),
        ("<a name=top></a>text", "text"),
        ('<a href="http://x">open', "[open](http://x)"),
        ("<img src='http://x/a.png' alt=\"A plot\"/> <img alt=none>", "![A plot](http://x/a.png)"),
        ("one<br>two<br/>three", "one\ntwo\nthree"),
        ("<ul><li>one</li><li>two</li></ul>", "- one\n- two"),
        ("<h2>Title</h2>text", "## Title\n\ntext"),
        ("<details>\n<summary>More</summary>\n\ntext\n</details>", "More\n\ntext"),
        ("&lt;tag&gt; &amp; &nbsp;x", "<tag> & \xa0x"),
        ("2<sup>32</sup> is 4 &middot; 10<sup>9</sup>, the 1<sup>st</sup> x<sup>n+1</sup>",
         "2^32 is 4 · 10^9, the 1st x^(n+1)"),
        ("<i>x</i><sup>2</sup> and `n`<sup>3</sup> and *y*<sup>4</sup>", "*x*^2 and `n`^3 and *y*^4"),
        ("text <sup>in small</sup> and a<sup><i>b</i></sup>", "text in small and a*b*"),
        ("Write:\n\n    <b>&lt;</b>\n\n    `<i>`\n\nand <b>not</b>",
         "Write:\n\n    <b>&lt;</b>\n\n    `<i>`\n\nand **not**"),
        ("    <b>code</b>\n\ntext", "    <b>code</b>\n\ntext"),
        ("- one\n\n    <b>two</b>\n\n        <b>code</b>", "- one\n\n    **two**\n\n        <b>code</b>"),
        ("one\n    <b>two</b>", "one\n    **two**"),
        ('<ol start="3"><li>three</li><li>four<ul><li>in it</li></ul></li><li>five</li></ol>',
         "3. three\n4. four\n\n- in it\n\n5. five"),
        ('<pre lang="sh"><code># <b>why</b>\nmake &amp;&amp; run</code></pre>',
         "```sh\n# why\nmake && run\n```"),
        ("<pre>never closed <b>x</b>", "```\nnever closed **x**"),
        ("- [x] done\n- [ ] to do\n\n| a | b |\n|---|---|\n| 1 | 2 |", None),
        ("**bold** [link](http://x) <https://auto.link> @ada #12", None),
        ("", ""),
    ],
)  # fmt: skip
def test_examples(written: str, cleaned: str | None) -> None:
    assert clean_markdown(written) == (written if cleaned is None else cleaned)


@given(st.lists(st.tuples(WORDS, st.sampled_from(TAGS)), min_size=1, max_size=12))
def test_every_word_stays_and_every_tag_goes(parts: list[tuple[str, str]]) -> None:
    text = clean_markdown(" ".join(f"<{tag} class='x'>{word}</{tag}>" for word, tag in parts))
    assert re.findall(r"[a-p]{3,}", text) == [word for word, _ in parts]
    assert "<" not in text and "class" not in text


@given(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=6))
def test_links_are_kept(links: list[tuple[str, str]]) -> None:
    text = clean_markdown("\n".join(f'<a href="https://x.org/{target}">{word}</a>' for word, target in links))
    assert text == "\n".join(f"[{word}](https://x.org/{target})" for word, target in links)


@given(st.text("abc def\n.,!*#-_[]()|:", max_size=200))
def test_plain_markdown_is_left_as_it_is_but_for_empty_lines(written: str) -> None:
    assert clean_markdown(written).split() == written.split()


@given(st.text(st.sampled_from("<>!-`~a b\n/=\"'&;é"), max_size=300))
def test_whatever_is_written_is_taken(written: str) -> None:
    assert isinstance(clean_markdown(written), str)


@pytest.mark.sampled
@pytest.mark.parametrize(
    "piece",
    [
        "<!--",
        "`",
        "` ``",
        "```\n",
        "<a ",
        "<a href='x'>",
        "&",
        "<",
        "\n \n",
        "``` ",
        "    <b>\n\n",
        "<pre>",
        "a<sup>",
        "<ol>",
    ],
)
def test_a_long_text_is_cleaned_to_its_end(piece: str) -> None:
    """What grew with the square of the length would take many minutes; the tests' time limit ends it."""
    clean_markdown(piece * (1_000_000 // len(piece)))
