"""The overlay of a working tree: equal to an index of that tree, sharing the rest, and gone with the tree."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from knowledge_pipeline import KnowledgeBase
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.errors import SourceRefused
from knowledge_pipeline.stages import overlay as overlays
from knowledge_pipeline.stages import pipeline
from knowledge_pipeline.stages.context import RefreshOptions
from knowledge_pipeline.stages.overlay import Overlay, SourceTree, find_source_tree, refresh_overlay
from knowledge_pipeline.store.filters import eq
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.release import find_live_release
from knowledge_pipeline_tests.conftest import Project, embedding_by, tables
from knowledge_pipeline_tests.connectors.repositories import Repository
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer
from knowledge_pipeline_tests.stages.test_reconciliation import Crash, crash_before_write
from knowledge_pipeline_tests.thoroughness import examples

FILES = {
    "shop/cart.py": "from shop.price import total\n\n\ndef checkout(cart):\n    return total(cart)\n",
    "shop/price.py": "def total(cart):\n    return sum(cart)\n",
    "shop/__init__.py": "",
    "docs/guide.md": "# Guide\n\nHow a cart is paid for.\n",
    "shop/stays.py": "def stays():\n    return 1\n",
}
NAMES = [*FILES, "shop/new.py", "odd 'name\".py"]
BODIES = [
    *FILES.values(),
    "def total(cart, tax):\n    return sum(cart) * tax\n",
    "def renamed(cart):\n    return 1\n\n\nclass Cart:\n    def pay(self):\n        return renamed([])\n",
    "from shop.price import total, renamed\n\n\ndef other():\n    return renamed([total([])])\n",
]


class Shop:
    """A repository that is indexed, with a second working tree."""

    def __init__(self, root: Path, server: OpenAIServer) -> None:
        self.main = Repository(root / "main").write(FILES)
        self.main.commit()
        self.project = Project(root, embedding_by(server))
        self.project.declare("code", "code", self.main.root)
        self.project.declare("docs", "markdown", self.main.root / "docs")
        self.project.refresh()
        self.second = Repository.__new__(Repository)
        self.second.root, self.second.clock = root / "second", self.main.clock
        self.main.git("worktree", "add", "-q", str(self.second.root))

    def find_tree(self, folder: Path | None = None) -> SourceTree:
        tree = find_source_tree(self.project.settings, folder or self.second.root)
        assert tree
        return tree

    def refresh(self, folder: Path | None = None, **options: Any) -> Overlay:
        return refresh_overlay(self.project.lake, self.find_tree(folder), **options)

    def read(self, overlay: Overlay) -> dict[str, list[dict[str, Any]]]:
        return read_tables(overlay.lake, self.find_tree().settings)

    def index_whole(self, tree: SourceTree, root: Path) -> dict[str, list[dict[str, Any]]]:
        """What an index of that tree alone has."""
        lake = Lake(root)
        options = RefreshOptions(allow_empty=True)
        assert not pipeline.refresh(lake, tree.settings, tree.sources, options).failures
        return read_tables(lake, tree.settings)

    @property
    def folder(self) -> Path:
        """Where overlays are."""
        return self.project.lake.cache / "overlays"


class _Stored(Project):
    """A store with settings that no project has."""

    def __init__(self, lake: Lake, settings: Settings) -> None:
        self.lake, self._settings = lake, settings

    @property
    def settings(self) -> Settings:
        return self._settings


def read_tables(lake: Lake, settings: Settings) -> dict[str, list[dict[str, Any]]]:
    """All live rows; of documents without their revisions, which say where a file was read."""
    held = tables(_Stored(lake, settings), archived=False)
    for name, rows in held.items():
        for row in rows if name.startswith("snapshot") else ():
            del row["revision"]
    return held


@pytest.fixture
def shop(tmp_path: Path, embedding_server: OpenAIServer) -> Shop:
    return Shop(tmp_path, embedding_server)


Step = tuple[str, object, object]
EDITS = st.one_of(
    st.tuples(st.just("write"), st.sampled_from(NAMES), st.sampled_from(BODIES)),
    st.tuples(st.just("delete"), st.sampled_from(NAMES), st.none()),
    st.tuples(st.just("rename"), st.sampled_from(NAMES), st.sampled_from(NAMES)),
    st.tuples(st.just("commit"), st.none(), st.none()),
    st.tuples(st.just("touch"), st.sampled_from(NAMES), st.none()),
)
STEPS = st.lists(
    st.one_of(
        EDITS,
        EDITS,
        st.tuples(st.just("in main"), EDITS, st.none()),
        st.tuples(st.just("release main"), st.none(), st.none()),
        st.tuples(st.just("configure"), st.sampled_from([{}, {"chunking": {"max_tokens": 40}}]), st.none()),
        st.tuples(st.just("overlay"), st.none(), st.none()),
        st.tuples(st.just("crash"), st.integers(1, 12), st.none()),
    ),
    min_size=1,
    max_size=8,
)


def edit(step: Any, repository: Repository) -> None:
    action, first, second = step
    path = repository.root / str(first)
    match action:
        case "write":
            repository.write({str(first): str(second)})
        case "touch" if path.exists():
            path.touch()
        case "delete":
            path.unlink(missing_ok=True)
        case "rename" if path.exists():
            (repository.root / str(second)).parent.mkdir(parents=True, exist_ok=True)
            path.rename(repository.root / str(second))
        case "commit":
            repository.git("add", "-A")
            repository.clock += 3600
            date = f"{repository.clock} +0000"
            dates = {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
            repository.git("commit", "-q", "--allow-empty", "-m", "change", **dates)
        case _:
            pass


def take(step: Step, shop: Shop) -> None:
    match step[0]:
        case "in main":
            edit(step[1], shop.main)
        case "release main":
            shop.project.refresh(allow_empty=True)
        case "configure":
            shop.project.declare("code", "code", shop.main.root, **step[1])  # type: ignore[arg-type]
            shop.project.refresh(allow_empty=True)
        case "overlay":
            shop.refresh(is_bounded=False)
        case "crash":
            try:
                with crash_before_write(int(str(step[1]))):
                    shop.refresh(is_bounded=False)
            except Crash:
                pass
        case _:
            edit(step, shop.second)


@settings(max_examples=examples(15), deadline=None, suppress_health_check=list(HealthCheck))
@given(STEPS)
def test_an_overlay_equals_an_index_of_its_tree(embedding_server: OpenAIServer, steps: list[Step]) -> None:
    ends_as_an_index_of_the_tree_does(steps, embedding_server)


def ends_as_an_index_of_the_tree_does(steps: list[Step], server: OpenAIServer) -> None:
    with tempfile.TemporaryDirectory() as root:
        shop = Shop(Path(root), server)
        for step in steps:
            take(step, shop)
        before, stamps = tables(shop.project), shop.project.lake.all_version_stamps()
        overlay = shop.refresh(is_bounded=False)
        assert (tables(shop.project), shop.project.lake.all_version_stamps()) == (before, stamps)
        assert (again := shop.refresh(is_bounded=False)).lake == overlay.lake
        assert again.stats == ()
        assert shop.read(overlay) == shop.index_whole(shop.find_tree(), Path(root) / "whole")


def find(shop: Shop, text: str, folder: Path | None = None) -> set[str]:
    """Paths of what is found from a folder; by the store itself where there is none."""
    tree = shop.find_tree(folder) if folder else None
    lake = refresh_overlay(shop.project.lake, tree).lake if tree else shop.project.lake
    chosen = tree.settings if tree else shop.project.settings
    with KnowledgeBase(chosen, choose_lake=lambda: lake) as base:
        response = base.search(text, mode="words")
        return {result.citation.path for result in response.results}


def test_a_question_sees_the_tree_it_is_asked_from(shop: Shop) -> None:
    shop.second.write({"shop/price.py": "def albatross(cart):\n    return 1\n"})
    shop.main.write({"shop/cart.py": "def pelican(cart):\n    return 1\n"})
    assert find(shop, "albatross", shop.second.root) == {"shop/price.py"}
    assert find(shop, "pelican", shop.main.root) == {"shop/cart.py"}, "a dirty tree is one, too"
    assert find(shop, "pelican", shop.second.root) == find(shop, "albatross", shop.main.root) == set()
    assert find(shop, "albatross pelican") == set()


def test_a_tree_without_changes_costs_nothing(shop: Shop) -> None:
    overlay = shop.refresh()
    assert overlay.lake == shop.project.lake
    assert not list(shop.folder.glob("*"))


def test_a_touched_tree_is_as_released(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in (shop.main.root, shop.second.root):
        (shop.main.root / "shop/price.py").touch()
        assert shop.refresh(folder).lake == shop.project.lake
        assert not list(shop.folder.glob("*"))
        with monkeypatch.context() as forbidden:
            forbidden.setattr(overlays, "link_release", None)  # which begins an overlay
            assert shop.refresh(folder).lake == shop.project.lake
    shop.main.write({"shop/price.py": "def albatross(cart):\n    return 1\n"})
    assert find(shop, "albatross", shop.main.root) == {"shop/price.py"}
    assert find(shop, "albatross", shop.second.root) == set()


def test_it_reads_what_differs_and_shares_the_rest(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    big = {f"shop/m{at}.py": f"def f{at}():\n    return {at}\n" * 200 for at in range(60)}
    shop.main.write(big).commit()
    shop.project.refresh()
    shop.second.git("merge", "-q", "--ff-only", "main")
    shop.second.write({"shop/m7.py": "def seven():\n    return 7\n"})
    overlay = shop.refresh()
    live = find_live_release(overlay.lake)
    assert live
    assert (overlay.documents, live.unembedded) == (1, 1), "no endpoint is asked while a question waits"
    own = {path: path.stat() for path in shop.folder.rglob("*") if path.is_file()}
    unshared = sum(stat.st_size for stat in own.values() if stat.st_nlink == 1)
    shared = sum(stat.st_size for stat in own.values() if stat.st_nlink > 1)
    assert unshared < shared / 4
    assert shop.refresh().stats == ()
    shop.second.git("checkout", "--", ".")
    assert shop.refresh().lake == shop.project.lake
    assert not list(shop.folder.glob("*"))


def test_nothing_is_left_of_a_tree_that_is_gone(shop: Shop) -> None:
    shop.second.write({"shop/price.py": "def albatross(cart):\n    return 1\n"})
    before = set(shop.project.lake.root.rglob("*"))
    assert shop.refresh().lake != shop.project.lake
    tree = shop.find_tree()
    shop.main.git("worktree", "remove", "--force", str(shop.second.root))
    with pytest.raises(SourceRefused, match="there is no working tree"):
        refresh_overlay(shop.project.lake, tree)
    shop.refresh(shop.main.root)
    assert {*shop.project.lake.root.rglob("*")} - before == {shop.folder}
    assert not list(shop.folder.glob("*"))


def test_another_release_is_seen_through_the_overlay(shop: Shop, tmp_path: Path) -> None:
    shop.second.write({"shop/price.py": "def albatross(cart):\n    return 1\n"})
    first = shop.refresh().lake
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "heron.md").write_text("# Heron\n\nA bird.\n")
    shop.project.declare("notes", "markdown", tmp_path / "notes")
    shop.project.refresh()
    assert find(shop, "heron", shop.second.root) == {"heron.md"}
    assert find(shop, "albatross", shop.second.root) == {"shop/price.py"}
    assert shop.refresh().lake != first


def test_much_that_differs_is_left_to_a_refresh(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlays, "MAX_DOCUMENTS", 1)
    shop.second.write({f"shop/{at}.py": "x = 1\n" for at in range(3)})
    with pytest.raises(SourceRefused, match="a question waits for 1 at most"):
        shop.refresh()
    assert shop.refresh(is_bounded=False).documents == 3


@pytest.mark.parametrize("break_it", [shutil.rmtree, lambda path: None])
def test_folders_that_concern_no_source_have_no_tree(
    shop: Shop, tmp_path: Path, break_it: Callable[[Path], Any]
) -> None:
    other = Repository(tmp_path / "other").write({"a.py": "x = 1\n"})
    break_it(other.root / ".git")
    assert find_source_tree(shop.project.settings, other.root) is None


def test_rows_of_a_tree_have_the_readers_of_their_source(shop: Shop) -> None:
    shop.project.sources["code"] |= {"access": {"visibility": "tenant", "tenant": "acme"}}
    shop.project.refresh()
    shop.second.write({"shop/price.py": "def albatross(cart):\n    return 1\n"})
    lake = shop.refresh().lake
    (space,) = lake.list_spaces().items()
    rows = lake.index(*space).read_rows(["tenant", "visibility"], eq("source", "code")).to_pylist()
    assert {(row["tenant"], row["visibility"]) for row in rows} == {("acme", "tenant")}


def test_permissions_of_a_service_say_nothing_of_a_tree(shop: Shop) -> None:
    code, docs = shop.project.settings.sources
    access = code.access.model_copy(update={"visibility": "from_source"})
    closed = code.model_copy(update={"access": access})
    tree = find_source_tree(
        shop.project.settings.model_copy(update={"sources": (closed, docs)}), shop.second.root
    )
    assert tree
    assert [source.id for source in tree.sources] == ["docs"]
