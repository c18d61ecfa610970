"""Further branches of a source: what they have in common with the main one is stored once."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from knowledge_pipeline import Filters, KnowledgeBase
from knowledge_pipeline import maintenance as purge
from knowledge_pipeline.config.sources import SourceConfig
from knowledge_pipeline.errors import NotFound
from knowledge_pipeline.extensions.publish import (
    PublishedSpace,
    _Rows,  # pyright: ignore[reportPrivateUsage]
)
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.filters import compile_filter
from knowledge_pipeline.records import is_variant_uri
from knowledge_pipeline.serve.mcp.text import render_answer
from knowledge_pipeline.sql_models.run import run_query
from knowledge_pipeline.stages import pipeline as release
from knowledge_pipeline.stages.export import iter_documents
from knowledge_pipeline.store.filters import eq
from knowledge_pipeline.store.reconcile import plan_changes
from knowledge_pipeline.store.search import Locations, read_locations
from knowledge_pipeline.store.tables import Table
from knowledge_pipeline_tests.conftest import Project, embedding_by, tables
from knowledge_pipeline_tests.connectors.repositories import Repository
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer
from knowledge_pipeline_tests.stages.test_reconciliation import Crash, crash_before_write
from knowledge_pipeline_tests.thoroughness import examples, stride

URL = "https://github.com/ann/shop.git"
PAGES = "https://github.com/ann/shop/blob/"
FILES = 6
CHANGED, DELETED, ADDED = "goods/f3.py", "goods/f4.py", "goods/new.py"


def body(name: str) -> str:
    return f"def albatross_{name}():\n    return '{name}'\n"


@pytest.fixture(scope="module")
def repository_once(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    """Six files on `main`. Of those `release/1` and `release/2` have one alike otherwise, and lack one;
    `release/2` has one more. `release/same` equals main, and nobody asks for `draft`.
    """
    repository = Repository(tmp_path_factory.mktemp("branches") / "repository")
    repository.write({f"goods/f{at}.py": body(str(at)) for at in range(FILES)}).commit()
    repository.git("branch", "release/same")
    repository.git("checkout", "-qb", "release/1")
    (repository.root / DELETED).unlink()
    repository.write({CHANGED: body("stable")}).commit()
    repository.git("checkout", "-qb", "release/2")
    repository.write({ADDED: body("new")}).commit()
    repository.git("checkout", "-qb", "draft")
    repository.write({CHANGED: body("draft")}).commit()
    repository.git("checkout", "-q", "main")
    return repository


def answer_for_url(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let git find it by the URL that sources name."""
    config = repository.root.parent / "gitconfig"
    config.write_text(f'[url "{repository.root.as_uri()}"]\n\tinsteadOf = {URL}\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))


@pytest.fixture
def repository(tmp_path: Path, repository_once: Repository, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """A copy of it."""
    repository = repository_once.copy(tmp_path / "repository")
    answer_for_url(repository, monkeypatch)
    return repository


def declare(project: Project, url: str = URL, **rest: Any) -> None:
    connection = {"type": "git", "url": url, "branch": "main"}
    project.sources["shop"] = {"id": "shop", "type": "code", "connection": connection, **rest}


@pytest.fixture(scope="module")
def shop_once(template: Project, repository_once: Repository) -> Project:
    with pytest.MonkeyPatch.context() as patch:
        answer_for_url(repository_once, patch)
        declare(template, branches=["release/*"])
        template.refresh()
    return template


@pytest.fixture
def shop(project: Project, repository: Repository, shop_once: Project) -> Project:
    """It is indexed."""
    project.copy_store(shop_once)
    return project


@pytest.fixture
def base(shop: Project) -> Iterator[KnowledgeBase]:
    """Stays open while the source and the store change."""
    with KnowledgeBase(shop.settings) as opened:
        yield opened


def index_table(project: Project) -> Table:
    ((space, dimensions),) = project.lake.list_spaces().items()
    return project.lake.index(space, dimensions)


def read_index(project: Project, **filters: Any) -> dict[str, str]:
    """Path -> text of the rows that a question may find; each file has one chunk."""
    table = index_table(project)
    where = compile_filter(Access.operator(), Filters(**filters))
    rows = table.read_rows(["path", "text"], read_locations(table).resolve(where)).to_pylist()
    found = {row["path"]: row["text"].strip() for row in rows}
    assert len(found) == len(rows)
    return found


def read_branch(repository: Repository, branch: str) -> dict[str, str]:
    """The same, of a branch itself."""
    found: dict[str, list[str]] = {}
    for line in repository.git("grep", "", branch).splitlines():  # branch:path:line, in order
        path, _, text = line.removeprefix(f"{branch}:").partition(":")
        found.setdefault(path, []).append(text)
    return {path: "\n".join(lines) for path, lines in found.items()}


def written_at(project: Project) -> dict[str, Any]:
    rows = index_table(project).read_rows(["id", "updated_at"]).to_pylist()
    return {row["id"]: row["updated_at"] for row in rows}


def search(base: KnowledgeBase, *branches: str, **rest: Any) -> dict[str, Any]:
    """Results by name of their function."""
    found = base.search("albatross", filters=Filters(branches=branches, **rest), limit=20).results
    return {each.content.partition("albatross_")[2].partition("(")[0]: each for each in found}


MAIN = {"0", "1", "2", "3", "4", "5"}


def test_who_names_no_branch_sees_the_main_one(shop: Project, base: KnowledgeBase) -> None:
    assert search(base).keys() == search(base, "main").keys() == MAIN
    assert search(base, include_archived=True).keys() == MAIN
    assert search(base, "draft") == {}
    assert base.status().rows == FILES
    with pytest.raises(NotFound):
        base.similar(path=ADDED)


def test_a_branch_is_what_it_has_in_common_and_what_differs(shop: Project, base: KnowledgeBase) -> None:
    first = MAIN - {"3", "4"} | {"stable"}
    assert search(base, "release/1").keys() == first
    assert search(base, "release/2").keys() == first | {"new"}
    assert search(base, "release/same").keys() == MAIN
    assert search(base, "release/?").keys() == first | {"new"}
    assert search(base, "*").keys() == MAIN | {"stable", "new"}
    assert search(base, "release/1", include_archived=True).keys() == first
    asked = base.search("albatross branch:release/2", limit=20).results
    assert {each.id for each in asked} == {each.id for each in search(base, "release/2").values()}


def test_a_result_says_in_which_branches_it_stands(shop: Project, base: KnowledgeBase) -> None:
    found = search(base, "*")
    said = {name: each.metadata["branches"] for name, each in found.items()}
    every = ["main", "release/1", "release/2", "release/same"]
    same = {name: every for name in MAIN - {"3", "4"}}
    on_main = {name: ["main", "release/same"] for name in ("3", "4")}
    assert said == {**same, **on_main, "stable": ["release/1", "release/2"], "new": ["release/2"]}
    pages = {name: (each.metadata["branch"], each.citation.url) for name, each in found.items()}
    assert pages["3"] == ("main", f"{PAGES}main/{CHANGED}#L1-L2")
    assert pages["stable"] == ("release/1", f"{PAGES}release/1/{CHANGED}#L1-L2")
    text = render_answer(base.search("albatross_stable branch:release/1"))
    assert "in release/1, release/2" in text and text.count("in release/") == 1
    assert not any("archived" in each.metadata or "in_branches" in each.metadata for each in found.values())
    for name in ("stable", "new"):
        [chunk] = base.get(found[name].id).results
        assert chunk.metadata["branches"] == said[name]
        assert chunk.content.strip() == body(name).strip()
        uri = found[name].span.uri
        assert is_variant_uri(uri) and base.get(f"shop:{uri}").results == (chunk,)


def test_a_text_names_the_first_of_many_branches(
    shop: Project, base: KnowledgeBase, repository: Repository
) -> None:
    for number in range(3, 8):
        repository.git("branch", f"release/{number}", "release/1")
    shop.refresh()
    text = render_answer(base.search("albatross_stable branch:release/1"))
    assert "in release/1, release/2, release/3, release/4, release/5 and 2 more" in text


def test_the_same_file_is_stored_once(shop: Project) -> None:
    rows = index_table(shop).read_rows(["path", "text_key", "archived"]).to_pylist()
    assert sorted(row["path"] for row in rows if row["archived"]) == [CHANGED, ADDED]
    assert len(rows) == FILES + 2
    ((space, dimensions),) = shop.lake.list_spaces().items()
    assert shop.lake.embeddings(space, "shop", dimensions).count_rows() == FILES + 2


def test_a_branch_like_another_writes_no_row_and_is_released(
    shop: Project, base: KnowledgeBase, repository: Repository
) -> None:
    before = written_at(shop)
    repository.git("branch", "release/3", "main")
    outcome = shop.refresh()
    assert not outcome.failures and not any(each.has_changes for each in outcome.stats)
    assert written_at(shop) == before
    assert search(base, "release/3").keys() == MAIN
    assert "release/3" in search(base)["0"].metadata["branches"]
    assert not shop.refresh().release.has_changes  # type: ignore[union-attr]


def test_a_branch_that_moves_writes_what_differs(shop: Project, repository: Repository) -> None:
    before = written_at(shop)
    repository.git("checkout", "-q", "release/2")
    repository.write({"goods/f0.py": body("moved")}).commit()
    shop.refresh()
    after = written_at(shop)
    written = {id_ for id_, at in after.items() if before.get(id_) != at}
    paths = index_table(shop).read_rows(["id", "path"]).to_pylist()
    assert [row["path"] for row in paths if row["id"] in written] == ["goods/f0.py"] * 2
    assert before.keys() <= after.keys()
    assert read_index(shop, branches=("release/2",)) == read_branch(repository, "release/2")


def test_a_branch_that_is_gone_leaves_nothing(
    shop: Project, base: KnowledgeBase, repository: Repository
) -> None:
    for name in ("release/1", "release/2", "release/same"):
        repository.git("branch", "-D", name)
    shop.refresh()
    assert search(base, "*").keys() == MAIN
    assert all(each.metadata.get("branches") is None for each in search(base).values())
    alone = Project(shop.root / "alone", shop.embedding)
    declare(alone, branches=["release/*"])
    alone.refresh()
    assert tables(shop) == tables(alone)


def test_a_source_without_branches_is_as_before(shop: Project) -> None:
    alone = Project(shop.root / "alone", shop.embedding)
    declare(alone)
    alone.refresh()
    declare(shop)
    shop.refresh()
    assert tables(shop) == tables(alone)
    assert not any("branches" in row["text"] for row in tables(shop)["notes " + index_table(shop).name])


def test_a_file_that_main_loses_stays_in_the_branches(shop: Project, repository: Repository) -> None:
    (repository.root / CHANGED).unlink()
    (repository.root / "goods/f0.py").unlink()
    repository.commit()
    shop.refresh()
    for branch in ("main", "release/1", "release/2", "release/same"):
        assert read_index(shop, branches=(branch,)) == read_branch(repository, branch)
    assert read_index(shop) == read_branch(repository, "main")


def test_a_rollback_has_the_branches_of_its_time(
    shop: Project, base: KnowledgeBase, repository: Repository
) -> None:
    repository.git("branch", "release/3", "main")
    repository.git("branch", "-D", "release/2")
    shop.refresh()
    assert search(base, "release/2") == {} and search(base, "release/3").keys() == MAIN
    release.roll_back_release(shop.lake, shop.settings, 1)
    assert "new" in search(base, "release/2") and search(base, "release/3") == {}


def test_the_code_graph_is_of_the_main_branch(shop: Project, base: KnowledgeBase) -> None:
    assert base.graph.find_usages("albatross_3").nodes
    for name, filters in (("albatross_stable", Filters()), ("albatross_3", Filters(branches=("release/1",)))):
        with pytest.raises(NotFound):
            base.graph.find_usages(name, filters=filters)
    [stable] = [each for each in search(base, "release/1").values() if "stable" in each.content]
    assert stable.graph is None


def propose(repository: Repository, files: dict[str, str], ref: str = "refs/pull/7/head") -> None:
    repository.git("checkout", "-q", "--detach", "main")
    repository.git("update-ref", ref, repository.write(dict(files)).commit())
    repository.git("checkout", "-q", "main")


@pytest.mark.parametrize(
    ("url", "head", "page"),
    [
        (URL, "pull/7", f"{PAGES}refs/pull/7/head/{CHANGED}#L1-L2"),
        (
            "https://gitlab.com/ann/shop.git",
            "merge-requests/7",
            "https://gitlab.com/ann/shop/-/merge_requests/7/diffs#L1-L2",
        ),
    ],
)
def test_the_head_of_a_pull_request_is_a_branch(
    project: Project,
    repository: Repository,
    monkeypatch: pytest.MonkeyPatch,
    url: str,
    head: str,
    page: str,
) -> None:
    rewritten = Path(os.environ["GIT_CONFIG_GLOBAL"])
    rewritten.write_text(rewritten.read_text().replace(URL, url))
    propose(repository, {CHANGED: body("proposed")}, f"refs/{head}/head")
    declare(project, url, branches=["release/1", f"{head.partition('/')[0]}/*"])
    project.refresh()
    with KnowledgeBase(project.settings) as base:
        assert search(base).keys() == MAIN
        found = search(base, head)
        assert found.keys() == MAIN - {"3"} | {"proposed"}
        assert found["proposed"].metadata["branches"] == [head]
        assert found["proposed"].metadata["branch"] == head
        assert found["proposed"].citation.url == page
        assert found["0"].metadata["branches"] == ["main", "release/1", head]
        assert f"in {head}" in render_answer(base.search(f"albatross_proposed branch:{head}"))
        repository.git("merge", "-q", "--no-ff", "-m", "merge", f"refs/{head}/head")
        project.refresh()
        assert search(base, head) == {} and "proposed" in search(base)


def test_models_read_the_branch_of_a_variant(shop: Project) -> None:
    select = "select path, branch, url, archived from raw_index where archived order by path"
    rows = run_query(shop.lake, [], select, limit=None).rows.to_pylist()
    assert [(row["path"], row["branch"], row["url"]) for row in rows] == [
        (CHANGED, "release/1", f"{PAGES}release/1/{CHANGED}"),
        (ADDED, "release/2", f"{PAGES}release/2/{ADDED}"),
    ]


def test_what_is_archived_is_told_from_variants(shop: Project, repository: Repository) -> None:
    (repository.root / "goods/f5.py").unlink()
    repository.commit()
    shop.refresh()
    exported = [each.uri for each in iter_documents(shop.lake, shop.settings, "shop", include_archived=True)]
    assert sorted(exported) == [f"goods/f{at}.py" for at in range(FILES)]
    assert purge.purge_documents(shop.lake, shop.settings, "shop") == 1
    assert read_index(shop, branches=("release/2",)) == read_branch(repository, "release/2")
    snapshot = shop.lake.snapshot("code", "shop").read_rows(["uri"]).to_pydict()["uri"]
    assert sum(map(is_variant_uri, snapshot)) == 3


def test_the_default_branch_is_called_head(project: Project, repository: Repository) -> None:
    declare(project, branches=["release/1"])
    del project.sources["shop"]["connection"]["branch"]
    project.refresh()
    with KnowledgeBase(project.settings) as base:
        assert search(base)["0"].metadata["branches"] == ["HEAD", "release/1"]
        assert search(base, "HEAD").keys() == MAIN
        assert search(base, "release/1")["stable"].citation.url == f"{PAGES}release/1/{CHANGED}#L1-L2"


NAMES = ("main", "one", "two", "three")
PATHS = ("a.py", "b.py", "100%.py")
PULLS = ("pull/1", "pull/2")
ACTIONS = (
    *("write", "write", "write", "delete", "branch", "drop", "refresh", "refresh", "crash", "patterns"),
    *("propose", "propose", "merge", "close"),
)
Step = tuple[str, str, str, int]
STEPS: st.SearchStrategy[list[Step]] = st.lists(
    st.tuples(
        st.sampled_from(ACTIONS),
        st.sampled_from(NAMES),
        st.sampled_from(PATHS),
        st.integers(1, 9),
    ),
    min_size=6,
    max_size=16,
)
MOVES: list[Step] = [  # what a branch lacks and has moves, in each direction
    ("write", "one", "a.py", 1),
    ("refresh", "", "", 1),
    ("write", "main", "a.py", 2),
    ("refresh", "", "", 1),
    ("write", "two", "a.py", 1),
    ("delete", "two", "stays.py", 1),
    ("refresh", "", "", 1),
    ("write", "main", "b.py", 1),
    ("refresh", "", "", 1),
    ("drop", "two", "", 1),
    ("refresh", "", "", 1),
    ("write", "main", "a.py", 1),
]
PROPOSALS: list[Step] = [  # a head is pushed to, and main beside it; then it is merged, another one closed
    ("propose", "main", "a.py", 1),
    ("propose", "main", "b.py", 2),
    ("refresh", "", "", 1),
    ("propose", "pull/1", "a.py", 3),
    ("refresh", "", "", 1),
    ("write", "main", "stays.py", 2),
    ("refresh", "", "", 1),
    ("merge", "", "", 1),
    ("refresh", "", "", 1),
    ("close", "", "", 2),
    ("refresh", "", "", 1),
    ("propose", "one", "a.py", 2),
    ("patterns", "", "", 3),
    ("refresh", "", "", 1),
]


def take(step: Step, project: Project, repository: Repository) -> None:
    """Carry one step of a history out: branches are made, moved, changed and deleted."""
    action, name, path, number = step
    existing = repository.git("branch", "--format=%(refname:short)").splitlines()
    match action:
        case "write" | "delete":
            repository.git("checkout", "-q", *([] if name in existing else ["-b"]), name)
            if action == "write":
                repository.write({path: body(f"{number % 4}")})
            else:
                (repository.root / path).unlink(missing_ok=True)
            repository.commit()
        case "branch" if name != "main":
            repository.git("checkout", "-q", "main")
            repository.git("branch", "-f", name, existing[number % len(existing)])
        case "drop" if name in existing and name != "main":
            repository.git("checkout", "-q", "main")
            repository.git("branch", "-D", name)
        case "patterns":
            patterns = ([], ["t*", "pull/2"], ["*"], ["one", "three", "pull/*"])[number % 4]
            declare(project, repository.root.as_uri(), branches=patterns)
        case "propose" | "merge" | "close":
            take_of_pull(action, PULLS[number % 2], name, {path: body(f"{number % 4}")}, repository)
        case "refresh":
            refresh_and_compare(project, repository)
        case "crash":
            with suppress(Crash), crash_before_write(number):
                project.refresh(allow_empty=True)
        case _:
            pass


def take_of_pull(action: str, pull: str, base: str, files: dict[str, str], repository: Repository) -> None:
    """Open a pull request on a branch, or push to it; merge it into main; or close it."""
    head = f"refs/{pull}/head"
    exists = bool(repository.git("for-each-ref", head))
    repository.git("checkout", "-q", "main")
    if action == "propose":
        on_branch = bool(repository.git("for-each-ref", f"refs/heads/{base}"))
        repository.git("checkout", "-q", "--detach", base if on_branch else head if exists else "main")
        repository.git("update-ref", head, repository.write(dict(files)).commit())
        repository.git("checkout", "-q", "main")
    elif action == "merge" and exists:
        parents = ["-p", "main", "-p", head]
        merged = repository.git("commit-tree", f"{head}^{{tree}}", *parents, "-m", "merge")
        repository.git("reset", "-q", "--hard", merged)
    elif action == "close" and exists:
        repository.git("update-ref", "-d", head)


def is_open(repository: Repository, pull: str) -> bool:
    """Whether it has a head with commits that main has not."""
    head = f"refs/{pull}/head"
    return bool(repository.git("for-each-ref", head)) and bool(repository.git("log", f"main..{head}"))


def refresh_and_compare(project: Project, repository: Repository) -> None:
    """What is found in each branch is what git has there, and nothing in those that are not read."""
    assert not project.refresh(allow_empty=True).failures
    patterns = [pattern.removesuffix("*") for pattern in project.sources["shop"]["branches"]]
    for pull in PULLS:
        is_read = any(each and pull.startswith(each) for each in patterns) and is_open(repository, pull)
        expected = read_branch(repository, f"{pull}/head") if is_read else {}
        assert read_index(project, branches=(pull,)) == expected, pull
    names = repository.git("branch", "--format=%(refname:short)").splitlines()
    main = read_branch(repository, "main")
    for name in NAMES:
        is_read = name in names and (name == "main" or name.startswith(tuple(patterns)))
        expected = main if name == "main" else read_branch(repository, name) if is_read else {}
        assert read_index(project, branches=(name,)) == expected, name
    assert read_index(project) == main
    files = project.lake.graph_table("symbols").read_rows(["path"], eq("kind", "file")).to_pydict()["path"]
    assert sorted(files) == sorted(main)


def each_branch_is_what_git_has(embedding_server: OpenAIServer, steps: list[Step]) -> None:
    with tempfile.TemporaryDirectory() as root:
        repository = Repository(Path(root) / "repository")
        repository.write({"stays.py": body("stays")}).commit()
        project = Project(Path(root), embedding_by(embedding_server))
        declare(project, repository.root.as_uri(), branches=["*", "pull/*"])
        for step in steps:
            take(step, project, repository)
        refresh_and_compare(project, repository)
        held = tables(project)
        project.refresh(allow_empty=True, full=True)
        assert tables(project) == held, "a full reindex changed what an incremental refresh had left"
        fresh = Project(Path(root) / "fresh", project.embedding)
        fresh.sources = project.sources
        fresh.refresh(allow_empty=True)
        assert _leave_out_archived(held) == _leave_out_archived(tables(fresh))


@settings(max_examples=examples(40, few=3), deadline=None, suppress_health_check=list(HealthCheck))
@given(STEPS)
def test_after_any_history_each_branch_is_what_git_has(
    embedding_server: OpenAIServer, steps: list[Step]
) -> None:
    each_branch_is_what_git_has(embedding_server, steps)


@pytest.mark.parametrize("steps", [MOVES, PROPOSALS], ids=["branches", "pull requests"])
def test_what_a_branch_lacks_and_has_follows_it(embedding_server: OpenAIServer, steps: list[Step]) -> None:
    each_branch_is_what_git_has(embedding_server, steps)


def _leave_out_archived(held: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """Without what the main branch once had; variants stay."""
    return {
        name: [
            row
            for row in rows
            if is_variant_uri(row.get("uri", "")) or not (row.get("archived") or row.get("archived_at"))
        ]
        for name, rows in held.items()
    }


def test_a_crash_before_each_single_write_is_healed(
    project: Project, repository: Repository, tmp_path: Path
) -> None:
    calm = Project(tmp_path / "calm", project.embedding)
    declare(calm, branches=["release/*"])
    calm.refresh()
    crashes = 0
    for write in range(1, 60, stride(3)):
        hit = Project(tmp_path / f"hit{write}", project.embedding)
        declare(hit, branches=["release/*"])
        try:
            with crash_before_write(write):
                hit.refresh()
        except Crash:
            crashes += 1
            hit.refresh()
            assert tables(hit) == tables(calm)
        else:
            break
    assert crashes >= 5, crashes


def test_a_variant_is_seen_by_those_who_see_the_source(project: Project, repository: Repository) -> None:
    access = {"visibility": "private", "tenant": "acme", "principals": ["ann"]}
    propose(repository, {"goods/pull.py": body("pull")})
    declare(project, branches=["*", "pull/*"], access=access)
    project.refresh()
    ann, bob = Access("acme", frozenset({"ann"})), Access("acme", frozenset({"bob"}))
    with KnowledgeBase(project.settings) as base:
        filters = Filters(branches=("*",), include_archived=True)
        found = base.search("albatross", filters=filters, limit=20, access=ann).results
        assert {each.citation.path for each in found} >= {ADDED, CHANGED, "goods/pull.py"} and len(
            found
        ) == FILES + 4
        for other in (bob, Access.public(), Access("other", frozenset({"ann"}))):
            assert not base.search("albatross", filters=filters, access=other).results
            with pytest.raises(NotFound):
                base.get(found[-1].id, access=other)


RESERVED = ["in-branch", "in-branch:evil", "not-in-branch:release/1", "not-in-branch"]


def test_the_tags_of_a_document_say_nothing_of_branches(
    shop: Project, repository: Repository, tmp_path: Path, base: KnowledgeBase
) -> None:
    """A note that calls itself a variant: `sql` and `publish` end for nobody, and it hides from no branch."""
    notes = tmp_path / "notes"
    notes.mkdir()
    matter = "\n".join(f"  - {tag!r}" for tag in [*RESERVED, "plain"])
    (notes / "a.md").write_text(f"---\ntags:\n{matter}\n---\n# Plan\n\nAlbatross plan of the shop.\n")
    shop.declare("notes", "markdown", notes)
    repository.write({"docs/b.md": f"---\ntags:\n{matter}\n---\n# Hidden\n\nAlbatross b.\n"}).commit()
    connection = {"type": "git", "url": URL, "branch": "main"}
    shop.sources["docs"] = {
        "id": "docs", "type": "markdown", "connection": connection, "branches": ["release/*"],
    }  # fmt: skip
    shop.refresh()
    rows = run_query(shop.lake, [], "select path, tags, branch from raw_index", limit=None).rows.to_pylist()
    tags = {row["path"]: row["tags"] for row in rows}
    assert tags["a.md"] == ["plain"]
    assert set(tags["docs/b.md"]) & set(RESERVED) <= {"not-in-branch:release/1"}  # which git says
    chunks = shop.lake.chunks("markdown", "notes").read_rows(["metadata"])["metadata"].to_pylist()
    assert all("is one of branches" in chunk for chunk in chunks)
    table = index_table(shop)
    space = PublishedSpace(table.name, shop.lake.list_spaces()[table.name])
    published = _Rows(shop.lake, space, table.version, ())
    written = pa.Table.from_batches(list(published.iter_batches(plan_changes(published.load_marks(), {}))))
    assert len(written) == table.count_rows()


def test_rows_that_an_earlier_program_wrote_of_such_a_document_are_read(shop: Project) -> None:
    table = index_table(shop)
    locations = read_locations(table)
    names = {"source": ["shop", "other"], "path": ["goods/f1.py", "x.md"], "tags": [["in-branch"]] * 2}
    forged = pa.table(names | {"branch": pa.array([None, None], pa.string())})
    assert locations.fill_columns(forged)["branch"].to_pylist() == ["main", None]
    unbranched = Locations({"location/other": '["main", null]'})
    forged = forged.set_column(2, "tags", pa.array([["in-branch", "in-branch:evil"]] * 2))
    assert unbranched.fill_columns(forged)["branch"].to_pylist() == [None, "main"]


def test_the_configuration_has_no_tag_of_branches() -> None:
    keys = {"id": "a", "type": "markdown", "connection": {"type": "local", "path": "."}}
    with pytest.raises(ValueError, match="'in-branch:x' is one of branches"):
        SourceConfig.model_validate(keys | {"metadata": {"tags": ["in-branch:x"]}})
