"""Contexts with configured sections, on real tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from knowledge_pipeline import Access, Filters, KnowledgeBase, Task
from knowledge_pipeline.config.operation import ContextSettings
from knowledge_pipeline.contract.responses import ContextResponse, ContextSection
from knowledge_pipeline.errors import ConfigError
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline_tests.conftest import Project
from knowledge_pipeline_tests.query.search.rows import publish, row, write

Configure = Callable[..., KnowledgeBase]

DOCS = {"source": "docs", "source_type": "markdown"}
ROWS = [
    row("def retry(send, times):\n    return any(send() for _ in range(times))", "src/retry.py"),
    row("def backoff(attempt):\n    return 2 ** attempt  # seconds to wait before a retry", "src/backoff.py"),
    row("A failed request is tried again three times.", "guide.md", **DOCS),
    row("Python style: a retry is a function with a verb in its name.", "CONTRIBUTING.md", **DOCS),
    *(
        row(f"Python convention {n}: retry number {n} of a request.", f"style/{n}.md", **DOCS)
        for n in range(9)
    ),
    row("Style of the red team: retry secretly.", "style/red.md", visibility="tenant", tenant="red", **DOCS),
    row("Retry failed requests", "c1", source="log", source_type="git_history", author="Ann"),
]


@pytest.fixture
def configure(base: KnowledgeBase, lake: Lake, space: str) -> Iterator[Configure]:
    """A knowledge base whose contexts have some sections."""
    write(lake, space, ROWS)
    publish(lake)
    opened: list[KnowledgeBase] = []

    def open_base(
        *sections: dict[str, Any], template: str = "code_generation", **context: Any
    ) -> KnowledgeBase:
        settings = ContextSettings.model_validate({"sections": {template: sections}, **context})
        opened.append(KnowledgeBase(base.settings.model_copy(update={"context": settings})))
        return opened[-1]

    yield open_base
    for each in opened:
        each.close()


def sections_of(context: ContextResponse) -> dict[str, ContextSection]:
    return {each.name: each for each in context.sections or ()}


def paths_of(context: ContextResponse, section: ContextSection) -> set[str]:
    return {context.excerpts[number - 1].citation.path for number in section.excerpts}


SIMILAR = {"name": "like_it", "heading": "Similar implementations", "type": "similar", "share": 0.5}
SNIPPET = "def retry_twice(send):\n    return send() or send()"


@pytest.mark.parametrize(
    ("kind", "snippet", "filters", "found"),
    [
        ("code_generation", None, {}, 2),
        ("code_generation", SNIPPET, {}, 2),
        ("question", SNIPPET, {}, 2),
        ("question", None, {}, len(ROWS)),
        ("code_generation", SNIPPET, {"source_types": ["git_history"]}, 1),
        ("code_review", SNIPPET, {"authors": ["ann"]}, 1),
    ],
)
def test_similar_implementations_are_code(
    configure: Configure, kind: Any, snippet: str | None, filters: dict[str, Any], found: int
):
    base = configure({**SIMILAR, "filters": filters, "limit": 50}, template=kind)
    context = base.context(Task("retry failed requests", kind, snippet=snippet))
    (similar,) = sections_of(context).values()
    assert similar.found == found
    if found == 2:
        assert all(path.startswith("src/") for path in paths_of(context, similar))


def test_each_section_has_its_own_search_filters_number_and_heading(configure: Configure):
    base = configure(
        {
            **{"name": "history", "type": "historical", "heading": "Commits", "share": 0.1},
            **{"query": "failed requests, {{ kind }}", "filters": {"authors": ["ann"]}},
        },
        {"name": "rules", "type": "conventions", "limit": 2, "share": 0.3},
    )
    context = base.context(Task("retry a request", files=("src/retry.py",)))
    history, rules = sections_of(context).values()
    assert (history.query, history.found, history.shown) == ("failed requests, code_generation", 1, 1)
    assert paths_of(context, history) == {"c1"} and history.tokens > 0
    assert rules.query.startswith("coding conventions") and "python retry a request" in rules.query
    assert rules.found == 2 and all("style" in path or "CONTR" in path for path in paths_of(context, rules))
    assert (
        context.text.index("[1]") < context.text.index("### Commits\n\n[") < context.text.index("### rules")
    )
    shown = [id_ for each in context.excerpts for id_ in each.chunks]
    assert len(shown) == len(set(shown)) and len(context.results) == len(shown)
    assert [each.number for each in context.excerpts] == list(range(1, len(context.excerpts) + 1))
    assert "sections" in context.as_json()
    assert base.context(Task("retry", kind="question")).sections is None


def test_a_section_sees_no_more_than_the_caller_and_the_filters_of_the_task(configure: Configure):
    base = configure({"name": "rules", "type": "conventions", "limit": 50, "share": 0.9})
    public = base.context("retry style", access=Access.public())
    assert (
        "style/red.md" not in paths_of(public, sections_of(public)["rules"]) and "secretly" not in public.text
    )
    red = base.context("retry style", access=Access("red", frozenset()))
    assert "style/red.md" in paths_of(red, sections_of(red)["rules"])
    narrowed = base.context(Task("retry style", filters=Filters(paths=("style/1.md", "src/"))))
    assert paths_of(narrowed, sections_of(narrowed)["rules"]) == {"style/1.md"}


@pytest.mark.parametrize(
    ("format_", "shown"),
    [
        ("excerpt", "[1] guide.md, line 1\n```python\nA failed request is tried again three times.\n```"),
        ("full", "[1] guide.md, line 1\n```python\nA failed request is tried again three times.\n```"),
        ("code", "[1] guide.md, line 1\n```python\nA failed request is tried again three times.\n```"),
        ("list", "[1] guide.md, line 1\n\n## Answer"),
        ("summary", "[1] guide.md, line 1: A failed request is tried again three times.\n\n## Answer"),
    ],
)
def test_a_section_shows_its_results_in_its_format(configure: Configure, format_: str, shown: str):
    filters = {"paths": ["guide.md"]}
    base = configure({"name": "guide", "share": 1.0, "filters": filters, "format": format_})
    context = base.context("retry a failed request")
    assert f"### guide\n\n{shown}" in context.text
    (excerpt,) = context.excerpts
    assert excerpt.text == "A failed request is tried again three times."
    assert context.tokens <= context.max_tokens


def test_many_results_of_a_section_are_listed_where_few_would_be_quoted(configure: Configure):
    section = {"name": "rules", "type": "conventions", "limit": 20, "share": 1.0}
    listed, quoted = (
        configure({**section, "format": each}).context("retry a request", max_tokens=300)
        for each in ("list", "full")
    )
    assert len(listed.excerpts) > len(quoted.excerpts) > 0 and quoted.omitted
    assert max(listed.tokens, quoted.tokens) <= 300
    assert sections_of(listed)["rules"].tokens < sections_of(quoted)["rules"].tokens * 2


def test_every_result_of_a_section_contains_the_words_that_it_asks_for(configure: Configure):
    def find(*words: str) -> set[str]:
        filters = {"source_types": ["markdown"], "content_contains": words}
        base = configure({"name": "a", "share": 1.0, "limit": 20, "filters": filters})
        context = base.context("retry a failed request", access=Access.public())
        return {result.citation.path for result in context.results}

    assert find("tried AGAIN") == {"guide.md"}
    assert find("verb", "style") == {"CONTRIBUTING.md"}
    assert find("tri") == find("verb", "tried") == find("' OR true") == set()
    one = {"name": "a", "share": 1.0, "filters": {"content_contains": "Doe, Ann"}}
    settings = ContextSettings.model_validate({"sections": {"chat": [one]}})
    assert settings.sections["chat"][0].filters.content_contains == ("Doe, Ann",)


def test_shares_bound_sections_and_what_one_does_not_need_goes_to_the_others(configure: Configure):
    rules = {"name": "rules", "type": "conventions", "limit": 20}
    few = configure({**rules, "share": 0.2}).context("retry a request", max_tokens=300)
    many = configure({**rules, "share": 0.8}).context("retry a request", max_tokens=300)
    spent = [sections_of(each)["rules"].tokens for each in (few, many)]
    assert 0 < spent[0] < spent[1] and few.tokens <= 300 and many.tokens <= 300
    alone = configure({**rules, "share": 0.5}, {"name": "none", "share": 0.5, "filters": {"sources": ["x"]}})
    context = alone.context("retry a request", max_tokens=300)
    assert context.searches == () and sections_of(context)["none"].found == 0
    assert sections_of(context)["rules"].tokens > spent[0] and context.omitted


def test_a_template_has_the_sections_and_a_failed_search_is_told(configure: Configure, tmp_path: Path):
    (tmp_path / "own.j2").write_text(
        "{% for s in sections %}{{ s.name }} {{ s.heading }} {{ s.excerpts | length }};{% endfor %}"
        "{{ own_excerpts | length }} {{ excerpts | length }}"
    )
    sections = (
        {"name": "rules", "type": "conventions", "limit": 3, "share": 0.3},
        {"name": "nothing", "query": "{{ '' }}", "heading": "Nothing", "share": 0.1},
    )
    base = configure(*sections, template="own", templates=tmp_path)
    context = base.context("retry a request", template="own")
    own = len(context.excerpts) - 3
    assert context.text == f"rules rules 3;nothing Nothing 0;{own} {own + 3}"
    assert "empty" in (sections_of(context)["nothing"].problem or "")
    assert context.degraded == ("nothing",)


def test_what_makes_no_sense_in_the_configuration_is_named(configure: Configure):
    for sections, said in (
        ([{"name": "a", "share": 0.7}, {"name": "b", "share": 0.4}], r"code_review sum to 1\.1; allowed"),
        ([{"name": "a", "share": 0.1}, {"name": "a", "share": 0.1}], "two sections 'a'"),
        (
            [{"name": "a", "share": 0.1, "type": "type_definitions", "query": "x"}],
            "neither query nor filters",
        ),
        ([{"name": "a", "share": 0.1, "filters": {"pahts": ["x"]}}], "filters.pahts"),
        ([{"name": "a", "share": 0.1, "format": "table"}], "'excerpt', 'full', 'code', 'list' or 'summary'"),
    ):
        with pytest.raises(ValidationError, match=said):
            ContextSettings.model_validate({"sections": {"code_review": sections}})
    with pytest.raises(ConfigError, match=r"context\.sections has code_rewiev, which no template is called"):
        configure({"name": "a", "share": 0.1}, template="code_rewiev").context("retry")
    with pytest.raises(ConfigError, match=r"query of the section a in context\.sections .*'tsk' is"):
        configure({"name": "a", "share": 0.1, "query": "{{ tsk }}"}).context("retry")


@pytest.mark.slow
def test_types_that_the_files_refer_to_are_shown_with_their_definitions(project: Project, tmp_path: Path):
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "orders.py").write_text(
        "from money import Amount\nfrom stock import Shelf\n\n\ndef pay(amount: Amount) -> Amount:\n"
        "    return Amount(amount.cents)\n\n\nclass Order(Shelf):\n    pass\n"
    )
    (folder / "money.py").write_text("class Amount:\n    '''Zloty.'''\n\n    cents: int\n")
    (folder / "stock.py").write_text("class Shelf:\n    places = 7\n\n\ndef unused():\n    return 1\n")
    project.declare("code", "code", folder)
    project.refresh()
    section = {"name": "types", "type": "type_definitions", "heading": "Types", "share": 0.4}
    settings = ContextSettings.model_validate({"sections": {"code_review": [section]}})
    with KnowledgeBase(project.settings.model_copy(update={"context": settings})) as base:
        context = base.context(Task("review the payment", kind="code_review", file="orders.py"))
        types = sections_of(context)["types"]
        assert types.problem is None and types.found == types.shown == 2
        assert paths_of(context, types) == {"money.py", "stock.py"}
        assert "class Amount:" in context.text.partition("### Types")[2]
