"""The search page as a browser without scripts gets it."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.knowledge_base import KnowledgeBase
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline_tests.serve.running import Running
from knowledge_pipeline_tests.serve.world import SEERS, SOURCES, World

PAGES = (
    "/?q=payments",
    "/?q=payments&type=code&limit=50",
    "/?q=payments&type=similar",
    "/?q=payments&type=historical",
    "/?q=double+charge&source_type=jira",
    "/",
    "/sources",
    "/graph?target=Store",
    "/graph?target=Store.put_payment&operation=impact",
    "/similar?id=shop-docs:README.md",
    "/related?id=SHOP-1",
)


@pytest.fixture
def visitor(server: Running, world: World) -> httpx2.Client:
    """Somebody who may see all."""
    return server.client(world.tokens["operator"])


def links(page: httpx2.Response, pattern: str = "") -> list[str]:
    """Addresses in a page that match a pattern."""
    return [
        html.unescape(each) for each in re.findall(r'href="([^"]*)"', page.text) if re.search(pattern, each)
    ]


def test_a_search_shows_code_with_its_place_its_words_marked_and_links_to_its_lines(
    visitor: httpx2.Client,
) -> None:
    page = visitor.get("/", params={"q": "put_payment", "type": "code"})
    assert page.status_code == 200
    assert '<span class="folder">shop/</span>' in page.text
    assert "<mark>payment</mark>" in page.text
    assert '<span class="k">def</span>' in page.text
    assert any("#L" in each for each in links(page, "id=shop-code"))


def test_a_search_says_why_each_result_is_there_and_how_long_each_step_took(visitor: httpx2.Client) -> None:
    page = visitor.get("/", params={"q": "how is a payment retried"}).text
    assert {"words (BM25)", "meaning (cosine)", "fused"} <= set(
        re.findall(r'<th scope="row">([^<]+)</th>', page)
    )
    assert re.search(r"<td>#1</td><td>\d\.\d{3}</td>", page)
    assert "Time by step" in page and "release 2" in page


@pytest.mark.parametrize(
    ("narrowed", "sources"),
    [
        ({"source_type": "jira"}, {"shop-tickets", "acme-tickets", "globex-tickets", "initech-tickets"}),
        ({"source": ["acme-docs", "shop-docs"]}, {"acme-docs", "shop-docs"}),
        ({"language": "python", "path": "shop/store.py"}, {"shop-code"}),
        ({"q": "payments source:acme-docs"}, {"acme-docs"}),
    ],
)
def test_filters_narrow_what_is_found_by_address_as_by_the_question(
    visitor: httpx2.Client, narrowed: dict[str, str | list[str]], sources: set[str]
) -> None:
    page = visitor.get("/", params={"q": "payments", "limit": "50", **narrowed})
    assert set(re.findall(r'<a class="source" [^>]*>([^<]+)</a>', page.text)) == sources


def test_the_counts_beside_the_results_are_links_that_narrow_them(visitor: httpx2.Client) -> None:
    page = visitor.get("/", params={"q": "payments", "limit": "50"})
    told = re.search(
        r'href="([^"]*source_type=jira[^"]*)"[^>]*><span class="label">ticket</span> '
        r'<span class="count">(\d+)<',
        page.text,
    )
    assert told
    narrowed = visitor.get(html.unescape(told[1])).text
    assert len(re.findall('<article class="result"', narrowed)) == int(told[2])


def test_a_document_is_shown_whole_with_its_lines_and_those_asked_for_marked(visitor: httpx2.Client) -> None:
    page = visitor.get("/doc", params={"id": "shop-code:shop/store.py", "lines": "L4-L5", "q": "payments"})
    numbers = [int(each) for each in re.findall(r'<tr id="L(\d+)"', page.text)]
    assert numbers == list(range(1, numbers[-1] + 1)) and numbers[-1] == 13
    assert re.findall(r'<tr id="L(\d+)" class="hit"', page.text) == ["4", "5"]
    assert "<mark>payments</mark>" in page.text


def test_a_document_of_prose_is_rendered_and_can_be_read_by_lines(visitor: httpx2.Client) -> None:
    (id_,) = (f"shop-docs:guides/{source}.md" for source in ["canaryshopdocs"])
    rendered = visitor.get("/doc", params={"id": id_})
    assert '<h3 id="L5">Sessions of canaryshopdocs</h3>' in rendered.text
    (other,) = links(rendered, "view=source")
    assert '<tr id="L5"><td class="n">' in visitor.get(other).text


def test_the_document_of_a_result_is_one_click_away(visitor: httpx2.Client) -> None:
    page = visitor.get("/", params={"q": "payments", "limit": "50"})
    opened = links(page, r"^/doc\?id=")
    assert len(opened) > 10
    assert {visitor.get(each.partition("#")[0]).status_code for each in opened[:10]} == {200}


def test_the_code_graph_around_a_function_is_drawn_and_listed(visitor: httpx2.Client) -> None:
    page = visitor.get("/graph", params={"target": "Store.get_payment", "source": "shop-code"})
    assert page.status_code == 200
    assert re.search(r"<title>[^<]*put_payment</title>", page.text)
    assert page.text.count('<path class="curve calls"') >= 2
    assert '<h2 class="sub">Called by' in page.text and "canaryshopcode_total" in page.text


def test_a_name_that_several_things_have_is_answered_with_links_to_each(visitor: httpx2.Client) -> None:
    page = visitor.get("/graph", params={"target": "shop-code:nothing"})
    assert page.status_code == 404
    several = visitor.get("/graph", params={"target": "__init__.py"})
    assert "may mean several things" in several.text
    assert {visitor.get(each).status_code for each in links(several, "__init__.py")[:3]} == {200}


def test_a_panel_is_the_inside_of_its_page_alone(visitor: httpx2.Client) -> None:
    part = visitor.get("/graph", params={"target": "Store", "part": "1"}).text
    assert part.lstrip().startswith('<section class="graph">') and "<html" not in part


def test_what_documents_say_of_each_other_is_listed_with_links(visitor: httpx2.Client) -> None:
    page = visitor.get("/related", params={"id": "SHOP-1"})
    assert "referenced by" in page.text
    assert visitor.get(links(page, "shop-docs")[0]).status_code == 200


def test_where_nothing_is_found_there_are_near_names_and_fewer_filters_to_try(visitor: httpx2.Client) -> None:
    page = visitor.get("/", params={"q": "put_paymet", "source": "shop-cod", "language": "pyton"})
    assert "Nothing found" in page.text
    hints = dict(re.findall(r'<li><a href="([^"]*)">((?:Did|Without)[^<]*)</a>', page.text))
    told = set(hints.values())
    assert {"Did you mean the source shop-code?", "Did you mean the language python?"} <= told
    assert {"Did you mean put_payment?", "Without source: shop-cod", "Without language: pyton"} <= told
    better = next(url for url, said in hints.items() if said == "Without source: shop-cod")
    assert "source=" not in html.unescape(better)


@pytest.mark.parametrize(
    ("address", "status", "sentence"),
    [
        ("/?q=lang:python", 422, "has filters but no words"),
        ("/?q=x&type=everything", 422, "found the search type"),
        ("/?q=x&limit=1000", 422, "the limit is 1,000 results"),
        ("/?q=x&limit=-1", 422, "the limit is not a number"),
        ("/?q=x&since=soon", 422, "since:soon"),
        ("/?q=" + "x" * 4001, 422, "4,001 characters"),
        ("/?q=" + "&source=x" * 300, 200, "chunks of"),
        ("/doc?id=nothing:here", 404, "there is no chunk or document"),
        ("/doc", 422, "no document id"),
        ("/graph?target=nothing_like_it", 404, "there is no symbol"),
        ("/graph?target=Store&operation=why", 422, "found the operation"),
        ("/related?id=NOPE-1", 404, "no document is called"),
        ("/static/other.js", 404, "no such file"),
    ],
)
def test_what_makes_no_sense_is_told_in_a_sentence(
    visitor: httpx2.Client, address: str, status: int, sentence: str
) -> None:
    page = visitor.get(address)
    assert page.status_code == status
    assert sentence.lower() in html.unescape(page.text).lower()
    assert "Traceback" not in page.text


def test_sources_are_listed_with_counts_and_when_they_were_last_read(visitor: httpx2.Client) -> None:
    page = visitor.get("/sources").text
    assert re.search(
        r'source=shop-code">shop-code</a>.*?</th>.*?<td data-label="Chunks" class="right">\d+</td>',
        page,
        re.DOTALL,
    )
    assert re.search(r'title="\d{4}-\d\d-\d\d \d\d:\d\d UTC">(\d+ \w+ ago)</time>', page)


def test_the_bar_of_a_source_is_the_share_that_is_embedded(visitor: httpx2.Client) -> None:
    bars = re.findall(r'class="fill" width="([\d.]+)"[^>]*/></svg> (\d+) %', visitor.get("/sources").text)
    assert len(bars) == len(SOURCES)
    assert {(float(bar), int(share)) for bar, share in bars} == {(100.0, 100)}


def test_examples_and_types_on_the_start_page_are_links_that_answer(visitor: httpx2.Client) -> None:
    page = visitor.get("/")
    examples, types = links(page, r"^/\?q="), links(page, r"^/\?source_type=")
    assert len(examples) > 5 and {visitor.get(each).status_code for each in examples} == {200}
    assert "/?source_type=jira" in types
    assert "Only: " in visitor.get("/?source_type=jira").text


def test_the_results_are_headed_by_how_good_they_are(visitor: httpx2.Client) -> None:
    def ask(q: str) -> tuple[str, float]:
        page = visitor.get("/", params={"q": q}).text
        answer = visitor.post("/api/v1/knowledge/search", json={"query": q, "limit": 20}).json()
        (heading,) = re.findall(r"<h1>(.*?)</h1>", page)
        assert f"{int(100 * answer['confidence'])} % likely to answer" in page
        return heading, answer["confidence"]

    answered, doubted = ask("how is a payment retried"), ask("zebra crossing regulations in Norway")
    assert answered[1] > doubted[1]
    for heading, confidence in (answered, doubted):
        words = {"Good match": (0.75, 1.0), "Fair match": (0.25, 0.75), "Weak match": (0.0, 0.25)}
        least, most = words[heading]
        assert least <= confidence <= most
    by_words = visitor.get("/", params={"q": "payments", "mode": "words"}).text
    assert re.search(r"<h1>Best match \d+ %</h1>", by_words)


@pytest.mark.parametrize(
    ("q", "without"),
    [
        ("payments type:jira", {"type:jira": "payments"}),
        (
            'path:"shop/store.py" put since:9y',
            {'path:"shop/store.py"': "put since:9y", "since:9y": 'path:"shop/store.py" put'},
        ),
        ("payments std::vector http://x type:ignore", {}),
    ],
)
def test_filters_in_a_question_can_be_taken_away_one_by_one(
    visitor: httpx2.Client, q: str, without: dict[str, str]
) -> None:
    page = visitor.get("/", params={"q": q}).text
    chips = re.findall(
        r'<a class="chip" href="([^"]*)"[^>]*><span[^>]*>Remove the filter</span> (.*?) <', page
    )
    shown = {html.unescape(term): httpx2.URL(html.unescape(url)).params["q"] for url, term in chips}
    assert shown == without
    assert "Taken as filters" not in page  # the chips say it


def test_before_anything_is_released_the_page_says_what_to_do(tmp_path: Path) -> None:
    with Running(Settings(store=tmp_path / "store")) as running:
        client = running.client()
        for address in ("/", "/?q=anything", "/sources"):
            page = client.get(address)
            assert page.status_code == 200 and "Nothing is released yet" in page.text
            assert "knowledge index --repo" in page.text


def test_what_an_answer_had_to_do_without_is_told_above_the_results(world: World) -> None:
    gone = world.settings.embedding.model_copy(update={"base_url": "http://127.0.0.1:9/v1"})
    with Running(world.settings.model_copy(update={"embedding": gone})) as running:
        page = running.client().get("/", params={"q": "how is a payment retried"})
    assert page.status_code == 200 and '<article class="result"' in page.text
    assert "Searched by words alone: the embedding model could not be used." in page.text


def test_a_judgement_is_kept_with_the_answer_it_is_of(own_world: World) -> None:
    with Running(own_world.settings) as running:
        client = running.client()
        page = client.get("/", params={"q": "payments"})
        form = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', page.text))
        form = {name: html.unescape(value) for name, value in form.items()}
        kept = client.post("/feedback", data={**form, "judgement": "useful"})
        assert kept.status_code == 200 and 'href="/?q=payments"' in kept.text
        quiet = client.post("/feedback", data={**form, "judgement": "clicked", "background": "1"})
        assert quiet.status_code == 204
        assert client.post("/feedback", data={**form, "judgement": "great"}).status_code == 422
    rows = (
        Lake(own_world.settings.store).log_table("feedback").read_rows(["query_id", "judgement"]).to_pylist()
    )
    assert {(row["query_id"], row["judgement"]) for row in rows} == {
        (form["query_id"], "useful"),
        (form["query_id"], "clicked"),
    }


@pytest.fixture(scope="module")
def addresses(world: World) -> Iterator[list[str]]:
    """Of every document of all tenants, by every page that takes an id."""
    with KnowledgeBase(world.settings, access=Access.operator()) as base:
        found = [
            base.search(f"canary{tenant}", limit=100) for tenant in ("acme", "globex", "initech", "shop")
        ]
    results = {result.id: result for answer in found for result in answer.results}.values()
    ids = {result.id for result in results} | {f"{each.citation.source}:{each.span.uri}" for each in results}
    yield [
        f"/{page}?id={httpx2.QueryParams({'id': id_})['id']}" for id_ in ids for page in ("doc", "similar")
    ]


@pytest.mark.sampled
@pytest.mark.parametrize("seer", [*SEERS, "operator"])
def test_nobody_reads_on_the_page_what_they_may_not_see(
    asking: Callable[[str], httpx2.Client], world: World, addresses: list[str], seer: str
) -> None:
    client, read = asking(seer), 0
    for address in (*PAGES, *addresses[:: 3 if seer == "public" else 12]):
        page = client.get(address)
        assert page.status_code in (200, 404)
        read += page.status_code == 200
        for canary in world.canaries_hidden_from(seer):
            if canary in address:  # told back to who asked, of what is there and of what is not
                assert page.status_code == 404
            else:
                assert canary not in page.text, address
    assert read > 8
