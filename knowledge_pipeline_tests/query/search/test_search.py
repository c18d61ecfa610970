from __future__ import annotations

import asyncio
import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from knowledge_pipeline import Filters, KnowledgeBase
from knowledge_pipeline.config.embedding import EmbeddingSettings
from knowledge_pipeline.config.settings import QuerySettings, Settings
from knowledge_pipeline.config.sources import SourceConfig
from knowledge_pipeline.embedding.registry import resolve_space
from knowledge_pipeline.errors import InvalidQuery, NotFound
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.plan import SearchQuestion, is_code
from knowledge_pipeline.query.search import Engine
from knowledge_pipeline.store import release
from knowledge_pipeline.store.filters import one_of
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline_tests.fakes.openai_server import Fault, OpenAIServer
from knowledge_pipeline_tests.query.conftest import endpoint
from knowledge_pipeline_tests.query.search.rows import publish, row, write


def paths(answer) -> list[str]:
    return [result.citation.path for result in answer.results]


@pytest.fixture
def shelf(lake: Lake, space: str) -> None:
    """A few rows that differ in every column that filters use."""
    commit: dict[str, Any] = {
        "project": "CORE",
        "wiki_space": "ENG",
        "labels": ["bug"],
        "status": "Merged",
        "language": None,
    }
    commit["metadata"] = json.dumps({"files": ["lib/bucket.rs", "README"]})
    old = datetime(2020, 5, 5, tzinfo=UTC)
    several = {"kinds": ["function", "constant"], "symbols": ["load", "Outer.Store.get"], "exports": ["load"]}
    imports = {"imports": ["os", "requests.sessions", "./util/io"]}
    of_code = json.dumps({"class_name": "Outer.Store", "classes": ["Outer"], **several, **imports})
    of_chat = json.dumps({"created_at": "2026-01-02T10:00:00+00:00", "text": '"created_at": "2030'})
    of_ticket = json.dumps({"components": ["Web", 'Pay "now"'], "fix_versions": ["2.1.3"], "key": "OPS-1"})
    guide = {"title": "The token guide", "section": "Retry policy (again)"}
    guide["metadata"] = json.dumps({"sections": ["Retry policy (again)", "How to wait"]})
    rows = [
        row(
            "token loop",
            "src/auth/token.py",
            author="Jane Doe",
            repo="github.com/psf/auth",
            branch="main",
            metadata=of_code,
        ),
        row(
            "token loop in go",
            "src/auth/token.go",
            language="go",
            symbol_kind="class",
            author="jane@example.org",
        ),
        row(
            "token",
            "lib/bucket.rs",
            language="rust",
            symbol_kind="trait",
            author="Janet",
            source="lib",
            tags=["core", "it's", "namespace:lib"],
        ),
        row(
            "token told", "docs/token.md", source="docs", source_type="markdown", language="markdown", **guide
        ),
        row("token fixed", "1f2e", source="log", source_type="git_history", last_modified=old, **commit),
        row("token refresh as it was", "src/old.py", archived=True),
        row(
            "token talk",
            "#ops/2026-01-02",
            source="chat",
            source_type="slack",
            language=None,
            metadata=of_chat,
        ),
        row("token lost", "OPS/OPS-1", source="jira", source_type="jira", language=None, metadata=of_ticket),
    ]
    write(lake, space, rows)
    publish(lake)


@pytest.mark.sampled
@pytest.mark.usefixtures("shelf")
@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"languages": ("go",)}, {"src/auth/token.go"}),
        ({"languages": ("golang", "rs")}, {"src/auth/token.go", "lib/bucket.rs"}),
        ({"languages": ("py",)}, {"src/auth/token.py"}),
        ({"extensions": (".RS", "md")}, {"lib/bucket.rs", "docs/token.md"}),
        ({"sources": ("docs", "log")}, {"docs/token.md", "1f2e"}),
        ({"source_types": ("git_history",)}, {"1f2e"}),
        ({"repos": ("auth",)}, {"src/auth/token.py"}),
        ({"repos": ("psf/auth",)}, {"src/auth/token.py"}),
        ({"repos": ("uth",)}, set()),
        ({"branches": ("main",)}, {"src/auth/token.py"}),
        ({"paths": ("src/auth",)}, {"src/auth/token.py", "src/auth/token.go"}),
        ({"paths": ("/src/auth/", "./docs")}, {"src/auth/token.py", "src/auth/token.go", "docs/token.md"}),
        ({"paths": ("**/*.py",)}, {"src/auth/token.py"}),
        ({"paths": ("src/*.py",)}, set()),
        ({"paths": ("lib",)}, {"lib/bucket.rs"}),
        ({"paths": ("lib",), "source_types": ("code", "git_history")}, {"lib/bucket.rs", "1f2e"}),
        ({"paths": ("**/*.rs",), "source_types": ("git_history",)}, {"1f2e"}),
        ({"authors": ("jane",)}, {"src/auth/token.py", "src/auth/token.go"}),
        ({"authors": ("JANE DOE",)}, {"src/auth/token.py"}),
        ({"tags": ("it's",)}, {"lib/bucket.rs"}),
        ({"labels": ("bug", "feature")}, {"1f2e"}),
        ({"projects": ("core",)}, {"1f2e"}),
        ({"statuses": ("merged",)}, {"1f2e"}),
        ({"spaces": ("eng",)}, {"1f2e"}),
        ({"kinds": ("Class", "trait")}, {"lib/bucket.rs", "src/auth/token.go"}),
        ({"classes": ("store",)}, {"src/auth/token.py"}),
        ({"classes": ("Outer.Store", "none")}, {"src/auth/token.py"}),
        ({"classes": ("outer",)}, {"src/auth/token.py"}),
        ({"classes": ("ore", "S.ore", "Outer.")}, set()),
        ({"kinds": ("const",)}, {"src/auth/token.py"}),
        ({"kinds": ("Functions", "classes")}, {"src/auth/token.py", "src/auth/token.go"}),
        ({"kinds": ("banana", "con")}, set()),
        ({"symbols": ("get",)}, {"src/auth/token.py"}),
        ({"symbols": ("store::get()", "none")}, {"src/auth/token.py"}),
        ({"symbols": ("et", "Outer", "load.Outer")}, set()),
        ({"exports": ("Load",)}, {"src/auth/token.py"}),
        ({"exports": ("get",)}, set()),
        ({"imports": ("requests",)}, {"src/auth/token.py"}),
        ({"imports": ("./util",)}, {"src/auth/token.py"}),
        ({"imports": ("requests.sessions", "nope")}, {"src/auth/token.py"}),
        ({"imports": ("request", "sessions", '"', "o.")}, set()),
        ({"titles": ("token guide",)}, {"docs/token.md"}),
        ({"titles": ("guid", "guide token")}, set()),
        ({"sections": ("retry policy",)}, {"docs/token.md"}),
        ({"sections": ("(again)",)}, {"docs/token.md"}),
        ({"sections": ("how to wait",)}, {"docs/token.md"}),
        ({"sections": ("(again) how", "to")}, {"docs/token.md"}),
        ({"sections": ("(again) how",)}, set()),
        ({"namespaces": ("lib", "other")}, {"lib/bucket.rs"}),
        ({"namespaces": ("li",)}, set()),
        ({"created_since": datetime(2020, 1, 1)}, {"1f2e", "#ops/2026-01-02"}),
        ({"created_since": datetime(2026, 1, 2, 10)}, {"#ops/2026-01-02"}),
        ({"created_since": datetime(2026, 1, 2, 10, 0, 1)}, set()),
        ({"created_until": datetime(2026, 1, 2, 10)}, {"1f2e"}),
        ({"created_until": datetime(2021, 1, 1)}, {"1f2e"}),
        ({"components": ("web",)}, {"OPS/OPS-1"}),
        ({"components": ('pay "now"', "none")}, {"OPS/OPS-1"}),
        ({"components": ("we", "2.1.3", "now")}, set()),
        ({"fix_versions": ("2.1",)}, {"OPS/OPS-1"}),
        ({"fix_versions": ("2", "3.0"), "components": ("Web",)}, {"OPS/OPS-1"}),
        ({"fix_versions": ("2.", "1.3", "Web")}, set()),
        ({"channels": ("ops",)}, {"#ops/2026-01-02"}),
        ({"channels": ("#op", "")}, set()),
        ({"until": datetime(2021, 1, 1)}, {"1f2e"}),
        ({"since": datetime(2021, 1, 1), "paths": ("docs",)}, {"docs/token.md"}),
        ({"include_archived": True, "languages": ("python",)}, {"src/auth/token.py", "src/old.py"}),
        ({"languages": ("python",), "source_types": ("markdown",)}, set()),
    ],
)
def test_each_filter_holds_in_both_searches(base: KnowledgeBase, filters: dict, expected: set[str]):
    answer = base.search("token refresh", filters=Filters(**filters), limit=20)
    assert set(paths(answer)) == expected
    assert set(paths(base.similar(text="token refresh", filters=Filters(**filters), limit=20))) == expected


def test_a_record_is_of_a_kind_however_its_front_matter_or_a_question_calls_it(
    base: KnowledgeBase, lake: Lake, space: str
):
    mention = {"kind": "references", "name": "key:plan", "target": "PLAN"}
    records = {"a.md": "adr", "b.md": "decision", "s.md": "session", "own.md": "Retro"}
    rows = [
        row(
            f"token told {path}", path, source_type="archive", metadata=json.dumps({"id": path, "kind": kind})
        )
        for path, kind in records.items()
    ]
    of_code = json.dumps({"kind": "session", "mentions": [mention]})
    write(lake, space, [*rows, row("token", "code.py", metadata=of_code)])
    publish(lake)

    def find(*kinds: str) -> set[str]:
        return set(paths(base.search("token", filters=Filters(record_kinds=kinds))))

    assert find("adr") == find("Decisions") == {"a.md", "b.md"}
    assert (find("sessions"), find("retro", "SESSION")) == ({"s.md"}, {"s.md", "own.md"})
    assert paths(base.search("token record_kind:session")) == ["s.md"]
    assert find("references", "ess", 'x" OR true') == set()
    (note,) = base.search("token", filters=Filters(record_kinds=("sesion",))).notes
    assert note == "nothing that you may see has the kind of record 'sesion'; the nearest: session"
    (note,) = base.search("token", filters=Filters(record_kinds=("plan",))).notes
    assert note == "nothing that you may see has the kind of record 'plan'; the nearest: adr, session"


def test_of_a_long_commit_only_the_diff_of_the_wanted_path_is_found(
    base: KnowledgeBase, lake: Lake, space: str
):
    def part(anchor: str, *changed: str) -> dict[str, Any]:
        metadata = {"files": ["docs/a.md", "src/b.py"], **({"paths": changed} if changed else {})}
        columns = {"source": "log", "source_type": "git_history", "metadata": json.dumps(metadata)}
        return row(f"token in {anchor}", f"commit/{anchor}", anchor=anchor, **columns)

    own, other = part("diff docs/a.md", "docs/a.md"), part("diff src/b.py", "src/b.py")
    write(lake, space, [part("message"), own, other, part("message with it", "src/b.py")])
    publish(lake)
    found = paths(base.search("token", type="historical", filters=Filters(paths=("docs/",))))
    assert set(found) == {"commit/message", "commit/diff docs/a.md", "commit/message with it"}
    assert len(paths(base.search("token", type="historical", filters=Filters(paths=("*.md", "*.py"))))) == 4


@pytest.mark.parametrize(
    ("text", "anchor", "wanted", "shown", "lines"),
    [
        ("Fix\n\ndiff a.md\n@@ 1\n+x\n\ndiff src/b.py\n@@ 1\n+y", "message", "src", [0, 2], "L5-L9"),
        ("Fix\n\ndiff a.md\n@@ 1\n+x\n\ndiff src/b.py\n@@ 1\n+y", "message", "a.*", [0, 1], "L5-L9"),
        ("diff a.md\n@@ 1\n+x\n\ndiff src/b.py\n@@ 1\n+y", "diff a.md", "src/", [1], "L9-L11"),
        ("+x\n\ndiff src/b.py\n@@ 1\n+y", "diff a.md", "**/b.py", [1], "L7-L9"),
        ("+x\n\ndiff src/b.py\n@@ 1\n+y", "diff a.md", "/a.md", [0], "L5"),
    ],
)
def test_a_part_of_a_commit_is_shown_without_the_diff_of_another_path(
    base: KnowledgeBase, lake: Lake, space: str, text: str, anchor: str, wanted: str, shown: list, lines: str
):
    metadata = json.dumps({"files": ["a.md", "src/b.py"], "paths": ["a.md", "src/b.py"]})
    columns = {"source_type": "git_history", "anchor": anchor, "metadata": metadata, "start_line": 5}
    write(lake, space, [row(text, "commit/1", **columns)])
    publish(lake)
    (result,) = base.search("diff", type="historical", filters=Filters(paths=(wanted,))).results
    parts = re.split("\n\n(?=diff)", text)
    assert (result.content, result.citation.lines) == ("\n\n".join(parts[at] for at in shown), lines)
    assert base.get(result.id).results[0].content == text


def _turn(kind: str, path: str, date: str = "2026-03-01") -> str:
    return f"{kind} by Ada on {path}, {date}:\n```diff\n@@ -1 +1 @@\n+token\n```\n\nWhy?"


_COMMENT = "Comment by Bo, 2026-03-02:\nOk"


@pytest.mark.parametrize(
    ("turns", "wanted", "shown"),
    [
        (["Fix token", _turn("Review comment", "docs/a.md line 3"), _COMMENT], "src", [0, 2]),
        (["Fix token", _turn("Review comment", "docs/a.md line 3"), _COMMENT], "*.md", [0, 1, 2]),
        ([_turn("Review comment", "src/b.py"), _turn("Diff", "docs/a.md lines 1-9 in on x")], "docs/", [1]),
        ([_turn("Review comment", "src/b.py"), _turn("Diff", "docs/a.md line 1")], "src/b.py", [0]),
        ([_turn("Diff", "src/b.py line 1"), _turn("Diff", "src/b.py line 9")], "docs/", []),
        ([_turn("Diff", "…/long/b.py line 1"), _turn("Diff", "src/b.py line 9")], "docs/", [0]),
    ],
)
def test_a_part_of_a_pull_request_is_shown_without_what_is_about_another_path(
    base: KnowledgeBase, lake: Lake, space: str, turns: list[str], wanted: str, shown: list[int]
):
    metadata = json.dumps({"files": ["docs/a.md", "src/b.py"]})
    write(lake, space, [row("\n\n".join(turns), "pr/1", source_type="github_pr", metadata=metadata)])
    publish(lake)
    results = base.search("token", type="historical", filters=Filters(paths=(wanted,))).results
    expected = ["\n\n".join(turns[at] for at in shown)] if shown else []
    assert [result.content for result in results] == expected
    (result,) = base.search("token", type="historical").results
    assert result.content == "\n\n".join(turns)


@pytest.mark.parametrize(("wanted", "is_shown"), [("docs/", True), ("src/b.py", False)])
def test_a_turn_that_goes_on_in_a_chunk_is_shown_for_its_path_alone(
    base: KnowledgeBase, lake: Lake, space: str, wanted: str, is_shown: bool
):
    metadata = json.dumps({"files": ["docs/a.md", "src/b.py"]})
    header = "1\nThe change\nDiff by Ada on docs/a.md lines 1-900, 2026-03-01"
    columns = {"source_type": "github_pr", "metadata": metadata, "header": header}
    write(lake, space, [row("+token of the second half", "pr/1", **columns)])
    publish(lake)
    results = base.search("token", type="historical", filters=Filters(paths=(wanted,))).results
    assert [result.content for result in results] == ["+token of the second half"] * is_shown


def test_a_text_of_several_sections_is_shown_from_the_wanted_one_on(
    base: KnowledgeBase, lake: Lake, space: str
):
    guide, set_up = "# Guide\n\nA token.\n\n", "## [Set-_up_](x.md) (`x`)\n\nIt is set up.\n\n"
    text = f"{guide}{set_up}### Retry, again\n\nIt is retried."
    metadata = json.dumps({"sections": ["Guide", "Set-up (x)", "Retry, again"]})
    columns = {"section": "Guide", "metadata": metadata, "source_type": "markdown", "start_line": 5}
    write(lake, space, [row(text, "guide.md", **columns)])
    publish(lake)

    def show(section: str) -> tuple[str, str, str]:
        (result,) = base.search("token", filters=Filters(sections=(section,))).results
        return result.content, result.citation.lines, result.metadata["section"]

    assert show("retry") == ("### Retry, again\n\nIt is retried.", "L13-L15", "Retry, again")
    assert show("guide") == (text, "L5-L15", "Guide")
    assert show("set-up") == (text.removeprefix(guide), "L9-L15", "Set-up (x)")
    (result,) = base.search("token section:retry").results
    assert result.content.startswith("### Retry") and base.get(result.id).results[0].content == text


@pytest.mark.usefixtures("shelf")
def test_filters_of_the_text_and_of_the_caller_hold_together(base: KnowledgeBase):
    assert paths(base.search("token path:src/auth lang:go")) == ["src/auth/token.go"]
    assert paths(base.search("token path:src/auth", filters=Filters(languages=("rust",)))) == []
    assert paths(base.search('token author:"jane doe"')) == ["src/auth/token.py"]
    assert "src/old.py" not in paths(base.search("token refresh as it was", limit=20))
    assert paths(base.search("token class:Store import:requests")) == ["src/auth/token.py"]
    assert paths(base.search('token title:"token guide" section:retry')) == ["docs/token.md"]
    assert paths(base.search("token namespace:lib")) == ["lib/bucket.rs"]
    assert paths(base.search("token created_since:2026")) == ["#ops/2026-01-02"]
    (note,) = base.search("token created_until:soon").notes
    assert note.startswith("`created_until:soon` was searched for as words: a date is written")


@pytest.mark.usefixtures("shelf")
def test_by_words_alone_no_model_is_asked_and_nothing_is_missing(base: KnowledgeBase, server: OpenAIServer):
    before = len(server.requests)
    answer = base.search("bucket talk", mode="words", limit=20, explain=True)
    assert answer.results and answer.degraded == () and len(server.requests) == before
    assert {each.explain.vector_rank for each in answer.results if each.explain} == {None}
    assert paths(base.search("zebra", mode="words")) == [], "no word matches"
    assert base.similar(text="token loop", mode="words").results and len(server.requests) == before
    server.fail_next(*[Fault(500)] * 5)
    assert base.search("token in go", mode="words").degraded == (), "as no model is needed"
    assert len(server.faults) == 5
    server.faults.clear()


@pytest.mark.usefixtures("shelf")
def test_by_vectors_alone_full_text_is_not_asked(base: KnowledgeBase, server: OpenAIServer):
    answer = base.search("zebra", mode="vectors", limit=20, explain=True)
    assert answer.results, "the nearest, whatever their words are"
    assert {each.explain.bm25_rank for each in answer.results if each.explain} == {None}
    assert base.similar(text="token loop", mode="vectors", limit=20).results
    server.fail_next(*[Fault(500)] * 5)
    without = base.search("another zebra", mode="vectors")
    server.faults.clear()
    assert (without.results, without.degraded) == ((), ("vector",)), "an answer without vectors says so"


@pytest.mark.usefixtures("shelf")
def test_modes_have_answers_of_their_own_and_a_wrong_one_is_refused(base: KnowledgeBase):
    by_mode = {mode: base.search("token", mode=mode).query_id for mode in ("hybrid", "words", "vectors")}
    assert len(set(by_mode.values())) == 3
    assert not base.search("token loop", mode="words").cached
    assert not base.search("token loop", mode="vectors").cached, "of another mode than the cached answer"
    with pytest.raises(
        InvalidQuery, match="found the search mode 'lexical'; allowed: hybrid, words, vectors"
    ):
        base.search("token", mode="lexical")  # pyright: ignore[reportArgumentType]


@pytest.mark.usefixtures("shelf")
def test_depths_of_the_settings_hold_for_their_type(base: KnowledgeBase):
    depth = {"semantic": {"default_k": 3, "candidates": 10, "rerank_k": 1}, "code": {"default_k": 1}}
    changed = base.settings.model_copy(update={"query": QuerySettings.model_validate({"depth": depth})})
    with KnowledgeBase(changed) as shallow:
        assert len(shallow.search("token").results) == 3
        assert len(shallow.search("token", limit=5).results) == 5, "a limit of the question comes first"
        assert len(shallow.search("token", type="code").results) == 1
        assert len(shallow.similar(text="token").results) == 5, "the default of its type"


def test_candidates_are_as_many_as_the_settings_say(base: KnowledgeBase, lake: Lake, space: str):
    write(lake, space, [row(f"token {number}", f"src/{number}.py") for number in range(40)])
    publish(lake)

    async def count(settings: Settings) -> int:
        engine = Engine(settings, lake)
        hits, _ = await engine.find_unranked(SearchQuestion("token", "code"), Access.operator())
        await engine.aclose()
        return len(hits)

    assert asyncio.run(count(base.settings)) == 40
    depth = {"code": {"candidates": 12, "rerank_k": 1, "default_k": 2}}
    few = base.settings.model_copy(update={"query": QuerySettings.model_validate({"depth": depth})})
    assert 12 <= asyncio.run(count(few)) <= 24, "twelve by words, and twelve by vectors"


@pytest.mark.usefixtures("shelf")
def test_types_look_where_they_should(base: KnowledgeBase):
    assert set(paths(base.search("token", type="code"))) == {
        "src/auth/token.py",
        "src/auth/token.go",
        "lib/bucket.rs",
    }
    assert paths(base.search("token", type="historical")) == ["1f2e"]
    assert len(paths(base.search("token", limit=20))) == 7


@pytest.mark.usefixtures("shelf")
def test_similar_to_a_file_leaves_the_file_out_and_needs_no_embedding(
    base: KnowledgeBase, server: OpenAIServer
):
    before = len(server.requests)
    assert paths(base.similar(path="src/auth/token.py"))[0] == "src/auth/token.go"
    assert paths(base.similar(path="token.py")) == paths(base.similar(path="./src/auth/token.py"))
    assert "src/auth/token.py" not in paths(base.similar(path="token.py", limit=50))
    assert len(server.requests) == before


@pytest.mark.usefixtures("shelf")
def test_similar_to_a_text_from_a_file_leaves_that_file_out(base: KnowledgeBase):
    assert paths(base.similar(text="token loop"))[0] == "src/auth/token.py"
    assert paths(base.similar(text="token loop", path="src/auth/token.py"))[0] == "src/auth/token.go"


@pytest.mark.usefixtures("shelf")
def test_similar_reads_no_filters_into_a_text(base: KnowledgeBase):
    assert paths(base.similar(text="token refresh lang:go loop"))
    assert set(paths(base.search("token refresh lang:go", type="similar", limit=9))) > {"src/auth/token.go"}


CODE = "def retry(send, times):\n    for _ in range(times):\n        if send():\n            return True"


def test_what_is_like_code_is_code(base: KnowledgeBase, lake: Lake, space: str):
    texts = {
        "code": CODE,
        "github_pr": f"{CODE} ",
        "git_history": f"Add retry\n\n{CODE}",
        "markdown": f"# Retry {CODE}",
    }
    write(lake, space, [row(text, f"a/{type_}", source_type=type_) for type_, text in texts.items()])
    publish(lake)

    def types(text: str = CODE, **asked: Any) -> set[str]:
        answer = base.similar(text=text, **asked)
        assert any("taken as code" in note for note in answer.notes) == (not asked and text == CODE)
        return {result.metadata["source_type"] for result in answer.results}

    assert types() == {"code"}
    assert types(content_type="code") == {"code"}
    assert types(content_type="document") == {"markdown"}
    assert types("how a call is sent again until it works, if it fails") == set(texts)
    assert types(filters={"source_types": ["github_pr"]}) == {"github_pr"}
    assert types(filters={"paths": ["a/"]}) == set(texts)
    assert {it.metadata["source_type"] for it in base.search(CODE, type="similar").results} == {"code"}
    with pytest.raises(InvalidQuery, match="content_type 'prose'; allowed: code, document"):
        types(content_type="prose")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (CODE, True),
        ("for attempt in range(tries): ...", True),
        ("async function validateToken(token: string): Promise<boolean> { ... }", True),
        ("func (s *Store) Get(key string) (*Item, error) {", True),
        ("impl Store {\n    pub fn get(&self, key: &str) -> Option<&Value>", True),
        ("SELECT id, name FROM users WHERE age > 3", True),
        (
            'class Store:\n    """What is kept, and how long it is kept for.\n\n    See the guide.\n    """',
            True,
        ),
        ("What does the get_user() function do?", False),
        ("Using color in python printouts", False),
        ("import of goods from the mainland", False),
        ("Payments are retried, as the guide says:\n\n- twice at once\n- then hourly.", False),
        ("", False),
    ],
)
def test_code_is_told_from_prose(text: str, expected: bool):
    assert is_code(text) is expected


def test_a_path_of_several_files_is_refused_with_their_names(base: KnowledgeBase, lake: Lake, space: str):
    write(lake, space, [row("one", "a/x.py"), row("two", "b/x.py"), row("three", "a/x.py", source="other")])
    publish(lake)
    with pytest.raises(InvalidQuery, match=r"a/x\.py in app, b/x\.py in app, a/x\.py in other"):
        base.similar(path="x.py")
    with pytest.raises(InvalidQuery, match="several files"):
        base.similar(path="a/x.py")
    assert paths(base.similar(path="a/x.py", source="other")) == ["a/x.py", "b/x.py"]
    with pytest.raises(NotFound, match=r"there is no file 'y\.py'"):
        base.similar(path="y.py")


def test_get_gives_a_chunk_or_all_chunks_of_a_document_in_order(base: KnowledgeBase, lake: Lake, space: str):
    lines = [row(f"line {n}", "https://x.org/a:b", start_line=n, start_char=n * 100) for n in (3, 1, 2)]
    write(lake, space, [*lines, row("other", "b.py")])
    publish(lake)
    assert [result.content for result in base.get("app:https://x.org/a:b").results] == [
        "line 1",
        "line 2",
        "line 3",
    ]
    assert [result.content for result in base.get("app:https://x.org/a:b#2").results] == ["line 2"]
    for absent in ("app:nowhere", "", ":", "app:", "\ud800", "x" * 4_000):
        with pytest.raises(NotFound, match="there is no chunk or document"):
            base.get(absent)


def test_nothing_released_yet_is_said_in_one_sentence(base: KnowledgeBase, lake: Lake, space: str):
    for ask in (lambda: base.search("a"), lambda: base.get("a"), lambda: base.similar(text="a"), base.status):
        with pytest.raises(NotFound, match=r"^nothing is released yet: run `knowledge index`$"):
            ask()
    write(lake, space, [row("alpha")])
    with pytest.raises(NotFound):
        base.search("alpha")
    publish(lake)
    assert paths(base.search("alpha")) == ["src/app.py"]


def test_rows_written_after_a_release_are_invisible_until_the_next(
    base: KnowledgeBase, lake: Lake, space: str
):
    write(lake, space, [row("alpha beta", "a.py")])
    publish(lake)
    assert paths(base.search("alpha")) == ["a.py"]
    write(lake, space, [row("alpha gamma", "b.py"), row("changed", "a.py")])
    lake.index(space, 32).delete_where(one_of("id", ["app:a.py#1"]))
    assert [result.content for result in base.search("alpha").results] == ["alpha beta"]
    with pytest.raises(NotFound):
        base.get("app:b.py")
    publish(lake)
    answer = base.search("alpha")
    assert (paths(answer), answer.release) == (["b.py"], 2)
    release.restore_release(lake, 1, keep=5)
    answer = base.search("alpha")
    assert (paths(answer), answer.release) == (["a.py"], 3)


def test_a_store_made_anew_is_noticed(base: KnowledgeBase, lake: Lake, space: str):
    import shutil

    write(lake, space, [row("alpha", "old.py")])
    publish(lake)
    assert paths(base.search("alpha")) == ["old.py"]
    shutil.rmtree(lake.root)
    with pytest.raises(NotFound):
        base.search("alpha")
    write(lake, space, [row("alpha", "new.py")])
    publish(lake)
    assert paths(base.search("alpha")) == ["new.py"]


def test_rows_that_no_index_holds_yet_are_found_by_both_searches(base: KnowledgeBase, lake: Lake, space: str):
    write(lake, space, [row("alpha", f"{n}.py") for n in range(20)])
    publish(lake)
    write(lake, space, [row("zebra stripes", "late.py")])
    publish(lake, indexed=False)
    assert base.status().unindexed_rows == {space: 1}
    answer = base.search("zebra stripes", explain=True)
    assert paths(answer)[0] == "late.py"
    explained = answer.results[0].explain
    assert explained is not None and (explained.vector_rank, explained.bm25_rank) == (1, 1)


def test_equal_scores_come_in_the_order_of_their_ids(base: KnowledgeBase, lake: Lake, space: str):
    ids = [f"id{n:02}" for n in range(12)]
    same = {"header": "", "words": "alpha"}
    vector = row("alpha", "x.py")["vector"]
    write(lake, space, [row(f"alpha {id}", f"{id}.py", id=id, vector=vector, **same) for id in reversed(ids)])
    publish(lake)
    for _ in range(3):
        assert [result.id for result in base.search("alpha", limit=12).results] == ids


def test_equal_contents_are_answered_once(base: KnowledgeBase, lake: Lake, space: str):
    write(lake, space, [row("alpha", f"{n}.py") for n in range(5)] + [row("alpha beta", "b.py")])
    publish(lake)
    assert sorted(result.content for result in base.search("alpha", limit=6).results) == [
        "alpha",
        "alpha beta",
    ]


@pytest.mark.sampled
@pytest.mark.parametrize(
    "text",
    [
        "'; DROP TABLE index; --",
        'alpha" AND (beta',
        "alpha OR NOT +beta -gamma ~2 ^3 [a TO z] {x} /re/",
        "😀 émigré ñ 漢字",
        "\ud83d half a pair",
        "nul \x00 byte",
        "\u202ereversed\u200b",
        "!!! ??? ...",
        "alpha " * 600,
        "x" * 4000,
    ],
)
def test_odd_texts_are_answered(base: KnowledgeBase, lake: Lake, space: str, text: str):
    write(lake, space, [row("alpha 漢字", "a.py")])
    publish(lake)
    assert paths(base.search(text)) == ["a.py"]
    assert paths(base.similar(text=text)) == ["a.py"]


@pytest.mark.parametrize("ask", [
    {"text": ""}, {"text": "x" * 4001}, {"text": "a", "limit": 0}, {"text": "a", "limit": 101},
    {"text": "a", "type": "fuzzy"}, {"text": "a", "filters": Filters(tags=("x",) * 200), "limit": -1},
])  # fmt: skip
def test_a_question_out_of_bounds_is_refused(base: KnowledgeBase, lake: Lake, space: str, ask: dict):
    write(lake, space, [row("alpha")])
    publish(lake)
    with pytest.raises(InvalidQuery):
        base.search(ask.pop("text"), **ask)


def test_too_much_to_be_similar_to_is_refused(base: KnowledgeBase, lake: Lake, space: str):
    write(lake, space, [row("alpha " * 5000, "long.py"), row("alpha", "short.py")])
    publish(lake)
    assert paths(base.similar(path="long.py")) == ["short.py"]
    with pytest.raises(InvalidQuery, match="30,000 characters"):
        base.similar(text="alpha " * 5000)
    with pytest.raises(InvalidQuery, match="give a text or a path"):
        base.similar()
    with pytest.raises(InvalidQuery, match="the filters together have 201 values"):
        base.search("alpha tags:y", filters=Filters(tags=("x",) * 201))


def test_a_web_address_is_cited_with_its_lines(base: KnowledgeBase, lake: Lake, space: str):
    url = "https://example.org/blob/main/a.py"
    write(lake, space, [
        row("alpha\nbeta\ngamma", "a.py", start_line=10, url=url, title="A"),
        row("alpha", "b.py", url=f"{url}#top"),
        row("alpha two", "c.py", url="file:///c.py"),
    ])  # fmt: skip
    publish(lake)
    citations = {result.citation.path: result.citation for result in base.search("alpha").results}
    assert (citations["a.py"].lines, citations["a.py"].url, citations["a.py"].title) == (
        "L10-L12",
        f"{url}#L10-L12",
        "A",
    )
    assert (citations["b.py"].lines, citations["b.py"].url) == ("L1", f"{url}#top")
    assert citations["c.py"].url == "file:///c.py"


def test_metadata_of_extractors_and_columns_come_together(base: KnowledgeBase, lake: Lake, space: str):
    columns = {"metadata": '{"complexity": 3, "path": "fake"}', "symbol": "f", "page": 2}
    endpoint = {"metadata": '{"method": "GET", "path": "/pets/{id}"}', "source_type": "openapi"}
    write(lake, space, [row("alpha", "a.py", **columns), row("pets", "pets.yaml", **endpoint)])
    publish(lake)
    of_endpoint = base.search("pets", filters=Filters(source_types=("openapi",))).results[0]
    assert (of_endpoint.metadata["path"], of_endpoint.citation.path) == ("/pets/{id}", "pets.yaml")
    metadata = base.search("alpha").results[0].metadata
    assert (metadata["complexity"], metadata["path"], metadata["symbol"], metadata["page"]) == (
        3,
        "a.py",
        "f",
        2,
    )
    assert metadata["last_modified"] == "2026-03-01T12:00:00+00:00"
    assert not {"visibility", "tenant", "principals", "vector", "words"} & set(metadata)


def test_an_endpoint_that_is_down_leaves_full_text_and_says_so(
    base: KnowledgeBase, lake: Lake, space: str, server: OpenAIServer
):
    write(lake, space, [row("alpha", "a.py"), row("beta", "b.py")])
    publish(lake)
    server.fail_next(Fault(503))
    answer = base.search("alpha", explain=True)
    assert (paths(answer), answer.degraded) == (["a.py"], ("vector",))
    assert answer.explain is not None and "503" in answer.explain["degraded"]["vector"][space]
    assert base.search("alpha").degraded == ()


def test_a_refused_key_leaves_full_text(server: OpenAIServer, lake: Lake, space: str, settings: Settings):
    write(lake, space, [row("alpha", "a.py")])
    publish(lake)
    wrong = settings.model_copy(update={"embedding": endpoint(server, api_key="wrong-key")})
    with KnowledgeBase.open(wrong) as base:
        answer = base.search("alpha", explain=True)
    assert (paths(answer), answer.degraded) == (["a.py"], ("vector",))
    assert "wrong-key" not in str(answer.as_json())


@pytest.mark.parametrize(
    ("embedding", "reason"),
    [
        ({"provider": "local", "model": "./no-such-folder"}, "no-such-folder"),
        (
            {"provider": "openai", "model": "other", "dimensions": 8},
            "no embedding of knowledge.yaml makes the space",
        ),
        ({"provider": "openai", "model": "fake"}, "dimensions"),
    ],
)
def test_a_space_that_no_model_explains_is_searched_by_words(
    lake: Lake, space: str, settings: Settings, embedding: dict, reason: str
):
    write(lake, space, [row("alpha", "a.py"), row("beta", "b.py")])
    publish(lake)
    changed = settings.model_copy(update={"embedding": EmbeddingSettings.model_validate(embedding)})
    with KnowledgeBase.open(changed) as base:
        answer = base.search("alpha", explain=True)
    assert (paths(answer), answer.degraded) == (["a.py"], ("vector",))
    assert answer.explain is not None and reason in answer.explain["degraded"]["vector"][space]


def test_each_source_s_model_is_asked_for_its_own_space(
    server: OpenAIServer, lake: Lake, space: str, settings: Settings, tmp_path: Path
):
    code = endpoint(server, model="code-model")
    source = SourceConfig.model_validate(
        {"id": "code", "type": "code", "connection": {"type": "local", "path": tmp_path}, "embedding": code}
    )
    write(lake, space, [row("alpha prose", "a.md")])
    write(lake, resolve_space(code).name, [row("alpha code", "a.py")])
    publish(lake)
    with KnowledgeBase.open(settings.model_copy(update={"sources": (source,)})) as base:
        answer = base.search("alpha", explain=True)
    assert (set(paths(answer)), answer.degraded) == ({"a.md", "a.py"}, ())
    assert {result.explain.space for result in answer.results if result.explain} == {
        space,
        resolve_space(code).name,
    }
    assert all(result.explain and result.explain.vector_rank == 1 for result in answer.results)


def test_reciprocal_rank_answers_too(lake: Lake, space: str, settings: Settings):
    write(lake, space, [row("alpha", "a.py"), row("beta", "b.py")])
    publish(lake)
    by_rank = settings.model_copy(update={"query": QuerySettings(fusion="reciprocal_rank")})
    with KnowledgeBase.open(by_rank) as base:
        answer = base.search("alpha", explain=True)
    why = answer.results[0].explain
    assert why
    assert (paths(answer)[0], why.fused) == ("a.py", 1.0)


def test_an_answer_says_how_likely_it_answers_where_it_was_compared_by_meaning(
    base: KnowledgeBase, lake: Lake, space: str
) -> None:
    write(lake, space, [row("alpha beta", "a.py")])
    publish(lake)
    answered, strange = (base.search(text, explain=True) for text in ("alpha beta", "zebra quagga"))
    assert answered.confidence and strange.confidence
    assert 0 < strange.confidence < answered.confidence < 1
    assert answered.explain and answered.explain["confidence"]["nearest_words"] == pytest.approx(1.0)
    assert base.search("alpha beta", mode="words").confidence is None
    assert base.similar(text="alpha beta").confidence is None
    assert base.get(answered.results[0].id).confidence is None


def ask_for_corrections(base: KnowledgeBase, text: str, **options: Any) -> tuple[list[str], Any]:
    answer = base.search(text, mode="words", explain=True, **options)
    return paths(answer), (answer.explain or {}).get("corrected")


def test_a_word_that_no_document_has_is_read_as_the_nearest_that_some_have(
    base: KnowledgeBase, lake: Lake, space: str
) -> None:
    others = [row(f"something else, number {number}", f"{number}.py") for number in range(3)]
    write(lake, space, [row("upload the archive with a querry", "a.py"), *others])
    publish(lake)
    assert ask_for_corrections(base, "uplaod.") == (["a.py"], {"uplaod": "upload"})
    assert ask_for_corrections(base, "Uplaods for anybody") == (["a.py"], {"uplaods": "upload"})
    assert ask_for_corrections(base, "querry") == (["a.py"], None), "a document has it, right or wrong"
    assert ask_for_corrections(base, "uplaod.rs or `uplaod`") == ([], None), "names are left as they are"
    assert ask_for_corrections(base, "zygomorphic") == ([], None), "nothing is near"


def test_a_word_is_not_corrected_by_what_the_caller_may_not_see(
    base: KnowledgeBase, lake: Lake, space: str
) -> None:
    write(lake, space, [row("the quarterly forecast", "a.py", visibility="tenant", tenant="acme")])
    publish(lake)
    acme, other = (Access(tenant, frozenset()) for tenant in ("acme", "other"))
    assert ask_for_corrections(base, "forcast", access=acme) == (["a.py"], {"forcast": "forecast"})
    assert ask_for_corrections(base, "forcast", access=other) == ([], None)


def test_an_answer_is_plain_json(base: KnowledgeBase, lake: Lake, space: str):

    write(lake, space, [row("alpha", "a.py")])
    publish(lake)
    plain = base.search("alpha since:2020").as_json()
    assert set(plain) == {"query_id", "took_ms", "release", "degraded", "results", "timings_ms"} | {
        "cached",
        "embedded_share",
        "confidence",
        "notes",
    }
    assert set(plain["results"][0]) == {"id", "content", "score", "metadata", "citation", "related"}
    assert json.loads(json.dumps(plain)) == plain
    explained = base.search("alpha since:2020", explain=True).as_json()
    assert json.loads(json.dumps(explained)) == explained
    assert 0 < explained["results"][0]["explain"]["fused"] <= 1
    assert explained["explain"]["filters"] == [{"since": "2020-01-01T00:00:00+00:00"}]
