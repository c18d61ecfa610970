"""A docstring that asks does not find itself: its chunk is scored as if it were indexed without."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from knowledge_pipeline.extensions.questions import ask_pairs
from knowledge_pipeline.extensions.tuning_examples import Example, Pair, build_example, iter_docstring_pairs
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.hits import Hit
from knowledge_pipeline.query.open_release import PinnedIndex
from knowledge_pipeline.query.plan import ParsedQuery, SearchQuestion, understand
from knowledge_pipeline.query.search import Engine
from knowledge_pipeline.stages.progress import ignore_progress
from knowledge_pipeline.store.federation import count_terms, split_terms
from knowledge_pipeline.store.release import find_live_release
from knowledge_pipeline_tests.conftest import Project

DOCSTRING = '    """Bring the lent volumes home before winter."""\n'
BODY = "def collect_books(shelf):\n{}    return [book for book in shelf if book.away]\n"
OTHERS = {
    f"room_{number}.py": f"def open_room_{number}(door):\n    return door.push({number}, 'home before')\n"
    for number in range(6)
}
SMALL = {
    "first.py": "def winter(volumes):\n    return home, volumes, winter, winter\n",
    "second.py": "def lent(volumes):\n    volumes = [lent for lent in volumes]\n" * 3,
    "third.py": "def home():\n    return 1\n",
    "fourth.py": "def other_thing(home):\n    return [before, winter, home, volumes]\n" * 2,
}


def write_library(folder: Path, docstring: str) -> Path:
    folder.mkdir()
    for name, text in {**OTHERS, "books.py": BODY.format(docstring)}.items():
        (folder / name).write_text(text)
    return folder


def find_pair(source: str) -> Pair:
    text = BODY.format(DOCSTRING)
    (pair,) = iter_docstring_pairs(text, source=source, path="books.py", language="python")
    return pair


async def find_hits(engine: Engine, text: str) -> tuple[list[Hit], ParsedQuery]:
    found = await engine.find_unranked(SearchQuestion(text, "code"), Access.operator())
    await engine.aclose()
    return found


def find_unmasked(project: Project, text: str) -> tuple[list[Hit], ParsedQuery]:
    live = find_live_release(project.lake)
    assert live is not None
    engine = Engine(project.settings, project.lake, index=PinnedIndex(project.lake, live.tables, None))
    return asyncio.run(find_hits(engine, text))


def test_a_pair_is_asked_as_if_its_docstring_were_not_indexed(project: Project, tmp_path: Path) -> None:
    """The oracle is the same file indexed without the docstring."""
    project.declare("app", "code", write_library(tmp_path / "with", DOCSTRING))
    project.refresh()
    pair = find_pair("app")
    live = find_live_release(project.lake)
    assert live is not None
    as_indexed, query = find_unmasked(project, pair.question.text)
    assert as_indexed[0].chunk.path == "books.py" and as_indexed[0].explanation.bm25_rank == 1
    ((_, masked),) = ask_pairs(project.lake, project.settings, live, [pair], ignore_progress)

    bare = Project(tmp_path / "bare", project.embedding)
    bare.declare("app", "code", write_library(tmp_path / "without", ""))
    bare.refresh()
    expected = read_fused(build(*find_unmasked(bare, pair.question.text)))
    assert read_fused(masked) == pytest.approx(expected, abs=0.05)
    assert read_fused(build(as_indexed, query)) - read_fused(masked) > 0.1, "the docstring is what found it"


def build(hits: list[Hit], query: ParsedQuery) -> Example:
    return build_example(
        ("a", "a"), hits, query, lambda chunk: {"file": chunk.path}, {"file": {"books.py": 1.0}}
    )


def read_fused(example: Example) -> float:
    """The feature `fused` of the answer."""
    (view,) = [each for each in example.views if each.name == "file"]
    return float(example.features[view.places == view.gains.argmax(), 0][0])


def test_scores_of_words_are_in_the_proportion_of_the_searchs_own(project: Project, tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    for name, text in SMALL.items():
        (tmp_path / "app" / name).write_text(text)
    project.declare("app", "code", tmp_path / "app")
    project.refresh()
    question = understand("bring the lent volumes home before winter").words
    live = find_live_release(project.lake)
    assert live is not None
    (space,) = live.tables
    rows = project.lake.index(space, project.lake.list_spaces()[space]).read_rows(["id", "words"])
    words = {row["id"]: row["words"] for row in rows.to_pylist()}
    statistics = count_terms(words.values(), [question])
    terms = frozenset(split_terms(question))
    hits = [hit for hit in find_unmasked(project, question)[0] if hit.explanation.bm25_score]
    ratios = [
        statistics.score(terms, words[hit.chunk.id]) / (hit.explanation.bm25_score or 1.0) for hit in hits
    ]
    assert len(ratios) == len(SMALL)
    assert ratios == pytest.approx([ratios[0]] * len(ratios), rel=1e-3)
