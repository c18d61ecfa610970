"""Files of the store that are zeroed, cut or removed: searches do without, and one command mends."""

from __future__ import annotations

import copy
import shutil
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from knowledge_pipeline import maintenance
from knowledge_pipeline.contract.filters import Filters
from knowledge_pipeline.errors import StoreError
from knowledge_pipeline.knowledge_base import KnowledgeBase
from knowledge_pipeline.stages.verify import verify
from knowledge_pipeline.store import indexes
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.lance_storage import list_versions
from knowledge_pipeline.store.local_state import FILE, SharedState
from knowledge_pipeline.store.release import list_releases
from knowledge_pipeline_tests.conftest import Project, embedding_by, tables
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer
from knowledge_pipeline_tests.stages import large_store
from knowledge_pipeline_tests.stages.faults import DAMAGES, unlogged

HOW = ["zeroed", *(pytest.param(how, marks=pytest.mark.slow) for how in ("truncated", "removed"))]
QUESTION = "sign sessions"
_FILES = 30


@pytest.fixture(autouse=True)
def small_indexes(monkeypatch) -> None:
    monkeypatch.setattr(indexes, "VECTOR_INDEX_MIN_ROWS", 20)
    monkeypatch.setattr(indexes, "SCALAR_INDEX_MIN_ROWS", 20)
    monkeypatch.setattr(indexes, "GRAPH_INDEX_MIN_ROWS", 20)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, embedding_server: OpenAIServer) -> Iterator[Project]:
    """A released store of two sources, with every kind of index."""
    folder = tmp_path_factory.mktemp("whole")
    project = Project(folder / "project", embedding_by(embedding_server))
    for source in ("main", "other"):
        (folder / source).mkdir()
        for number in range(_FILES):
            name = f"{source}_{number}"
            text = f'def sign_{name}(key):\n    """Sign sessions number {number}."""\n    return key\n'
            text += f"\n\ndef use_{name}(key):\n    return sign_{name}(key)\n"
            (folder / source / f"{source}{number}.py").write_text(text)
        project.declare(source, "code", folder / source)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("VECTOR_INDEX_MIN_ROWS", "SCALAR_INDEX_MIN_ROWS", "GRAPH_INDEX_MIN_ROWS"):
            patch.setattr(indexes, name, 20)
        project.refresh()
    yield project


def copy_project(whole: Project, root: Path) -> Project:
    """The same store elsewhere, so that nothing of it is in a cache."""
    shutil.copytree(whole.lake.root, root / "store")
    project = Project(root, whole.embedding)
    project.sources = copy.deepcopy(whole.sources)
    return project


def list_index_files(project: Project, pattern: str, column: str) -> list[Path]:
    """The files of the index of one column."""
    (path,) = project.lake.root.glob(pattern)
    described = lance.dataset(str(path)).describe_indices()
    segments = [str(it.uuid) for index in described if index.field_names == [column] for it in index.segments]
    return sorted(file for segment in segments for file in (path / "_indices" / segment).iterdir())


def damage_file(project: Project, path: Path, how: str) -> None:
    """Damage one file, of a table that the store names alike."""
    DAMAGES[how](project.lake.root / path)


def ask(project: Project, **options) -> tuple[list[str], tuple[str, ...]]:
    """The paths that are found, and what the answer lacks."""
    with KnowledgeBase(unlogged(project)) as base:
        response = base.search(QUESTION, limit=5, **options)
        return [result.citation.path for result in response.results], response.degraded


def ask_graph(project: Project) -> tuple[list[str], tuple[str, ...]]:
    """The symbols of one file, by the code graph, and what the answer lacks."""
    with KnowledgeBase(unlogged(project)) as base:
        response = base.graph.find_usages("sign_main_1")
        return sorted(str(node.path) for node in response.nodes), response.degraded


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("column", ["words", "vector", "archived", "language"])
def test_a_search_does_without_a_damaged_index_until_it_is_repaired(whole, tmp_path, column, how):
    filters = Filters(languages=("python",))
    sound, nothing = ask(whole, filters=filters)
    assert nothing == () and len(sound) == 5
    for number, file in enumerate(list_index_files(whole, "index/*.lance", column)):
        project = copy_project(whole, tmp_path / str(number))
        damage_file(project, file.relative_to(whole.lake.root), how)
        paths, degraded = ask(project, filters=filters)
        assert len(paths) == 5 and degraded == ("index",)
        if column not in ("words", "vector"):
            assert paths == sound
        with KnowledgeBase(unlogged(project)) as base:
            explain = base.search(QUESTION, filters=filters, explain=True).explain
            assert explain and "knowledge maintain --repair" in str(explain["degraded"]["index"])
        options = maintenance.MaintenanceOptions(repair=True)
        report = maintenance.refresh(project.lake, project.settings, options=options)
        assert "repairs" in report.actions and report.skipped == {} and report.release
        assert ask(project, filters=filters) == (sound, ())
        assert verify(project.lake) == []


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("table", ["symbols", "edges"])
def test_the_code_graph_is_read_without_a_damaged_index(whole, tmp_path, table, how):
    (file, *_) = list_index_files(whole, f"graph/{table}.lance", "kind")
    project = copy_project(whole, tmp_path)
    damage_file(project, file.relative_to(whole.lake.root), how)
    assert [it.index for it in verify(project.lake)] == ["kind"]
    expected = ask_graph(whole)
    assert expected[0] and expected[1] == ()
    assert ask_graph(project) == (expected[0], ("index",))
    maintenance.refresh(project.lake, project.settings, options=maintenance.MaintenanceOptions(repair=True))
    assert verify(project.lake) == []
    assert ask_graph(project) == expected


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("stage", ["snapshot", "chunks", "embeddings", "facts"])
def test_a_damaged_table_ends_the_refresh_of_its_source_alone(whole, tmp_path, stage, how):
    project = copy_project(whole, tmp_path)
    (path,) = project.lake.root.glob(f"{stage}/*/main.lance")
    DAMAGES[how](next((path / "data").iterdir()))
    outcome = project.refresh(full=True)
    assert "other" in {stats.source for stats in outcome.stats}
    if "main" in outcome.failures:  # a full refresh reads no facts
        assert "`knowledge maintain --repair`" in str(outcome.failures["main"])
    assert [it.table.rpartition("/")[2] for it in verify(project.lake)] in (["main"], [])
    options = maintenance.MaintenanceOptions(repair=True)
    assert maintenance.refresh(project.lake, project.settings, options=options).skipped == {}
    assert project.refresh().failures == {}
    assert verify(project.lake) == []
    assert tables(project).keys() == tables(whole).keys()
    assert ask(project) == ask(whole)


@pytest.mark.parametrize("table", ["index/*.lance", "graph/symbols.lance", "graph/edges.lance"])
def test_a_damaged_table_of_all_sources_is_made_anew(whole, tmp_path, table):
    project = copy_project(whole, tmp_path)
    (path,) = project.lake.root.glob(table)
    DAMAGES["zeroed"](next((path / "data").iterdir()))
    assert verify(project.lake) != []
    options = maintenance.MaintenanceOptions(repair=True)
    maintenance.refresh(project.lake, project.settings, options=options)
    assert project.refresh().failures == {}
    assert ask(project) == ask(whole)
    # the release before names rows that are lost, and can be given up once it is not the live one
    assert [found.remedy for found in verify(project.lake)] == [
        "run `knowledge maintain --repair`, which gives release 1 up"
    ]
    maintenance.refresh(project.lake, project.settings, options=options)
    assert verify(project.lake) == []
    assert ask(project) == ask(whole)


@pytest.mark.parametrize("table", ["chunks/code/main.lance", "index/*.lance"])
def test_a_text_that_is_zeroed_and_still_read_is_found_and_mended(whole, tmp_path, table):
    """Lance checks no sums: it reads the zeroed bytes as text."""
    project = copy_project(whole, tmp_path)
    (path,) = project.lake.root.glob(table)
    text = b"number 17"
    file = next(file for file in (path / "data").iterdir() if text in file.read_bytes())
    content = file.read_bytes()
    at = content.rindex(text)  # of the text itself, which is long after its key
    file.write_bytes(content[:at] + bytes(len(text)) + content[at + len(text) :])
    assert lance.dataset(str(path)).to_table().num_rows
    assert [finding.problem for finding in verify(project.lake)]
    options = maintenance.MaintenanceOptions(repair=True)
    maintenance.refresh(project.lake, project.settings, options=options)
    assert project.refresh().failures == {}
    assert verify(project.lake) == []
    assert ask(project) == ask(whole)


@pytest.mark.slow
@pytest.mark.parametrize(("column", "name"), [("text_key", "page_data"), ("words", "tokens")])
def test_an_index_that_is_read_and_does_not_find_rows_is_mended(whole, tmp_path, column, name):
    """Lance checks no sums of indexes either: zeroed bytes may be read as other values, words or places."""
    (file,) = [it for it in list_index_files(whole, "index/*.lance", column) if name in it.name]
    project = copy_project(whole, tmp_path)
    damaged = project.lake.root / file.relative_to(whole.lake.root)
    content = damaged.read_bytes()
    for part in (0.2, 0.4, 0.6):  # the footer is at the end
        start = int(part * len(content))
        damaged.write_bytes(content[:start] + bytes(16) + content[start + 16 :])
        findings = verify(project.lake)
        assert [finding.index for finding in findings] in ([column], [])
        if any("does not find rows that are there" in finding.problem for finding in findings):
            break
    else:
        pytest.fail("no zeroed bytes are read as something else")
    options = maintenance.MaintenanceOptions(repair=True)
    maintenance.refresh(project.lake, project.settings, options=options)
    assert verify(project.lake) == []
    assert ask(project) == ask(whole)


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("table", ["snapshot/code/main", "chunks/code/main", "index/*"])
def test_deletions_and_newest_versions_that_are_damaged_are_found_and_mended(whole, tmp_path, table, how):
    for part in ("_deletions", "_versions"):
        project = copy_project(whole, tmp_path / part)
        (path,) = project.lake.root.glob(f"{table}.lance")
        if part == "_deletions":
            lance.dataset(str(path)).delete("uri LIKE '%main3.py'")  # others of its file stay
        file = min((path / part).glob("*.manifest" if part == "_versions" else "*"))
        DAMAGES[how](file)
        if part == "_versions" and how == "removed":
            continue  # then an earlier version is the newest
        project = copy_project(project, tmp_path / f"{part} damaged")
        assert verify(project.lake) != []
        options = maintenance.MaintenanceOptions(repair=True)
        maintenance.refresh(project.lake, project.settings, options=options)
        assert project.refresh().failures == {}
        assert verify(project.lake) == []
        assert ask(project) == ask(whole)


@pytest.fixture
def released(project, tmp_path) -> Project:
    """A store with three releases, of which each has rows that the next has not."""
    folder = tmp_path / "repo"
    folder.mkdir()
    project.declare("main", "code", folder)
    for text in ("first", "second", "third"):
        (folder / "a.py").write_text(f'def sign_{text}():\n    """Sign sessions."""\n')
        project.refresh()
    return project


def repair(project: Project) -> None:
    options = maintenance.MaintenanceOptions(repair=True)
    assert maintenance.refresh(project.lake, project.settings, options=options).skipped == {}


@pytest.mark.parametrize("how", HOW)
def test_the_versions_of_earlier_releases_are_verified_and_those_that_no_release_has(released, tmp_path, how):
    assert verify(released.lake) == []
    numbers: dict[tuple[str, int], int] = {}
    for release in list_releases(released.lake):
        numbers |= {(f"index/{name}", version): release.release for name, version in release.tables.items()}
        numbers |= {(f"graph/{name}", version): release.release for name, version in release.graph.items()}
    kinds = set[int | None]()
    paths = [
        path for pattern in ("chunks/*/*", "index/*") for path in released.lake.root.glob(f"{pattern}.lance")
    ]
    for path in paths:
        name = released.lake.relative_name(path).removesuffix(".lance")
        for version in list_versions(path)[:-1]:
            release = numbers.get((name, version))
            if release in kinds or (how == "removed" and not release):
                continue  # as a cleanup leaves it
            project = copy_project(released, tmp_path / f"{name} {version}")
            DAMAGES[how](find_manifests(project.lake.root / f"{name}.lance")[version])
            (finding,) = verify(project.lake)
            assert (finding.table, finding.version) == (name, version)
            kinds.add(release)
            if release:
                assert finding.remedy.endswith(f"which gives release {release} up")
            repair(project)
            assert verify(project.lake) == []
            kept = [kept.release for kept in list_releases(project.lake)]
            assert kept == [number for number in (1, 2, 3) if number != release]
            assert project.refresh().failures == {}
            assert ask(project) == ask(released)
    assert {1, 2} <= kinds


def find_manifests(table: Path) -> dict[int, Path]:
    """By version; Lance counts down."""
    return {(1 << 64) - 1 - int(file.stem): file for file in (table / "_versions").glob("*.manifest")}


def test_rows_that_only_an_earlier_release_has_are_verified(released, tmp_path):
    first, *_, live = list_releases(released.lake)
    ((space, version),) = first.tables.items()
    path = released.lake.root / "index" / f"{space}.lance"

    def list_files(number: int) -> set[str]:
        fragments = lance.dataset(str(path), number).get_fragments()
        return {file.path for fragment in fragments for file in fragment.data_files()}

    (own, *_) = list_files(version) - list_files(live.tables[space])
    project = copy_project(released, tmp_path / "damaged")
    DAMAGES["truncated"](project.lake.root / "index" / f"{space}.lance" / "data" / own)
    (finding,) = [it for it in verify(project.lake) if it.version == version]
    assert "files with rows" in finding.problem and finding.remedy.endswith("which gives release 1 up")
    assert ask(project) == ask(released)


@pytest.mark.parametrize("how", ["zeroed", "truncated"])
def test_a_damaged_local_state_is_found_and_begun_anew(released, how):
    with SharedState(released.lake.folder) as state:
        for number in range(100):
            state.put("kind", f"key{number}", b"x" * 1000)
        state.erase("other")  # all of it is in the file
    assert verify(released.lake) == []
    DAMAGES[how](released.lake.folder / FILE)
    (finding,) = verify(released.lake)
    assert finding.table == FILE and "it is damaged" in finding.problem
    repair(released)
    assert verify(released.lake) == []


@pytest.mark.parametrize("how", HOW)
def test_a_damaged_list_of_releases_ends_in_one_sentence_that_says_what_to_do(released, tmp_path, how):
    """Its newest version, rows and deletions; Lance reads no transaction again, and no hint."""
    root, told = released.lake.root / "releases.lance", 0
    manifests = find_manifests(root)
    newest = manifests[max(manifests)]
    parts = ("data/*", "_deletions/*", "_transactions/*", "_versions/*.json")
    files = [newest] if how != "removed" else []  # then the list of before is the newest
    for number, file in enumerate([*files, *(max(root.glob(part)) for part in parts if [*root.glob(part)])]):
        project = copy_project(released, tmp_path / str(number))
        damage_file(project, file.relative_to(released.lake.root), how)
        is_found = "releases" in {finding.table for finding in verify(project.lake)}
        try:
            assert ask(project) == ask(released)
        except StoreError as error:
            told += 1
            assert is_found, file
            sentence = str(error)
            assert "the list of releases, releases.lance of the store" in sentence and "\n" not in sentence
            assert "restore that folder from a backup; `knowledge verify`" in sentence
            assert str(project.refresh().failures["release"]) == sentence
            options = maintenance.MaintenanceOptions(repair=True)
            report = maintenance.refresh(project.lake, project.settings, options=options)
            assert report.skipped["index"] == sentence
            shutil.rmtree(project.lake.root / "releases.lance")
            shutil.copytree(root, project.lake.root / "releases.lance")
            assert project.refresh().failures == {}
            assert ask(project) == ask(released)
            assert verify(project.lake) == []
    assert told > (how != "removed")


def test_a_table_that_has_lost_all_its_versions_is_not_taken_for_an_empty_one(released, tmp_path):
    for name in ("releases", "chunks/code/main"):
        project = copy_project(released, tmp_path / name)
        shutil.rmtree(project.lake.root / f"{name}.lance" / "_versions")
        (finding,) = [it for it in verify(project.lake) if it.table == name]
        assert finding.problem == "it has lost all its versions"
        if name == "releases":
            with pytest.raises(StoreError, match=r"has lost all its versions: restore that folder from a b"):
                ask(project)
        else:
            repair(project)
            assert project.refresh().failures == {}
            assert verify(project.lake) == []
            assert ask(project) == ask(released)


@pytest.mark.slow
def test_a_verification_holds_no_rows(tmp_path):
    lake, rows, dimensions = Lake(tmp_path), 5_000, 512
    large_store.make(lake, rows)
    table = lake.embeddings("space", "source0", dimensions)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(range(rows * dimensions), pa.float32()), dimensions)
    table.append([pa.record_batch([pa.array(map(str, range(rows))), vectors], schema=table.schema)])
    tracemalloc.start()
    try:
        verify(lake)
        assert tracemalloc.get_traced_memory()[1] < rows * dimensions * 4 / 2
    finally:
        tracemalloc.stop()
