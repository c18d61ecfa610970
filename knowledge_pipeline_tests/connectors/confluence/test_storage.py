"""Storage format becomes what a reader reads: no word lost, no markup left, whatever is given."""

from __future__ import annotations

import re
from html import escape
from textwrap import dedent

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from knowledge_pipeline.connectors.confluence.storage_format import (
    UNKNOWN_PERSON,
    find_mentioned_accounts,
    storage_to_markdown,
)
from knowledge_pipeline_tests.thoroughness import examples


def text_of(storage: str, **options) -> str:
    return storage_to_markdown(storage, **options).text


def macro(name: str, body: str = "", **parameters: str) -> str:
    given = "".join(
        f'<ac:parameter ac:name="{key}">{value}</ac:parameter>' for key, value in parameters.items()
    )
    return f'<ac:structured-macro ac:name="{name}">{given}{body}</ac:structured-macro>'


def rich(body: str) -> str:
    return f"<ac:rich-text-body>{body}</ac:rich-text-body>"


def plain(body: str) -> str:
    body = body.replace("]]>", "]]]]><![CDATA[>")
    return f"<ac:plain-text-body><![CDATA[{body}]]></ac:plain-text-body>"


def page_link(title: str, label: str = "", space: str = "") -> str:
    key = f' ri:space-key="{space}"' if space else ""
    body = f"<ac:plain-text-link-body><![CDATA[{label}]]></ac:plain-text-link-body>" if label else ""
    return f'<ac:link><ri:page ri:content-title="{title}"{key} />{body}</ac:link>'


def test_headings_paragraphs_and_entities_are_markdown():
    storage = "<h1>On&nbsp;call</h1>"
    storage += "<p>Who &ldquo;wakes&rdquo; &amp; why<br/>next line</p><h3>Rota &#x2014; week</h3>"
    assert text_of(storage) == "# On call\n\nWho “wakes” & why\nnext line\n\n### Rota — week"


def test_emphasis_leaves_words_whole_and_what_is_struck_is_told():
    assert text_of("<p>re<strong>start</strong> <em>it</em> <del>never</del></p>") == "restart it ~~never~~"


def test_what_is_well_formed_is_read_as_it_is_nested():
    inner = '<ac:link><ri:url ri:value="http://y.org"/></ac:link><a href="http://y.org">x</a>'
    assert text_of(f'<a href="http://x.org">in {inner}</a> after').endswith("(http://x.org) after")


def test_lists_nest_and_number():
    storage = "<ol><li>one<ul><li><p>a</p><p>more</p></li><li>b</li></ul></li><li>two</li></ol>"
    assert text_of(storage) == "1. one\n   - a\n\n     more\n   - b\n2. two"


def test_tasks_say_whether_they_are_done():
    task = "<ac:task><ac:task-id>7</ac:task-id>"
    task += "<ac:task-status>{}</ac:task-status><ac:task-body>{}</ac:task-body></ac:task>"
    storage = (
        f"<ac:task-list>{task.format('complete', 'ship')}{task.format('incomplete', 'rest')}</ac:task-list>"
    )
    assert text_of(storage) == "- [x] ship\n- [ ] rest"


def test_code_keeps_every_character_and_its_language():
    code = 'if a < b && c[d[0]]>e:\n\tprint("&amp; ```")  \n'
    storage = macro("code", plain(code), language="py", title="wake.py")
    assert text_of(storage) == f"wake.py\n\n````python\n{code.rstrip()}\n````"
    assert text_of(macro("noformat", plain("a  b"))) == "```\na  b\n```"


def test_tasks_that_are_indented_are_below_the_one_before():
    task = "<ac:task><ac:task-status>incomplete</ac:task-status><ac:task-body>{}</ac:task-body></ac:task>"
    inner = f"<ac:task-list>{task.format('within')}</ac:task-list>"
    storage = (
        f"<ac:task-list>{task.format('ship')}\n<ac:task-list>{task.format('test')}{inner}</ac:task-list>\n"
    )
    storage += f"{task.format(f'rest{inner}')}<ac:task-id>7</ac:task-id><p>lost</p> found</ac:task-list>"
    assert text_of(storage) == (
        "- [ ] ship\n  - [ ] test\n    - [ ] within\n- [ ] rest\n      - [ ] within\n  lost\n  found"
    )


def test_raised_numbers_are_exponents_and_a_list_begins_where_it_says():
    assert text_of("<p>10<sup>6</sup> <em>x</em><sup>n+1</sup>, the 1<sup>st</sup> H<sub>2</sub>O</p>") == (
        "10^6 x^(n+1), the 1st H2O"
    )
    assert text_of('<ol start="3"><li>three</li><li>four</li></ol>') == "3. three\n4. four"


@pytest.mark.parametrize("name", ["mathinline", "eazy-math-inline", "easy-math-block"])
def test_a_formula_whose_text_is_a_parameter_is_kept(name):
    formula = '<ac:parameter ac:name="body">\\frac{a+b}{c}</ac:parameter>'
    assert text_of(f"<p>So {macro(name, formula)} it is.</p>") == "So `\\frac{a+b}{c}` it is."


def test_code_of_several_lines_is_never_one_line():
    code = "<code># why<br/>make all</code>"
    assert text_of(f"<p>{code}</p>") == "`# why`\n`make all`"
    table = (
        f"<table><tbody><tr><th>do</th><th>run</th></tr><tr><td>1</td><td>{code}</td></tr></tbody></table>"
    )
    assert text_of(table).endswith("| 1 | `# why` / `make all` |")


def test_a_picture_that_is_a_link_keeps_its_address():
    picture = '<ac:image{}><ri:attachment ri:filename="p.png" />{}</ac:image>'
    mark = '<ac:adf-mark key="link" href="https://x.org" />'
    for storage in (
        f'<a href="https://x.org">{picture.format("", "")}</a>',
        picture.format("", mark),
        picture.format(' ac:href="https://x.org"', ""),
    ):
        assert text_of(storage) == "[[image: p.png]](https://x.org)"


@pytest.mark.parametrize("name", ["info", "note", "warning", "tip"])
def test_panels_say_what_their_colour_says(name):
    assert text_of(macro(name, rich("<p>Wake <b>her</b>.</p>"))) == f"{name.title()}: Wake her."
    assert text_of(macro(name, rich("<ul><li>one</li></ul>"))) == f"{name.title()}:\n\n- one"
    assert (
        text_of(macro(name, rich("<p>Wake.</p>"), title="At night")) == f"{name.title()}: At night\n\nWake."
    )


@pytest.mark.parametrize("name", ["panel", "expand", "excerpt", "unheard-of"])
def test_bodies_of_macros_are_kept_with_their_titles(name):
    storage = macro(
        name, rich("<p>Wake the owner.</p><ul><li>first</li></ul>"), title="At night", bgColor="#fff"
    )
    assert text_of(storage) == "At night\n\nWake the owner.\n\n- first"


def test_an_unknown_macro_with_plain_text_is_fenced():
    assert text_of(macro("plantuml", plain("a -> b"))) == "```\na -> b\n```"
    assert text_of(macro("markdown", plain("# As it is"))) == "# As it is"


@pytest.mark.parametrize("name", ["toc", "children", "pagetree", "recently-updated", "livesearch", "anchor"])
def test_what_a_page_only_gathers_is_left_out(name):
    assert text_of(f"<p>before</p>{macro(name, maxLevel='3')}<p>after</p>") == "before\n\nafter"


def test_a_status_and_a_ticket_stand_in_their_line():
    converted = storage_to_markdown(
        f"<p>{macro('jira', key='OPS-12')} is {macro('status', title='DONE', colour='Green')}.</p>"
    )
    assert converted.text == "OPS-12 is DONE."
    assert converted.references == ("OPS-12",)


def test_a_list_of_tickets_is_told_by_its_query():
    assert text_of(macro("jira", jqlQuery="project = OPS", server="J")) == "Jira issues: project = OPS"


def test_pages_are_linked_by_title_and_are_references():
    storage = f"<p>{page_link('Rota')} {page_link('Rota', 'who')} {page_link('Style', space='ENG')}</p>"
    converted = storage_to_markdown(storage, space="OPS")
    assert converted.text == "Rota who (Rota) Style"
    assert converted.references == ("ENG/Style", "OPS/Rota")


@pytest.mark.parametrize(
    "parameter", [page_link("Shared"), "Shared", "OPS:Shared", '<ri:page ri:content-title="Shared" />']
)
def test_included_pages_are_named_not_repeated(parameter):
    storage = macro("excerpt-include", f'<ac:parameter ac:name="">{parameter}</ac:parameter>')
    converted = storage_to_markdown(storage, space="OPS")
    assert converted.text == "Included page: Shared"
    assert converted.references == ("OPS/Shared",)


def test_addresses_are_kept_and_those_of_this_wiki_are_references():
    site = "https://example.atlassian.net/wiki"
    storage = (
        f'<p><a href="https://example.org/a?b=1&amp;c">docs</a> <a href="{site}/spaces/OPS/pages/77/R">i</a> '
        '<a href="/pages/viewpage.action?pageId=78">old</a> <a href="https://x.org/pages/79">not ours</a></p>'
    )
    converted = storage_to_markdown(storage, site=site)
    assert "[docs](https://example.org/a?b=1&c)" in converted.text
    assert converted.references == ("page/77", "page/78")


def test_people_are_named_and_their_ids_are_not():
    storage = '<p>ask <ac:link><ri:user ri:account-id="5b:1-2" /></ac:link>'
    storage += ' or <ac:link><ri:user ri:userkey="8a7" /></ac:link></p>'
    assert find_mentioned_accounts(storage) == {"5b:1-2", "8a7"}
    assert text_of(storage, people={"5b:1-2": "Ada Lovelace"}) == f"ask @Ada Lovelace or {UNKNOWN_PERSON}"


def test_images_attachments_dates_and_emoticons_are_words():
    storage = (
        '<p><ac:image ac:alt="the plan"><ri:attachment ri:filename="p.png" /></ac:image> '
        '<ac:image><ri:attachment ri:filename="q.png" /></ac:image> '
        '<ac:image><ri:url ri:value="https://x.org/i/r.png" /></ac:image> '
        '<ac:link><ri:attachment ri:filename="s.pdf" /></ac:link> <time datetime="2026-03-01" /> '
        '<ac:emoticon ac:name="tick" /> <ac:emoticon ac:name="blue-star" ac:emoji-fallback="🦊" /></p>'
    )
    assert text_of(storage) == "[image: the plan] [image: q.png] [image: r.png] s.pdf 2026-03-01 :tick: 🦊"


def test_merged_cells_are_said_in_every_row_they_span():
    storage = dedent("""
        <table><colgroup><col /></colgroup><tbody>
        <tr><th>Day</th><th>Who</th><th>Where</th></tr>
        <tr><td rowspan="2">Mon</td><td><p>Ada</p><p>Bob</p></td><td>a|b</td></tr>
        <tr><td colspan="2">nobody</td></tr>
        </tbody></table>""")
    assert text_of(storage).splitlines() == [
        "| Day | Who | Where |",
        "| --- | --- | --- |",
        "| Mon | Ada / Bob | a\\|b |",
        "| Mon | nobody |  |",
    ]


def test_a_table_of_one_column_is_laid_out_and_one_of_two_is_a_table():
    one = "<table><tbody><tr><td>a</td></tr><tr><td>b</td></tr></tbody></table>"
    assert text_of(one) == "a\n\nb"
    two = "<table><tbody><tr><th>key</th><th>value</th></tr><tr><td>a</td><td>b</td></tr></tbody></table>"
    assert text_of(two) == "| key | value |\n| --- | --- |\n| a | b |"


def test_a_table_with_code_is_laid_out_so_that_the_code_stays_whole():
    code = macro("code", plain("a\nb"))
    storage = f"<table><tbody><tr><td>how</td><td>{code}</td></tr></tbody></table>"
    assert text_of(storage) == "how\n\n```\na\nb\n```"


def test_a_table_in_a_panel_in_a_cell_stays_a_table():
    inner = "<table><tbody><tr><td>a</td><td>b</td></tr></tbody></table>"
    panel = macro("note", rich(f"<p>See</p>{inner}"))
    storage = f"<table><tbody><tr><td>how</td><td>{panel}</td></tr></tbody></table>"
    assert text_of(storage) == "how\n\nNote: See\n\n| a | b |\n| --- | --- |"


def test_layouts_and_the_extensions_of_the_new_editor_are_read_once():
    node = '<ac:adf-node type="panel"><ac:adf-attribute key="panel-type">note</ac:adf-attribute>'
    node += "<ac:adf-content><p>new</p></ac:adf-content></ac:adf-node>"
    extension = f"<ac:adf-extension>{node}<ac:adf-fallback><p>new</p></ac:adf-fallback></ac:adf-extension>"
    cell = f"<ac:layout-cell><p>left</p>{extension}</ac:layout-cell>"
    storage = f'<ac:layout><ac:layout-section ac:type="single">{cell}</ac:layout-section></ac:layout>'
    assert text_of(storage) == "left\n\nNote: new"


def test_what_is_no_xml_is_read_as_a_browser_reads_it():
    assert text_of("<p>a < b &unknown; <b>c</p><p>d & e<br>f") == "a < b &unknown; c\n\nd & e\nf"
    assert text_of("") == ""


@pytest.mark.parametrize(
    "tag", ["div", "ul><li", "table><tr><td", "blockquote", "ac:task-list><ac:task><ac:task-body"]
)
@pytest.mark.parametrize("closed", [True, False])
def test_a_page_nested_without_end_keeps_its_words(tag, closed):
    inner = "".join(f"</{part}>" for part in reversed(tag.split("><")))
    assert "deepest" in text_of(f"<{tag}>" * 3000 + "deepest" + inner * 3000 * closed)


_WORD = st.text(st.characters(categories=("Ll", "Lu", "Nd"), max_codepoint=0x24F), min_size=2, max_size=8)
Written = tuple[str, list[str]]  # storage, and the words that a reader sees


def _joined(parts: list[Written]) -> Written:
    return " ".join(each[0] for each in parts), [word for each in parts for word in each[1]]


def _within(before: str, after: str, parts: st.SearchStrategy[Written]) -> st.SearchStrategy[Written]:
    return parts.map(lambda part: (f"{before}{part[0]}{after}", part[1]))


_PIECE = st.one_of(
    _WORD.map(lambda word: (word, [word])),
    _WORD.map(lambda word: (f"<strong><em>{word}</em></strong>&nbsp;", [word])),
    _WORD.map(lambda word: (f"<code>{word}</code>", [word])),
    _WORD.map(
        lambda word: (f'<a href="https://x.org/{word}">{word}</a>', [f"[{word}](https://x.org/{word})"])
    ),
    st.tuples(_WORD, _WORD).map(lambda two: (page_link(two[0], two[1]), list(two))),
    _WORD.map(lambda word: (macro("status", title=word), [word])),
    _WORD.map(
        lambda word: (f'<ac:image ac:alt="{word}"><ri:attachment ri:filename="f" /></ac:image>', [word])
    ),
    _WORD.map(
        lambda word: (f"<ac:inline-comment-marker ac:ref='1'>{word}</ac:inline-comment-marker><br />", [word])
    ),
)
_LINE = st.lists(_PIECE, min_size=1, max_size=4).map(_joined)


def _blocks(inner: st.SearchStrategy[Written]) -> st.SearchStrategy[Written]:
    several = st.lists(inner, min_size=1, max_size=3).map(_joined)
    items = st.lists(_within("<li>", "</li>", inner), min_size=1, max_size=3).map(_joined)
    cells = st.lists(_within('<td rowspan="2">', "</td>", inner), min_size=1, max_size=3).map(_joined)
    rows = st.lists(_within("<tr>", "</tr>", cells), min_size=1, max_size=3).map(_joined)
    return st.one_of(
        _within("<ul>", "</ul>", items),
        _within("<ol>", "</ol>", items),
        _within("<table><tbody>", "</tbody></table>", rows),
        _within("<blockquote>", "</blockquote>", several),
        _within(
            '<ac:structured-macro ac:name="panel"><ac:rich-text-body>',
            "</ac:rich-text-body></ac:structured-macro>",
            several,
        ),
        _within("<p><span>", "</span></p>", several),
        _within("<ac:task-list><ac:task><ac:task-body>", "</ac:task-body></ac:task></ac:task-list>", inner),
        _within("<ac:layout-cell>", "</ac:layout-cell>", several),
    )


_LEAF = st.one_of(
    _within("<p>", "</p>", _LINE),
    _within("<h2>", "</h2>", _LINE),
    _LINE,
    _WORD.map(lambda word: (macro("code", plain(f"{word} < {word}")), [word])),
)
_PAGE = st.lists(st.recursive(_LEAF, _blocks, max_leaves=8), max_size=4).map(_joined)


@settings(max_examples=examples(300), deadline=None)
@given(_PAGE)
def test_no_word_is_lost_no_markup_is_left_and_links_are_kept(page):
    storage, words = page
    text = text_of(storage)
    for word in words:
        assert word in text
    assert not re.search(r"</?[a-z]|CDATA|ac:|ri:|&[a-z]+;", text)


@settings(max_examples=examples(300), deadline=None)
@given(_PAGE, st.data())
def test_a_page_cut_and_mangled_anywhere_gives_text_not_an_error(page, data):
    storage = page[0]
    at = data.draw(st.integers(0, len(storage)))
    noise = data.draw(st.text(max_size=5))
    assert isinstance(
        text_of(storage[:at] + noise + storage[data.draw(st.integers(at, len(storage))) :]), str
    )


_SHARDS = [
    "<",
    ">",
    "/",
    "&",
    ";",
    "a",
    "p",
    "=",
    '"',
    "'",
    "]]>",
    "<![CDATA[",
    "#1",
    "&#0;",
    "&#55296;",
    "ac:link",
    "ri:user",
    "xmlns:ac",
    "x:",
    "<p>",
    "</p>",
    "<!--",
    "-->",
]


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(st.sampled_from([*_SHARDS, " ", "\0", "\ud800", "\x0b"]), max_size=30).map("".join))
@example("<a:b c:d='1' c:d='2'>x</a:b>")
@example("<!DOCTYPE x [<!ENTITY y SYSTEM 'file:///etc/hostname'>]><p>&y;</p>")
def test_anything_gives_text_that_can_be_stored(storage):
    text = text_of(storage)
    assert "\0" not in text
    assert text.encode().decode() == text


@given(st.text(st.characters(exclude_categories=("Cs", "Cc", "Cn", "Co"))))
def test_plain_text_comes_back_as_it_is_but_for_white_space(text):
    assert text_of(f"<p>{escape(text)}</p>").split() == text.split()
