"""What code results tell of the code around them: real files in, answers out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from knowledge_pipeline import Access, KnowledgeBase
from knowledge_pipeline.contract.responses import CodeNeighbour, CodeNeighbours, SearchResponse
from knowledge_pipeline.stages.pipeline import roll_back_release
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline_tests.conftest import Project
from knowledge_pipeline_tests.query.search.rows import publish, row, write

STORE = '''\
"""Where the ledger is kept."""

import json
from collections.abc import Mapping

from ledger.check import require_balance, unused


class Ledger:
    """Rows of the ledger."""

    def __init__(self, rows: Mapping[str, int]) -> None:
        self.rows = rows

    def write_ledger(self, path: str) -> None:
        """Write the ledger to a file, balanced."""
        require_balance(self.rows)
        with open(path, "w") as file:
            json.dump(self.total_of_rows(), file)

    def total_of_rows(self) -> int:
        return sum(self.rows.values())


class PaperLedger(Ledger):
    """Prints the ledger on paper, page for page."""

    def write_ledger(self, path: str) -> None:
        print(path)
'''
CHECK = """\
def require_balance(rows):
    assert sum(rows.values()) == 0


def unused():
    pass
"""
APP = """\
from ledger import Ledger


def settle_accounts(rows):
    ledger = Ledger(rows)
    ledger.write_ledger("out.json")
    return ledger.write_ledger("again.json")
"""
SECRET = """\
from ledger import Ledger


def bribe_officials(rows):
    Ledger(rows).write_ledger("hidden.json")
"""
QUESTION = "write the ledger to a file, balanced"


@pytest.fixture(scope="module")
def code_once(template: Project) -> Project:
    """A library, a program of the same source, and two sources that use the library: one is hidden."""
    library = template.root / "library"
    (library / "ledger").mkdir(parents=True)
    (library / "ledger" / "__init__.py").write_text("from ledger.store import Ledger\n")
    (library / "ledger" / "store.py").write_text(STORE)
    (library / "ledger" / "check.py").write_text(CHECK)
    (library / "app.py").write_text(APP)
    for name, text in (("other", APP.replace("settle_accounts", "settle_elsewhere")), ("hidden", SECRET)):
        (template.root / name).mkdir()
        (template.root / name / f"{name}.py").write_text(text)
    method = {"chunking": {"strategy": "ast_aware", "granularity": "method", "min_tokens": 0}}
    template.declare("lib", "code", library, **method)
    template.declare("other", "code", template.root / "other")
    hidden = {"visibility": "private", "tenant": "red", "principals": ["ann"]}
    template.declare("hidden", "code", template.root / "hidden", access=hidden)
    template.refresh()
    return template


@pytest.fixture
def code(project: Project, code_once: Project) -> Project:
    """A copy of it."""
    project.copy_all(code_once)
    return project


@pytest.fixture
def ledger(code: Project) -> Iterator[KnowledgeBase]:
    with KnowledgeBase.open(code.settings) as base:
        yield base


def around(answer: SearchResponse, symbol: str) -> CodeNeighbours:
    """What the result that defines a symbol has to do with."""
    (found,) = [each for each in answer.results if each.metadata.get("symbol") == symbol]
    return found.graph or CodeNeighbours()


def names(found: tuple[CodeNeighbour, ...]) -> list[str]:
    return [each.name for each in found]


def test_a_method_tells_what_it_calls_what_calls_it_and_what_its_file_imports(ledger: KnowledgeBase):
    found = around(ledger.search(QUESTION, type="code"), "Ledger.write_ledger")
    assert [(each.name, each.path, each.line) for each in found.calls] == [
        ("require_balance", "ledger/check.py", 1),
        ("Ledger.total_of_rows", "ledger/store.py", 21),
        ("json.dump", None, None),
    ]
    assert found.calls[0].signature.startswith("def require_balance(rows)")
    assert [(each.source, each.name, each.path, each.line) for each in found.called_by] == [
        ("lib", "settle_accounts", "app.py", 6),
        ("hidden", "bribe_officials", "hidden.py", 5),
        ("other", "settle_elsewhere", "other.py", 6),
    ]
    assert names(found.imports) == ["json", "require_balance", "collections.abc.Mapping", "unused"]
    assert found.omitted == {}


def test_a_class_tells_what_it_extends_and_what_extends_it(ledger: KnowledgeBase):
    answer = ledger.search("the ledger: rows of the ledger, prints on paper page for page", type="code")
    graphs = [each.graph for each in answer.results if each.graph]
    assert ["Ledger"] in [names(each.extends) for each in graphs]
    assert ["PaperLedger"] in [names(each.implemented_by) for each in graphs]


def test_who_makes_an_object_calls_its_constructor(ledger: KnowledgeBase):
    found = around(ledger.search("Ledger.__init__ self.rows = rows", type="code"), "Ledger.__init__")
    assert {"settle_accounts", "settle_elsewhere"} <= set(names(found.called_by))


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("who", "sees"),
    [
        (Access.public(), False),
        (Access("blue", frozenset({"ann"})), False),
        (Access("red", frozenset({"bob"})), False),
        (Access("red", frozenset({"ann"})), True),
    ],
)
def test_callers_in_a_hidden_source_are_neither_named_nor_counted(
    ledger: KnowledgeBase, who: Access, sees: bool
):
    answer = ledger.search(QUESTION, type="code", access=who)
    found = around(answer, "Ledger.write_ledger")
    assert ("bribe_officials" in names(found.called_by)) == sees
    assert len(found.called_by) == 2 + sees and not found.omitted
    assert ("bribe" in json.dumps(answer.as_json())) == sees


@pytest.mark.slow
def test_a_hidden_library_leaves_the_names_that_its_users_write(code: Project):
    hidden = {"visibility": "private", "tenant": "red", "principals": ["ann"]}
    code.declare("lib", "code", Path(code.sources["lib"]["connection"]["path"]), access=hidden)
    code.refresh()
    with KnowledgeBase.open(code.settings, access=Access.public()) as base:
        found = around(base.search("settle elsewhere", type="code"), "settle_elsewhere")
    assert [(each.path, each.line, each.signature) for each in found.calls] == [(None, None, "")] * 2


@pytest.mark.slow
def test_code_found_by_meaning_is_told_of_too_and_other_searches_are_not(ledger: KnowledgeBase):
    assert any(each.graph for each in ledger.search(QUESTION).results)
    assert not any(each.graph for each in ledger.similar(path="ledger/store.py").results)


@pytest.mark.slow
def test_only_the_best_are_told_of_and_json_leaves_the_others_without(ledger: KnowledgeBase):
    answer = ledger.search("ledger rows path write total balance settle", type="code", limit=20)
    assert len(answer.results) > 5
    assert not any(each.graph for each in answer.results[5:])
    results = answer.as_json()["results"]
    assert results[0]["graph"]["calls"] is not None and "graph" not in results[-1]
    assert answer.timings_ms["enrich"] > 0


def test_there_are_a_few_of_each_kind_and_it_says_how_many_more(project: Project, tmp_path: Path):
    folder = tmp_path / "many"
    folder.mkdir()
    (folder / "one.py").write_text("def popular_thing():\n    return 1\n")
    for number in range(9):
        text = f"from one import popular_thing\n\n\ndef user_{number}():\n    return popular_thing()\n"
        (folder / f"user_{number}.py").write_text(text)
    project.declare("many", "code", folder)
    project.refresh()
    with KnowledgeBase.open(project.settings) as base:
        found = around(base.search("def popular_thing return 1", type="code"), "popular_thing")
    assert len(found.called_by) == 5 and found.omitted == {"called_by": 4}


def test_it_can_be_switched_off(code: Project):
    settings = code.settings
    query = settings.query.model_copy(
        update={"graph": settings.query.graph.model_copy(update={"enrich": False})}
    )
    with KnowledgeBase.open(settings.model_copy(update={"query": query})) as base:
        answer = base.search(QUESTION, type="code")
    assert not any(each.graph for each in answer.results) and "enrich" not in answer.timings_ms


def test_a_release_without_code_graph_is_degraded_where_there_is_code(
    base: KnowledgeBase, lake: Lake, space: str
):
    text = row("alpha beta", "notes.md", source="notes", source_type="markdown", language="markdown")
    write(lake, space, [text])
    publish(lake, graph=False)
    assert base.search("alpha").degraded == ()
    write(lake, space, [row("def alpha(): pass")])
    publish(lake, graph=False)
    answer = base.search("alpha", explain=True)
    assert answer.degraded == ("graph",) and len(answer.results) == 2
    assert answer.explain and "knowledge refresh" in answer.explain["degraded"]["graph"]


def test_a_code_graph_that_cannot_be_opened_leaves_the_results(code: Project):
    (code.lake.root / "graph" / "edges.lance").rename(code.lake.root / "graph" / "gone.lance")
    with KnowledgeBase.open(code.settings) as base:
        answer = base.search(QUESTION, type="code")
    assert answer.degraded == ("graph",) and answer.results


@pytest.mark.slow
def test_results_and_what_goes_with_them_are_of_one_release(code: Project, ledger: KnowledgeBase):
    before = around(ledger.search(QUESTION, type="code"), "Ledger.write_ledger")
    app = Path(code.sources["lib"]["connection"]["path"]) / "app.py"
    app.write_text(APP.replace("settle_accounts", "settle_everything"))
    code.refresh()
    after = ledger.search(QUESTION, type="code")
    assert (after.release, names(around(after, "Ledger.write_ledger").called_by)[0]) == (
        2,
        "settle_everything",
    )
    roll_back_release(code.lake, code.settings, 1)
    again = ledger.search(QUESTION, type="code")
    assert again.release == 3 and around(again, "Ledger.write_ledger") == before


def test_a_question_to_the_graph_opens_no_vectors(code: Project):
    with KnowledgeBase.open(code.settings) as base:
        base.graph.find_usages("Ledger.write_ledger")
        (code.lake.root / "index").rename(code.lake.root / "gone")
        assert base.graph.find_usages("Ledger.write_ledger").matches


def test_what_is_kept_for_one_caller_is_not_shown_to_another(ledger: KnowledgeBase):
    ann = Access("red", frozenset({"ann"}))
    for _ in range(2):
        told = ledger.search(QUESTION, type="code", access=ann)
        assert "bribe_officials" in names(around(told, "Ledger.write_ledger").called_by)
        public = ledger.search(QUESTION, type="code", access=Access.public())
        assert "bribe_officials" not in names(around(public, "Ledger.write_ledger").called_by)


def test_neighbours_are_those_of_the_release_that_answers(
    code: Project, ledger: KnowledgeBase, tmp_path: Path
):
    before = names(around(ledger.search(QUESTION, type="code"), "Ledger.write_ledger").called_by)
    (tmp_path / "other" / "other.py").write_text(APP.replace("settle_accounts", "settle_anew"))
    code.refresh()
    after = names(around(ledger.search(QUESTION, type="code"), "Ledger.write_ledger").called_by)
    assert ("settle_elsewhere" in before, "settle_anew" in before) == (True, False)
    assert ("settle_elsewhere" in after, "settle_anew" in after) == (False, True)


def test_two_files_of_one_path_have_neighbours_of_their_own(
    code: Project, ledger: KnowledgeBase, tmp_path: Path
):
    twin = tmp_path / "twin"
    (twin / "ledger").mkdir(parents=True)
    other = STORE.replace(
        "require_balance(self.rows)", "sign(self, reason='the twin signs what it writes down')"
    )
    (twin / "ledger" / "store.py").write_text(other)
    code.declare(
        "twin", "code", twin, chunking={"strategy": "ast_aware", "granularity": "method", "min_tokens": 0}
    )
    code.refresh()
    answers = ledger.search(QUESTION, type="code", limit=20).results
    calls = {
        each.citation.source: names(each.graph.calls)
        for each in answers
        if each.graph and each.metadata.get("symbol") == "Ledger.write_ledger"
    }
    assert calls["lib"][0] == "require_balance" and calls["twin"][0] == "Ledger.total_of_rows"
