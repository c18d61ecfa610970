"""Every word that a page shows comes out, in order, once, without markup; what it hides does not."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape

from hypothesis import example, given, settings
from hypothesis import strategies as st

from knowledge_pipeline.chunking.registry import extract_links
from knowledge_pipeline.extraction.extraction import extract
from knowledge_pipeline_tests.thoroughness import examples


@dataclass(frozen=True)
class Part:
    """A piece of a page, what a reader sees of it, and the addresses of its links."""

    html: str
    seen: str
    links: tuple[str, ...] = ()


def markdown(html: str) -> str:
    return extract("a.html", html.encode()).text


def words_of(text: str) -> list[str]:
    """Words of letters, without the addresses of links."""
    text = re.sub(
        r"(?<=\])\((?:<[^<>\n]*>|[^()\n]*)\)|<?(?:https?|mailto):[^\s>]+>?|(?m:^<[^<>\n]+>$)", " ", text
    )
    return re.findall(r"[^\W\d_]+", text)


def joined(parts: list[Part], between: str = "") -> Part:
    return Part(
        between.join(part.html for part in parts),
        "".join(part.seen for part in parts),
        tuple(link for part in parts for link in part.links),
    )


def within(name: str, part: Part, *, closed: bool = True, block: bool = False, attributes: str = "") -> Part:
    html = f"<{name}{attributes}>{part.html}{f'</{name}>' if closed else ''}"
    return Part(html, f"\n{part.seen}\n" if block else part.seen, part.links)


_LETTERS = st.text("abcdefghij", min_size=1, max_size=6).map(lambda word: Part(word, word))
_ENTITIES = [("&eacute;", "é"), ("&#233;", "é"), ("&#xE9;", "é"), ("a&shy;b", "ab"),
             ("a<wbr>b", "ab"), (" &amp; ", " & "), (" &lt; ", " < "), ("&nbsp;", " "),
             (" ", " "), (" | ", " | "), (" * ", " * "), (" _ ", " _ "), (" # ", " # "),
             ("\n\t", " "), ("<br>", "\n"), ("<br/>", "\n"), (" <img src='data:zzz'> ", " ")]  # fmt: skip
_UNSEEN = ["<!-- zzz --><!-- > zzz -->", "<script>var zzz = '<p>zzz</p>'</script>",
           "<style>zzz {}</style>", "<template><p>zzz</p></template>",
           "<span hidden>zzz</span>", "<i style='color:red; display: none'>zzz</i>",
           "<noscript>zzz</noscript>", "<svg><text>zzz</text></svg>", "<?zzz zzz?>",
           "<input value='zzz'>", "<b style='visibility:hidden'>zzz</b>"]  # fmt: skip
_TEXT = st.one_of(
    _LETTERS,
    _LETTERS,
    st.sampled_from([Part(html, seen) for html, seen in _ENTITIES]),
    st.sampled_from([Part(html, "") for html in _UNSEEN]),
)
_RUN = st.lists(_TEXT, min_size=1, max_size=4).map(joined)
_CODE = _LETTERS.map(lambda part: Part(f" <code>{part.html}</code> ", f" {part.seen} "))
_EMPHASIS = st.tuples(st.sampled_from(["b", "strong", "i", "em", "del", "s", "u", "span", "small"]), _RUN)
_LINE = st.lists(_RUN | _CODE | _EMPHASIS.map(lambda drawn: within(*drawn)), min_size=1, max_size=3).map(
    joined
)
_ADDRESS = st.sampled_from(
    ["https://a.example/x_(y)?q=1&r=2#z", "http://b.example", "../c/d.html", "/e", " https://f.example/\n",
     "g h.html", "#i", "mailto:ann@example.org"]
)  # fmt: skip


def _link(address: str, part: Part) -> Part:
    html = f'<a title="zzz" href="{escape(address)}">{part.html}</a>'
    target = address.strip().replace(" ", "%20")
    return Part(f" {html} ", f" {part.seen} ", (target,) if part.seen.strip("# \n") else ())


_LINKED = st.tuples(_ADDRESS, _LINE).map(lambda drawn: _link(*drawn))
_INLINE = st.lists(_LINE | _LINKED, min_size=1, max_size=3).map(joined)
_PARAGRAPH = st.tuples(st.sampled_from(["p", "h1", "h4", "div", "address"]), _INLINE).map(
    lambda drawn: within(*drawn, block=True)
)
_UNCLOSED = _INLINE.map(lambda part: within("p", part, closed=False, block=True))
_PRE = st.lists(_LETTERS, min_size=1, max_size=3).map(
    lambda parts: within("pre", joined([Part(f"{p.html}\n", f"{p.seen}\n") for p in parts]), block=True)
)


def _around(blocks):
    content = st.lists(blocks, min_size=1, max_size=3).map(joined)
    names = st.sampled_from(
        ["div", "section", "article", "blockquote", "details", "figure", "aside", "center"]
    )
    framed = st.tuples(names, content).map(lambda drawn: within(*drawn, block=True))
    return (
        framed
        | _lists(content)
        | _definitions(content)
        | _tables(content | _INLINE)
        | _linked_blocks(content)
    )


def _lists(content):
    items = st.lists(st.tuples(content | _INLINE, st.booleans()), min_size=1, max_size=3).map(
        lambda items: joined([within("li", part, closed=closed, block=True) for part, closed in items])
    )
    kinds = st.sampled_from([("ul", ""), ("ol", ""), ("ol", " start='3'"), ("ol", " start='²'")])
    return st.tuples(kinds, items).map(
        lambda drawn: within(drawn[0][0], drawn[1], attributes=drawn[0][1], block=True)
    )


def _definitions(content):
    pairs = st.lists(st.tuples(_INLINE, content), min_size=1, max_size=2).map(
        lambda pairs: joined(
            [
                within(tag, each, block=True)
                for pair in pairs
                for tag, each in zip(("dt", "dd"), pair, strict=True)
            ]
        )
    )
    return pairs.map(lambda part: within("dl", part, block=True))


def _tables(content):
    span = st.sampled_from(["", " colspan='2'", " colspan='²'", " colspan='99999999'", " colspan='0'"])
    cells = st.tuples(st.sampled_from(["td", "th"]), content, span, st.booleans()).map(
        lambda drawn: within(drawn[0], drawn[1], attributes=drawn[2], closed=drawn[3], block=True)
    )
    rows = st.lists(cells, min_size=1, max_size=3).map(lambda cells: within("tr", joined(cells), block=True))
    bodies = st.tuples(
        st.sampled_from(["tbody", "thead", "tfoot"]), st.lists(rows, min_size=1, max_size=2)
    ).map(lambda drawn: within(drawn[0], joined(drawn[1])))
    caption = st.just(Part("", "")) | _LINE.map(lambda part: within("caption", part, block=True))
    return st.tuples(caption, st.lists(bodies | rows, min_size=1, max_size=2).map(joined)).map(
        lambda drawn: within("table", joined(list(drawn)), block=True)
    )


def _linked_blocks(content):
    """A card: blocks in one link, none of which has a link of its own."""
    return st.tuples(_ADDRESS, content).map(
        lambda drawn: (
            Part(f"<div>{_link(*drawn).html}</div>", f"\n{drawn[1].seen}\n", _link(*drawn).links)
            if not drawn[1].links and "<table" not in drawn[1].html
            else within("div", drawn[1], block=True)
        )
    )


_BLOCKS = st.lists(st.recursive(_PARAGRAPH | _UNCLOSED | _PRE, _around, max_leaves=8), min_size=1, max_size=4)
_PAGE = _BLOCKS.map(joined)


def check(page: Part) -> None:
    html = f"<!DOCTYPE html><title>t</title><body>{page.html}<p>last"
    text = markdown(html)
    assert words_of(text) == [*words_of(page.seen), "last"]
    assert not re.search(
        r"</?[a-z]+|<!--|&[a-z]+;|\xad", re.sub(r"<(?:https?:|mailto:|[./]|g%20|#i)[^<>]*>", "", text)
    )
    assert set(page.links) <= set(extract_links(text))


@settings(max_examples=examples(120, few=8), deadline=None)
@given(_PAGE)
@example(Part("<table><tr><td>a<td>b<h1>c</h1><h2>d</h2>e</table>", "a b c d e", ()))
def test_a_page_says_all_its_words_in_order_and_nothing_else(page):
    check(page)
