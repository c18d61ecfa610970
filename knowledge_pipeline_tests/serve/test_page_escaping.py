"""Whatever documents, paths and questions hold, the page shows it as text."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from html.parser import HTMLParser

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_pipeline.serve.page.markdown_html import (
    TermMatcher,
    render_lines,
    render_markdown,
    render_marked,
    split_at_ranges,
)
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer
from knowledge_pipeline_tests.serve.attacks import ATTACK, attacked_by
from knowledge_pipeline_tests.serve.running import Running

_TAGS = """
html head meta title link script body a header svg path form input textarea kbd button nav span div main
dialog h1 h2 h3 h4 dl dt dd label p code aside details summary section ul li article table tbody thead tr
select option td th caption mark footer time rect pre em strong ol blockquote hr br g text defs marker
"""
TAGS = frozenset(_TAGS.split())


class Shown(HTMLParser):
    """The tags and addresses of a page, as a browser would read it."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.addresses: list[str] = []
        self.scripts: list[str | None] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.addresses += [value or "" for name, value in attrs if name in ("href", "src", "action")]
        if tag == "script":
            self.scripts.append(dict(attrs).get("src"))


def safe(page: str) -> Shown:
    """Assert that a page has no tag, script or address that this project did not put there."""
    shown = Shown(page)
    assert shown.tags <= TAGS, shown.tags - TAGS
    assert not any(name.startswith("on") or name in ("style", "srcdoc") for name in shown.attributes)
    assert all(each and each.startswith("/static/page.js?") for each in shown.scripts)
    for address in shown.addresses:
        assert re.match(r"/(?!/)|#|https?://example\.org/", address), address
    return shown


@pytest.fixture(scope="module")
def attacked(
    tmp_path_factory: pytest.TempPathFactory, embedding_server: OpenAIServer
) -> Iterator[httpx2.Client]:
    """A server over documents, code and paths that are full of HTML."""
    with Running(attacked_by(tmp_path_factory.mktemp("attacked"), embedding_server)) as running:
        yield running.client()


@pytest.mark.parametrize(
    "address",
    [
        "/?q=attack&limit=50",
        "/?q=attack&type=code",
        "/?q=attack&type=similar",
        "/graph?target=attack",
        "/graph?target=attack&part=1",
        "/sources",
    ],
)
def test_what_documents_hold_is_shown_as_text(attacked: httpx2.Client, address: str) -> None:
    page = attacked.get(address)
    assert page.status_code == 200
    safe(page.text)


@pytest.mark.slow
def test_whole_documents_and_what_is_like_them_are_shown_as_text(attacked: httpx2.Client) -> None:
    found = safe(attacked.get("/?q=attack&limit=50").text)
    opened = [
        each for each in found.addresses if each.startswith(("/doc?", "/similar?", "/related?", "/graph?"))
    ]
    assert len({each.partition("?")[0] for each in opened}) == 4
    for address in dict.fromkeys(each.partition("#")[0] for each in opened):
        for view in ("", "&view=source"):
            page = attacked.get(address + view)
            assert page.status_code == 200, address
            safe(page.text)


def test_an_attack_in_a_document_can_be_read(attacked: httpx2.Client) -> None:
    page = attacked.get("/?q=attack&limit=50").text
    text = html.unescape(re.sub(r"<[^>]*>", "", page))
    assert "<script>alert(1)</script><img src=x onerror=alert(2)>" in text


@pytest.mark.parametrize("name", ["q", "type", "source", "source_type", "language", "path", "since", "limit"])
@pytest.mark.parametrize(
    "attack", [ATTACK, "javascript:alert(1)", "'\"`;--", "{{ 7*7 }}", "\x00\ud7ff\u202e"]
)
def test_what_is_asked_for_is_told_back_as_text(attacked: httpx2.Client, name: str, attack: str) -> None:
    page = attacked.get("/", params={"q": "nothing", name: attack})
    assert page.status_code in (200, 422)
    safe(page.text)
    assert "49" not in re.findall(r'value="([^"]*)"', page.text)


@pytest.mark.parametrize(
    "address", ["/doc?id=", "/similar?id=", "/related?id=", "/graph?target=", "/graph?operation="]
)
def test_an_address_of_nothing_is_told_back_as_text(attacked: httpx2.Client, address: str) -> None:
    page = attacked.get(address + httpx2.QueryParams({"x": ATTACK})["x"])
    assert page.status_code in (404, 422)
    safe(page.text)


def test_a_relative_link_leads_to_the_document_and_never_out_of_its_source(attacked: httpx2.Client) -> None:
    page = attacked.get("/doc?id=docs:plain.md").text
    assert '<a href="/doc?id=docs%3Aother.md"' in page
    assert "<a>up</a>" in page


@given(st.text(max_size=200), st.text(max_size=30))
def test_code_as_html_is_the_text_again(text: str, question: str) -> None:
    lines = render_lines(text, "python", TermMatcher(question))
    assert [html.unescape(re.sub(r"<[^>]*>", "", line)) for line in lines] == _as_read(text)


def _as_read(text: str) -> list[str]:
    """What a reader of HTML makes of the lines of a text."""
    return [html.unescape(html.escape(line)) for line in text.split("\n")]


@given(st.text(max_size=200))
def test_markdown_of_any_text_has_only_tags_that_are_known(text: str) -> None:
    safe(render_markdown(text, TermMatcher("a b"), resolve_link=lambda _: None))


@pytest.mark.parametrize(
    ("question", "text", "found"),
    [
        (
            "how are sessions signed",
            "Sessions are signed by a SessionSigner",
            ["Sessions", "signed", "Session", "Signer"],
        ),
        ("getURL", "def get_url(getURL): pass", ["get", "url", "getURL"]),
        ("Store.get", "store.got forgets", ["store"]),
        ("cat", "concatenate cat category", ["cat"]),
        ("lang:py retry", "lang retry", ["retry"]),
        ("lang:py", "lang py", []),
        ("...", "a.b...", []),
    ],
)
def test_the_words_of_a_question_are_marked(question: str, text: str, found: list[str]) -> None:
    assert re.findall("<mark>(.*?)</mark>", render_marked(text, TermMatcher(question))) == found


@given(st.text(max_size=60), st.lists(st.integers(0, 60), max_size=8))
def test_pieces_of_a_text_are_the_text(text: str, at: list[int]) -> None:
    ranges = list(zip(sorted(at)[::2], sorted(at)[1::2], strict=False))
    assert "".join(piece for piece, _ in split_at_ranges(0, text, ranges)) == text
