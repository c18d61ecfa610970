"""Atlassian Document Format as Markdown: every node of the schema, no word lost, nothing raised."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_pipeline.connectors.jira.adf import adf_to_markdown


def text(words: str, *marks) -> dict:
    node = {"type": "text", "text": words}
    return (
        node | {"marks": [{"type": each} if isinstance(each, str) else each for each in marks]}
        if marks
        else node
    )


def node(kind: str, *content, **attrs) -> dict:
    return {"type": kind, "attrs": attrs, "content": list(content)}


def paragraph(*content) -> dict:
    return node("paragraph", *(text(each) if isinstance(each, str) else each for each in content))


def link(url: str) -> dict:
    return {"type": "link", "attrs": {"href": url}}


def item(*content) -> dict:
    return node("listItem", *content)


def row(*cells) -> dict:
    return node("tableRow", *cells)


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (paragraph("one ", text("two", "strong"), " three"), "one **two** three"),
        (paragraph(text("leans ", "em"), text("struck", "strike")), "*leans* ~~struck~~"),
        (paragraph(text("both", "strong", "em")), "***both***"),
        (paragraph(text("un", "strong"), text("believable")), "unbelievable"),
        (paragraph(text("under", "underline"), text("2", {"type": "subsup"})), "under2"),
        (paragraph("10", text("6", {"type": "subsup", "attrs": {"type": "sup"}}), " of H",
                   text("2", {"type": "subsup", "attrs": {"type": "sub"}}), "O"), "10^6 of H2O"),
        (paragraph("the 2", text("nd", {"type": "subsup", "attrs": {"type": "sup"}})), "the 2nd"),
        (paragraph(text("a`b", "code")), "``a`b``"),
        (paragraph("one", {"type": "hardBreak"}, "two"), "one\ntwo"),
        (paragraph(text("see ", link("https://a.b/c")), text("it", link("https://a.b/c"), "strong")),
         "[see **it**](https://a.b/c)"),
        (paragraph(text("https://a.b", link("https://a.b"))), "https://a.b"),
        (paragraph(text("wiki", link("https://a.b/x_(y)"))), "[wiki](<https://a.b/x_(y)>)"),
        (node("heading", text("A title"), level=3), "### A title"),
        (node("heading", text("deep"), level=99), "###### deep"),
        (node("bulletList", item(paragraph("one"), node("bulletList", item(paragraph("in it")))),
              item(paragraph("two"))),
         "- one\n  - in it\n- two"),
        (node("orderedList", item(paragraph("nine")), item(paragraph("ten")), order=9), "9. nine\n10. ten"),
        (node("taskList", node("taskItem", text("done"), state="DONE"),
              node("taskItem", text("open"), state="TODO"),
              node("taskList", node("taskItem", text("below"), state="TODO"))),
         "- [x] done\n- [ ] open\n  - [ ] below"),
        (node("taskList", node("blockTaskItem", paragraph("a block"), state="DONE")), "- [x] a block"),
        (node("decisionList", node("decisionItem", text("we go"), state="DECIDED"),
              node("decisionItem", text("or not"), state="UNDECIDED")),
         "- Decision: we go\n- Undecided: or not"),
        (node("panel", paragraph("hot"), panelType="warning"), "Warning: hot"),
        (node("panel", node("bulletList", item(paragraph("x"))), panelType="info"), "Info:\n\n- x"),
        (node("expand", paragraph("inside"), title="More"), "**More**\n\ninside"),
        (node("nestedExpand", paragraph("inside"), title=""), "inside"),
        (node("codeBlock", text("a = 1\n\nb = 2"), language="python"), "```python\na = 1\n\nb = 2\n```"),
        (node("codeBlock", text("```\nx")), "````\n```\nx\n````"),
        (node("blockquote", paragraph("one"), paragraph("two")), "> one\n>\n> two"),
        ([paragraph("a"), node("rule"), paragraph("b")], "a\n\n---\n\nb"),
        (node("mediaSingle", node("media", type="file", id="1", alt="shot.png"),
              node("caption", text("the screen"))),
         "(attachment: shot.png)\nthe screen"),
        (node("mediaGroup", node("media", __fileName="a.log"), node("media", type="file", id="2")),
         "(attachment: a.log)\n(attachment)"),
        (node("mediaSingle", node("media", type="external", url="https://a.b/c.png")), "[image](https://a.b/c.png)"),
        (node("mediaSingle", node("media", id="1", alt="shot.png")) | {"marks": [link("https://a.b")]},
         "[(attachment: shot.png)](https://a.b)"),
        (paragraph("see ", node("mediaInline", type="file", id="1", alt="b.pdf")), "see (attachment: b.pdf)"),
        (paragraph(node("mention", id="5", text="@Ada Lovelace")), "@Ada Lovelace"),
        (paragraph(node("mention", id="712020:grace")), "@Grace Hopper"),
        (paragraph(node("mention", id="unknown")), "@someone"),
        (paragraph(node("emoji", shortName=":s:", text="😄"), node("emoji", shortName=":x:")), "😄:x:"),
        (paragraph(node("date", timestamp="1582152559000")), "2020-02-19"),
        (paragraph(node("date", timestamp="soon")), "soon"),
        (paragraph(node("status", text="IN PROGRESS", color="blue")), "IN PROGRESS"),
        (paragraph(node("inlineCard", url="https://a.b/1")), "https://a.b/1"),
        (paragraph(node("inlineCard", data={"name": "Page", "url": "https://a.b"})), "[Page](https://a.b)"),
        (node("blockCard", url="https://a.b/2"), "https://a.b/2"),
        (node("blockCard", url="https://a.b", datasource={"parameters": {"jql": "project = A"}}),
         "[project = A](https://a.b)"),
        (node("embedCard", url="https://a.b/3", layout="wide"), "https://a.b/3"),
        (node("layoutSection", node("layoutColumn", paragraph("left")),
              node("layoutColumn", paragraph("right"))),
         "left\n\nright"),
        (node("extension", extensionKey="toc", text="a macro"), "a macro"),
        (node("bodiedExtension", paragraph("its body"), extensionKey="x"), "its body"),
        (node("multiBodiedExtension", node("extensionFrame", paragraph("a frame"))), "a frame"),
        (node("bodiedSyncBlock", paragraph("shared")), "shared"),
        (paragraph(node("inlineExtension", extensionKey="x", text="inline macro")), "inline macro"),
        (paragraph("So ", node("inlineExtension", extensionKey="eazy-math-inline", text="eazy-math-inline",
                               parameters={"macroParams": {"body": {"value": "E=mc^2"}}})), "So `E=mc^2`"),
        (node("extension", parameters={"macroParams": {"body": {"value": "a^2"}}}), "```\na^2\n```"),
        (node("table", row(node("tableHeader", paragraph("step")), node("tableHeader", paragraph("run"))),
              row(node("tableCell", paragraph("1")),
                  node("tableCell", node("codeBlock", text("# why\nmake"), language="sh")))),
         "step\n\nrun\n\n1\n\n```sh\n# why\nmake\n```"),
        (node("table", row(node("tableCell", paragraph("1")),
                           node("tableCell", node("codeBlock", text("make"))))),
         "| 1 | `make` |\n| --- | --- |"),
        (paragraph(node("placeholder", text="write here")), "write here"),
        (node("somethingNew", node("partOfIt", paragraph("kept"))), "kept"),
        (paragraph({"type": "somethingInline", "text": "kept too"}), "kept too"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)  # fmt: skip
def test_every_node_has_its_text(document, expected):
    content = document if isinstance(document, list) else [document]
    people = {"712020:grace": "Grace Hopper"}
    written = adf_to_markdown({"type": "doc", "version": 1, "content": content}, people)
    assert written == expected


def test_a_cell_over_rows_is_in_each_of_them_and_one_over_columns_leaves_places_empty():
    cell = lambda words, **attrs: node("tableCell", paragraph(words), **attrs)  # noqa: E731
    table = node(
        "table",
        row(node("tableHeader", paragraph("A"), colspan=2), node("tableHeader", paragraph("B"))),
        row(cell("tall", rowspan=2), cell("1 | 2"), cell("3")),
        row(cell("4"), cell("5")),
    )
    assert adf_to_markdown(table).splitlines() == [
        "| A |  | B |",
        "| --- | --- | --- |",
        "| tall | 1 \\| 2 | 3 |",
        "| tall | 4 | 5 |",
    ]


def test_code_and_lists_in_a_list_item_stay_in_it():
    listed = node(
        "orderedList",
        item(paragraph("run"), node("codeBlock", text("make"), language="sh"), paragraph("then")),
    )
    assert adf_to_markdown(listed) == "1. run\n\n   ```sh\n   make\n   ```\n\n   then"


def test_a_table_in_a_cell_keeps_its_words():
    inner = node("table", row(node("tableCell", paragraph("in")), node("tableCell", paragraph("side"))))
    assert "in, side" in adf_to_markdown(node("table", row(node("tableCell", inner))))


def test_however_deep_it_is_nothing_is_lost():
    deep = paragraph("bottom")
    for _ in range(400):
        deep = node("blockquote", deep)
    assert "bottom" in adf_to_markdown(deep)


def test_however_wide_a_cell_claims_to_be_the_table_stays_small():
    wide = node("table", row(node("tableCell", paragraph("x"), colspan=10**9, rowspan=10**9)))
    assert len(adf_to_markdown(wide)) < 5000


_WORD = st.text("abcdefghij0123456789", min_size=1, max_size=8)
_MARKS = st.lists(st.sampled_from(["strong", "em", "strike", "underline", "code"]), max_size=3, unique=True)
_TEXT = st.tuples(_WORD, _MARKS).map(lambda drawn: text(f" {drawn[0]} ", *drawn[1]))
_PARAGRAPH = st.lists(_TEXT, min_size=1, max_size=4).map(lambda texts: node("paragraph", *texts))


def _around(blocks):
    content = st.lists(blocks, min_size=1, max_size=3)
    frames = ["blockquote", "panel", "expand", "layoutSection", "bodiedExtension", "unheardOf"]
    framed = st.tuples(st.sampled_from(frames), content).map(lambda drawn: node(drawn[0], *drawn[1]))
    items = st.lists(content.map(lambda blocks: item(*blocks)), min_size=1, max_size=3)
    listed = st.tuples(st.sampled_from(["bulletList", "orderedList"]), items).map(
        lambda drawn: node(drawn[0], *drawn[1])
    )
    span = st.integers(1, 3)
    cells = st.tuples(content, span, span).map(
        lambda drawn: node("tableCell", *drawn[0], colspan=drawn[1], rowspan=drawn[2])
    )
    rows = st.lists(cells, min_size=1, max_size=3).map(lambda cells: row(*cells))
    tables = st.lists(rows, min_size=1, max_size=3).map(lambda rows: node("table", *rows))
    return framed | listed | tables


_DOCUMENT = st.lists(st.recursive(_PARAGRAPH, _around, max_leaves=12), min_size=1, max_size=4)


def _words(value) -> set[str]:
    if isinstance(value, list):
        return set().union(*map(_words, value))
    if isinstance(value, dict):
        return set(re.findall(r"\w+", value.get("text", ""))) | _words(value.get("content", []))
    return set()


@given(_DOCUMENT)
def test_no_word_of_a_document_is_lost(blocks):
    assert _words(blocks) <= set(re.findall(r"\w+", adf_to_markdown({"type": "doc", "content": blocks})))


@given(
    st.lists(
        st.tuples(st.text("ab c"), st.lists(st.sampled_from(["strong", "em", "strike"]), max_size=2)),
        max_size=6,
    )
)
def test_emphasis_never_changes_what_is_read(runs):
    read = "".join(words for words, _ in runs).strip()
    written = adf_to_markdown(paragraph(*(text(words, *marks) for words, marks in runs)))
    assert written.replace("*", "").replace("~", "") == read


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(["type", "attrs", "content", "text", "marks", "href"]), inner)
    | st.builds(
        lambda kind, attrs, content: {"type": kind, "attrs": attrs, "content": content, "marks": content},
        st.sampled_from(
            ["table", "tableRow", "tableCell", "bulletList", "taskList", "panel", "text", "mention",
             "date", "media", "heading", "orderedList", "inlineCard", "codeBlock", "decisionList", "link"]
        ),
        inner
        | st.dictionaries(
            st.sampled_from(["colspan", "rowspan", "level", "order", "timestamp", "url", "state"]), inner
        ),
        inner | st.lists(inner, max_size=3),
    ),
    max_leaves=15,
)  # fmt: skip


@given(_JSON)
def test_whatever_json_comes_in_nothing_is_raised(anything):
    assert isinstance(adf_to_markdown(anything), str)
