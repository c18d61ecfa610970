"""What the best code uses, or what uses it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from knowledge_pipeline import Access, Filters, KnowledgeBase, Task
from knowledge_pipeline.context.links import follow_links
from knowledge_pipeline.context.select import SearchChances
from knowledge_pipeline.contract.responses import SearchResult
from knowledge_pipeline.query.plan import SearchQuestion
from knowledge_pipeline.query.search import Engine
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline_tests.conftest import Project

SHOP = {
    "orders.py": "from money import convert\n\n\ndef pay_the_order(order):\n    return convert(order)\n",
    "money.py": "def convert(amount):\n    return amount * 7\n",
    "bank.py": "def balance(account):\n    return account.balance\n",
}


@pytest.fixture
def shop(project: Project, tmp_path: Path) -> Project:
    folder = tmp_path / "shop"
    folder.mkdir()
    for path, text in SHOP.items():
        (folder / path).write_text(text)
    project.declare("code", "code", folder)
    project.refresh()
    return project


def test_what_the_best_code_calls_rises_and_is_added_where_no_search_found_it(shop: Project):
    asyncio.run(_follow_links_of(Engine(shop.settings, Lake(shop.settings.store))))


async def _follow_links_of(engine: Engine) -> None:
    operator = Access.operator()
    response = await engine.search(SearchQuestion("pay the order", diverse=False, limit=9), operator)
    by_path = {result.citation.path: result for result in response.results}
    first, called, other = (by_path[path] for path in ("orders.py", "money.py", "bank.py"))

    async def follow(
        results: list[SearchResult], chances: list[float], types: tuple[str, ...] = (), release: int = 0
    ) -> SearchChances:
        found = SearchChances("semantic", results, chances)
        filters = Filters(source_types=types)
        return await follow_links(engine, operator, filters, found, release or response.release)

    raised = await follow([first, other, other, called], [0.5, 0.4, 0.3, 0.01])
    assert raised.chances == pytest.approx([0.5, 0.4, 0.3, 0.04])
    raised = await follow([first, other, other, called], [0.5, 0.4, 0.3, 0.1])
    assert raised.chances == pytest.approx([0.5, 0.4, 0.3, 0.21])  # no more than a share of the third's
    added = await follow([first, other], [0.5, 0.4])
    assert [result.citation.path for result in added.results] == ["orders.py", "bank.py", "money.py"]
    assert added.chances == pytest.approx([0.5, 0.4, 0.16])
    for narrowed in (
        await follow([first, other], [0.5, 0.4], types=("markdown",)),
        await follow([first, other], [0.5, 0.4], release=response.release + 1),
        await follow([replace(first, graph=None)], [0.5]),
    ):
        assert "money.py" not in {result.citation.path for result in narrowed.results}
    await engine.aclose()


def test_a_context_shows_what_the_best_code_calls(shop: Project):
    with KnowledgeBase.open(shop.settings) as base:
        context = base.context(Task("pay the order", kind="question"))
    assert {"orders.py", "money.py"} <= {excerpt.citation.path for excerpt in context.excerpts}


CALLERS = {
    "web.py": "from card import charge\n\n\ndef checkout(basket):\n    return charge(basket.total)\n",
    "jobs.py": "import card\n\n\ndef renew(subscription):\n    return card.charge(subscription.price)\n",
    "hotel.py": "from card import charge\n\n\nclass Room:\n    def book(self):\n        charge(self.rate)\n",
}
CARD = "def charge(amount):\n    return amount\n\n\ndef refund(amount):\n    return -amount\n"
NOTES = "# {name}\n\nWho calls charge? The {name} team asks who calls charge, and calls the charge a call.\n"


@pytest.fixture
def called(project: Project, tmp_path: Path) -> Project:
    """A definition with three callers, and documents that say the question's words more often."""
    for name, text in {"card.py": CARD, **CALLERS}.items():
        (tmp_path / "code").mkdir(exist_ok=True)
        (tmp_path / "code" / name).write_text(text)
    (tmp_path / "docs").mkdir()
    for name in ("first", "second", "third", "fourth", "fifth"):
        (tmp_path / "docs" / f"{name}.md").write_text(NOTES.format(name=name))
    project.declare("code", "code", tmp_path / "code")
    project.declare("docs", "markdown", tmp_path / "docs")
    project.refresh()
    return project


@pytest.mark.parametrize(
    "question", ["who calls charge?", "Where is `charge` used", "callers of card.charge"]
)
def test_who_calls_a_function_is_shown_before_what_speaks_of_it(called: Project, question: str):
    with KnowledgeBase.open(called.settings) as base:
        context = base.context(Task(question, kind="question"), max_tokens=4000)
        small = base.context(Task(question, kind="question"), max_tokens=300)
        narrowed = base.context(Task(question, filters=Filters(paths=("web.py",))), max_tokens=4000)
        documents = Filters(source_types=("markdown",))
        without_code = base.context(Task(question, filters=documents), max_tokens=4000)
    shown = [excerpt.citation.path for excerpt in context.excerpts]
    assert set(shown[:3]) == set(CALLERS) and "card.py" in shown[3:]
    assert {excerpt.citation.path for excerpt in small.excerpts} >= set(CALLERS)
    assert {excerpt.citation.path for excerpt in narrowed.excerpts} == {"web.py"}
    assert not {excerpt.citation.path for excerpt in without_code.excerpts} & {"card.py", *CALLERS}


def test_the_callers_nearest_to_a_function_come_first(project: Project, tmp_path: Path):
    caller = "from shop.pay.card import charge\n\n\ndef {name}(order):\n    charge(order.total)\n"
    own = "\n\ndef charge_twice(amount):\n    charge(amount)\n    charge(amount)\n"
    paths = ["shop/pay/card.py", "shop/pay/till.py", "shop/web.py", "bench/time.py"]
    for path in paths:
        file = tmp_path / "code" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(caller.format(name=file.stem) if path != paths[0] else CARD + own)
    project.declare("code", "code", tmp_path / "code")
    project.refresh()
    with KnowledgeBase.open(project.settings) as base:
        context = base.context(Task("who calls charge", kind="question"), max_tokens=4000)
    assert list(dict.fromkeys(excerpt.citation.path for excerpt in context.excerpts)) == paths


def test_a_name_of_several_definitions_has_the_users_of_each_and_an_unknown_one_none(called: Project):
    (called.root / "other").mkdir()
    other = "def charge(battery):\n    return battery\n\n\ndef drive(car):\n    charge(car.battery)\n"
    (called.root / "other" / "car.py").write_text(other)
    called.declare("cars", "code", called.root / "other")
    called.refresh()
    with KnowledgeBase.open(called.settings) as base:
        context = base.context(Task("who calls charge", kind="question"))
        unknown = base.context(Task("who calls nobody_knows_it", kind="question"))
    assert {excerpt.citation.path for excerpt in context.excerpts[:4]} == {*CALLERS, "car.py"}
    assert unknown.degraded == ()
