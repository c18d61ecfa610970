"""A source answers by its words before it is embedded; its vectors are released as they come."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import pytest

from knowledge_pipeline.checks.registry import CHECKS
from knowledge_pipeline.config.embedding import EmbeddingSettings
from knowledge_pipeline.config.store import VectorIndexSettings
from knowledge_pipeline.errors import EmbeddingUnavailable
from knowledge_pipeline.knowledge_base import KnowledgeBase
from knowledge_pipeline.stages import embeddings, pipeline
from knowledge_pipeline.stages import pipeline as early_release
from knowledge_pipeline.stages.context import RefreshContext
from knowledge_pipeline.stages.embeddings import estimate_rest_s, order_texts
from knowledge_pipeline.stages.pipeline import roll_back_release
from knowledge_pipeline.stages.progress import ProgressCallback
from knowledge_pipeline.store import indexes
from knowledge_pipeline.store.filters import UNEMBEDDED, Filter
from knowledge_pipeline.store.release import Release, find_live_release, list_releases
from knowledge_pipeline.store.tables import Table
from knowledge_pipeline_tests.conftest import Project, embedding_by, tables
from knowledge_pipeline_tests.fakes.openai_server import Fault, OpenAIServer

FILES = 24
WORDS_FIRST = ["lighthouse", "harbour", "anchor", "compass"]


@pytest.fixture
def folder(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A source of 24 files, that takes six commits of vectors; each is released."""
    monkeypatch.setattr(early_release, "MIN_REMOTE_TEXTS", 8)
    monkeypatch.setattr(early_release, "INTERVAL_S", 0.0)
    monkeypatch.setattr(early_release, "MAX_TIME_SHARE", 1e9)
    monkeypatch.setattr(embeddings, "TEXTS_PER_COMMIT", 4)
    made = tmp_path / "repo"
    made.mkdir()
    for number in range(FILES):
        word = WORDS_FIRST[number % 4]
        (made / f"m{number:02}.py").write_text(f"def {word}_{number}():\n    return {number}\n")
    project.declare("main", "code", made)
    return made


def observe(project: Project, look: Callable[[Release], None]) -> Callable[[object], ProgressCallback]:
    """A report that looks at the live release whenever something was embedded."""

    def report(stage: str, done: int, total: int | None, share: float | None = None, /) -> None:
        if stage == "embeddings":
            live = find_live_release(project.lake)
            assert live is not None, "words are released before the first text is embedded"
            look(live)

    return lambda source: report


def files_with(word: int) -> set[str]:
    return {f"m{number:02}.py" for number in range(word, FILES, 4)}


def find_paths(project: Project, words: str) -> list[str]:
    with KnowledgeBase(project.settings) as knowledge:
        return [each.citation.path for each in knowledge.search(words, limit=20).results]


def test_words_answer_before_anything_is_embedded_and_vectors_follow(project: Project, folder: Path) -> None:
    shares: list[float] = []
    found: list[list[str]] = []

    def look(live: Release) -> None:
        if not shares:
            found.append(find_paths(project, "lighthouse"))
        shares.append(live.embedded_share)

    assert project.refresh(report=observe(project, look)).failures == {}
    assert set(found[0]) == files_with(0)
    assert shares[0] == 0.0
    assert shares == sorted(shares)
    assert any(0.0 < share < 1.0 for share in shares), "vectors are released as they come"
    live = find_live_release(project.lake)
    assert live is not None
    assert (live.rows, live.unembedded, live.embedded_share) == (FILES, 0, 1.0)


def test_words_wait_for_vectors_that_a_model_in_memory_makes_at_once(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = Project(tmp_path / "own", EmbeddingSettings(model="static-v1"))
    monkeypatch.setattr(early_release, "MIN_LOCAL_TEXTS", 8)
    for source, max_wait_s, first_share in (("slow", 0.0, 0.0), ("quick", 60.0, 1.0)):
        monkeypatch.setattr(early_release, "MAX_WAIT_S", max_wait_s)
        for path in folder.iterdir():
            path.write_text(path.read_text() + f"# of the {source} one\n")
        project.declare(source, "code", folder)
        shares: list[float] = []
        report = observe(project, lambda live, to=shares: to.append(live.embedded_share))
        assert project.refresh(source, report=report).failures == {}
        assert shares[0] == first_share


def test_how_long_a_model_takes_is_told_once_this_process_has_used_it(tmp_path: Path, folder: Path) -> None:
    prompt = f"a prompt of this test in {tmp_path.name}: "  # which makes it a model that nobody has used
    project = Project(tmp_path / "own", EmbeddingSettings(model="static-v1", document_prompt=prompt))
    project.declare("main", "code", folder)
    (source,) = project.settings.sources
    ctx = RefreshContext(project.lake, project.settings, source)
    for stage in ("snapshot", "chunks"):
        pipeline.STAGES[stage](ctx)
    assert embeddings.estimate_seconds(ctx, FILES) is None
    pipeline.STAGES["embeddings"](ctx)
    few, many = (embeddings.estimate_seconds(ctx, texts) for texts in (1, 1_000_000))
    assert few is not None and many is not None
    assert 0 < few < many


def refresh_words(project: Project) -> pipeline.RefreshOutcome:
    settings = project.settings
    return pipeline.refresh(project.lake, settings, settings.sources, words_only=True)


def test_words_alone_are_released_and_the_next_refresh_leaves_what_one_would_have(
    project: Project, folder: Path, tmp_path: Path
) -> None:
    in_two = Project(tmp_path / "in-two", project.embedding)
    in_two.sources = project.sources
    outcome = refresh_words(in_two)
    assert [stats.stage for stats in outcome.stats] == ["snapshot", "chunks", "index"]
    assert outcome.release and (outcome.release.rows, outcome.release.unembedded) == (FILES, FILES)
    assert set(find_paths(in_two, "lighthouse")) == files_with(0)
    assert not any(stats.has_changes for stats in refresh_words(in_two).stats)
    of_rest = {stats.stage: stats for stats in in_two.refresh().stats}
    assert not of_rest["snapshot"].has_changes and not of_rest["chunks"].has_changes
    assert (of_rest["index"].added, of_rest["index"].changed) == (0, FILES)
    project.refresh()
    assert tables(in_two) == tables(project)


def test_words_alone_take_no_live_vectors_away(project: Project, folder: Path) -> None:
    project.refresh()
    for path in folder.iterdir():
        path.write_text(path.read_text() + "# and more\n")
    live = find_live_release(project.lake)
    outcome = refresh_words(project)
    assert outcome.failures == {} and find_live_release(project.lake) == live
    (folder / "m00.py").write_text("def gannet():\n    return 1\n")
    refresh_words(project)
    assert find_live_release(project.lake) == live
    assert project.refresh().failures == {}
    assert find_paths(project, "gannet")[0] == "m00.py"


def test_how_long_the_rest_takes_is_estimated_for_models_of_this_machine(
    project: Project, folder: Path, tmp_path: Path
) -> None:
    own = Project(tmp_path / "own", EmbeddingSettings(model="static-v1"))
    own.sources = project.sources
    estimates = dict[str, float | None]()
    for name, stages in (("by words", ("snapshot", "chunks")), ("complete", ("embeddings",))):
        ctx = RefreshContext(own.lake, own.settings, own.settings.sources[0])
        for stage in stages:
            pipeline.STAGES[stage](ctx)
        estimates[name] = estimate_rest_s([ctx])
    assert estimates["complete"] == 0.0
    assert estimates["by words"] is not None and 0.0 < estimates["by words"] < 10.0
    refresh_words(project)
    remote = RefreshContext(project.lake, project.settings, project.settings.sources[0])
    assert estimate_rest_s([remote]) is None, "an endpoint is not asked"


def test_nothing_is_released_early_while_a_release_is_pinned(project: Project, folder: Path) -> None:
    project.refresh()
    live = find_live_release(project.lake)
    assert live is not None
    pinned = roll_back_release(project.lake, project.settings, live.release)
    for number in range(FILES):
        (folder / f"n{number:02}.py").write_text(f"def walrus_{number}():\n    return {number}\n")
    seen: set[int] = set()
    outcome = project.refresh(report=observe(project, lambda now: seen.add(now.release)))
    assert seen == {pinned.release} and outcome.failures == {}
    assert not [path for path in find_paths(project, "walrus") if path.startswith("n")]


def test_words_that_were_indexed_and_not_released_are_released_by_the_next_refresh(
    project: Project, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(pipeline, "release_early", stop)
        with pytest.raises(KeyboardInterrupt):
            project.refresh()
    assert find_live_release(project.lake) is None
    shares: list[float] = []
    report = observe(project, lambda live: shares.append(live.embedded_share))
    assert project.refresh(report=report).failures == {}
    assert shares[0] == 0.0


@pytest.mark.slow
def test_an_unfinished_release_says_so_and_is_not_kept(project: Project, folder: Path) -> None:
    said: list[tuple[tuple[str, ...], float, int]] = []

    def look(live: Release) -> None:
        with KnowledgeBase(project.settings) as knowledge:
            answer, status = knowledge.search("harbour", explain=True), knowledge.status()
        assert answer.explain is not None
        if live.unembedded:
            reason = f"{live.unembedded} of {FILES} chunks have no vector yet"
            assert answer.explain["degraded"]["embedding"] == reason
        said.append((answer.degraded, answer.embedded_share, status.unembedded_rows.get("main", 0)))

    project.refresh(report=observe(project, look))
    assert said[0] == (("embedding",), 0.0, FILES), "with the code graph"
    with KnowledgeBase(project.settings) as knowledge:
        assert knowledge.search("harbour").degraded == ()
        assert knowledge.status().unembedded_rows == {}
    assert [each.unembedded for each in list_releases(project.lake)] == [0]


@pytest.mark.sampled
@pytest.mark.parametrize("stop_at", [1, 4])
def test_stopped_anywhere_what_is_there_answers_and_the_next_refresh_completes_it(
    project: Project, folder: Path, tmp_path: Path, stop_at: int
) -> None:
    stopped = Project(tmp_path / "stopped", project.embedding)
    stopped.sources = project.sources
    calls = 0

    def look(live: Release) -> None:
        nonlocal calls
        calls += 1
        if calls == stop_at:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped.refresh(report=observe(stopped, look))
    assert files_with(3) <= set(find_paths(stopped, "compass"))
    assert stopped.refresh().failures == {}
    project.refresh()
    assert tables(stopped) == tables(project)
    assert not any(stats.has_changes for stats in stopped.refresh().stats)


@pytest.mark.slow
def test_an_endpoint_that_dies_leaves_words_and_the_vectors_that_came(tmp_path: Path, folder: Path) -> None:
    with OpenAIServer() as server:
        project = Project(tmp_path / "own", embedding_by(server, max_tries=1, max_concurrent=1))
        project.declare("main", "code", folder)
        server.fail_next(*[Fault()] * 4, Fault(status=500))
        failure = project.refresh().failures["main"]
        assert isinstance(failure, EmbeddingUnavailable)
        live = find_live_release(project.lake)
        assert live is not None
        assert 0 < live.unembedded < FILES
        assert files_with(2) <= set(find_paths(project, "anchor"))
        assert project.refresh().failures == {}
        assert find_paths(project, "anchor")


@pytest.mark.slow
def test_a_refresh_that_would_take_live_vectors_away_waits_for_the_new_ones(
    project: Project, folder: Path
) -> None:
    project.refresh()
    other_model = project.embedding.model_copy(update={"model": "other-words"})
    for embedding, ending in ((project.embedding, "# and more\n"), (other_model, "")):
        for path in folder.iterdir():
            path.write_text(path.read_text() + ending)
        project.declare("main", "code", folder, embedding=embedding)
        waiting: set[int] = set()
        project.refresh(report=observe(project, lambda live, to=waiting: to.add(live.unembedded)))
        assert waiting == {0}, "the former vectors answer until the new ones are complete"


@pytest.mark.slow
def test_few_new_texts_go_live_with_their_vectors(project: Project, folder: Path) -> None:
    project.refresh()
    (before,) = list_releases(project.lake)
    (folder / "m00.py").write_text("def gannet():\n    return 1\n")
    seen: list[Release] = []
    project.refresh(report=observe(project, seen.append))
    assert set(map(repr, seen)) == {repr(before)}
    assert find_live_release(project.lake) != before


@pytest.mark.slow
def test_checks_tell_an_unfinished_index_from_a_broken_one(project: Project, folder: Path) -> None:
    results: dict[str, tuple[bool, str]] = {}

    def look(live: Release) -> None:
        if live.unembedded and not results:
            for check in CHECKS:
                if check.topic in ("releasable", "maintained"):
                    result = check.run(project.lake, project.settings, "code")
                    results[check.name] = result.passed, result.message

    project.refresh(report=observe(project, look))
    assert results["index_matches_chunks"][0]
    assert results["vectors_are_sound"][0]
    assert results["unembedded_share"] == (
        False,
        f"{FILES} of {FILES} rows have no vector yet (100.0%; allowed: 0%)",
    )
    (check,) = (each for each in CHECKS if each.name == "unembedded_share")
    assert check.run(project.lake, project.settings, "code").passed


def test_an_index_stage_alone_indexes_words_and_the_next_takes_the_vectors_in(
    project: Project, folder: Path
) -> None:
    (source,) = project.settings.sources
    ctx = RefreshContext(project.lake, project.settings, source)
    for stage in ("snapshot", "chunks"):
        pipeline.STAGES[stage](ctx)
    by_words = pipeline.STAGES["index"](ctx)
    assert (by_words.added, by_words.unembedded) == (FILES, FILES)
    pipeline.STAGES["embeddings"](ctx)
    with_vectors = pipeline.STAGES["index"](ctx)
    assert (with_vectors.added, with_vectors.changed, with_vectors.unembedded) == (0, FILES, 0)
    assert not pipeline.STAGES["index"](ctx).has_changes


def test_the_graph_of_vectors_is_built_though_the_last_of_them_went_live_early(
    project: Project, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexes, "VECTOR_INDEX_MIN_ROWS", FILES)
    project.refresh()  # releases after each commit, the last one too
    ((space, dimensions),) = project.lake.list_spaces().items()
    assert "vector" in project.lake.index(space, dimensions).indexes


def test_vectors_that_come_rewrite_no_words(project: Project, folder: Path) -> None:
    (source,) = project.settings.sources
    ctx = RefreshContext(project.lake, project.settings, source)
    for stage in ("snapshot", "chunks", "index"):
        pipeline.STAGES[stage](ctx)
    ((space, dimensions),) = project.lake.list_spaces().items()
    columns = ["id", "words", "shown", "fingerprint", "indexed_at"]
    before = project.lake.index(space, dimensions).read_rows(columns).sort_by("id")
    pipeline.STAGES["embeddings"](ctx)
    pipeline.STAGES["index"](ctx)
    table = project.lake.index(space, dimensions)
    assert table.read_rows(columns).sort_by("id") == before
    assert table.count_rows(UNEMBEDDED) == 0


@pytest.mark.slow
def test_a_table_of_an_earlier_version_is_brought_up_to_date_in_place(project: Project, folder: Path) -> None:
    project.refresh()
    everything = tables(project)
    ((space, dimensions),) = project.lake.list_spaces().items()
    table = project.lake.index(space, dimensions)
    table.open_newest().drop_columns(["unembedded"])
    table.open_newest().alter_columns({"path": "vector", "nullable": False})
    former = Table(table.path, table.schema)
    assert former.count_rows(UNEMBEDDED) == 0, "reading it adds the column"
    assert project.refresh().failures == {}
    assert tables(project) == everything
    (folder / "m00.py").write_text("def gannet():\n    return 1\n")
    assert project.refresh().failures == {}
    assert find_paths(project, "gannet")[0] == "m00.py"


def test_sources_are_embedded_before_tests_and_what_is_used_before_what_is_not(
    project: Project, tmp_path: Path
) -> None:
    made = tmp_path / "repo"
    for path, text in {
        "CHANGELOG.py": "entry = 1\n",
        "tests/test_core.py": "from core import run\n\n\ndef test_run():\n    run()\n",
        "leaf.py": "from core import run\n\n\ndef leaf():\n    run()\n",
        "core.py": "def run():\n    return 1\n",
    }.items():
        (made / path).parent.mkdir(parents=True, exist_ok=True)
        (made / path).write_text(text)
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "all at once"]):
        git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org"]
        subprocess.run([*git, *words], cwd=made, check=True)
    project.declare("main", "code", made)
    (source,) = project.settings.sources
    ctx = RefreshContext(project.lake, project.settings, source)
    for stage in ("snapshot", "chunks", "graph"):
        pipeline.STAGES[stage](ctx)
    rows = project.lake.chunks("code", "main").read_rows(["text_key", "path"]).to_pylist()
    paths = {row["text_key"]: row["path"] for row in rows}
    order = list(dict.fromkeys(paths[key] for key in order_texts(ctx, paths)))
    assert order == ["core.py", "leaf.py", "tests/test_core.py", "CHANGELOG.py"]


def test_few_texts_are_embedded_without_a_look_at_all_chunks(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = Project(tmp_path / "own", EmbeddingSettings(model="static-v1"))
    project.declare("main", "code", folder)
    ordered, conditions = list[int](), list[str]()
    read = Table.iter_batches

    def note_order(ctx: RefreshContext, keys: Collection[str]) -> list[str]:
        ordered.append(len(keys))
        return order_texts(ctx, keys)

    def note_condition(self: Table, columns: Sequence[str], where: Filter, **rest: int) -> Any:
        conditions.append(where.sql)
        return read(self, columns, where, **rest)

    monkeypatch.setattr(embeddings, "order_texts", note_order)
    (source,) = project.settings.sources
    ctx = RefreshContext(project.lake, project.settings, source)
    for limit, expected in ((FILES, []), (FILES - 1, [FILES])):
        monkeypatch.setattr(embeddings, "TEXTS_PER_COMMIT", limit)
        for path in folder.iterdir():
            path.write_text(path.read_text() + f"# at most {limit}\n")
        for stage in ("snapshot", "chunks"):
            pipeline.STAGES[stage](ctx)
        with monkeypatch.context() as patched:
            patched.setattr(Table, "iter_batches", note_condition)
            assert pipeline.STAGES["embeddings"](ctx).added == FILES
        assert ordered == expected
        if not expected:
            assert conditions and all("text_key" in condition for condition in conditions)


def test_nothing_is_embedded_for_an_index_that_cannot_be_built(
    project: Project, tmp_path: Path, embedding_server: OpenAIServer
):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("# A title\n\nSome words.")
    project.declare("docs", "markdown", tmp_path / "docs")
    index = VectorIndexSettings(type="ivf_pq", sub_vectors=embedding_server.dimensions - 1)
    settings = project.settings.model_copy(
        update={"vector_index": index}
    )  # as where no `dimensions` are said
    asked = len(embedding_server.requests)
    (failure,) = pipeline.refresh(project.lake, settings, settings.sources).failures.values()
    assert "must divide" in str(failure) and len(embedding_server.requests) == asked
