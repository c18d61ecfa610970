"""Tuning of a real store: what is learned, what is released, and how it is taken back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from knowledge_pipeline.errors import Busy, NotFound
from knowledge_pipeline.extensions import tuning as tune
from knowledge_pipeline.knowledge_base import KnowledgeBase
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.rank import load_model
from knowledge_pipeline.stages.pipeline import roll_back_release
from knowledge_pipeline.store.release import find_live_release, publish_ranker
from knowledge_pipeline_tests.conftest import Project
from knowledge_pipeline_tests.connectors.repositories import START, Repository

FILES = 70


_SHIPPED = load_model().one_family
MISLED_WEIGHTS = {**_SHIPPED.weights, "file_name": 5.0}
MISLED = replace(load_model(), one_family=replace(_SHIPPED, weights=MISLED_WEIGHTS))


def write_misleading_names(folder: Path) -> None:
    """Commits that ask for files whose names say nothing, beside files that are named as the questions."""
    stream = list[str]()  # by one process, not three for each commit

    def commit(path: str, text: str, message: str) -> None:
        at = f"Ada <ada@example.org> {START + 3600 * len(stream)} +0000"
        told = f"commit refs/heads/main\ncommitter {at}\ndata {len(message)}\n{message}\n"
        stream.append(f"{told}M 100644 inline {path}\ndata {len(text)}\n{text}\n")

    for number in range(FILES):
        topic = f"topic{chr(97 + number % 26)}{chr(97 + number // 26)}"
        text = f"def run_{number}():\n" + f"    let({topic}, handle, its, payment)\n" * 3
        decoy = f"def stop_{number}(its):\n    return its + {number}\n"
        commit(f"m{number}.py", text, f"Let {topic} handle its payment")
        commit(f"{topic}_payment.py", decoy, "decoy")
    repository = Repository(folder)
    repository.git("fast-import", "--quiet", stdin="".join(stream).encode())
    repository.git("reset", "-q", "--hard")


@pytest.fixture(scope="module")
def misled_once(template: Project) -> Project:
    """A store in which the weight of file names is wrong."""
    write_misleading_names(template.root / "app")
    template.declare("app", "code", template.root / "app")
    template.declare("past", "git_history", template.root / "app")
    template.refresh()
    publish_ranker(template.lake, MISLED.to_json(), keep=template.settings.releases.keep)
    return template


@pytest.fixture
def misled(project: Project, misled_once: Project) -> Project:
    """A copy of it."""
    project.copy_all(misled_once)
    return project


def read_boost(project: Project, question: str, path: str) -> float:
    """What the name of a file adds to its result."""
    with KnowledgeBase(project.settings, access=Access.operator()) as knowledge:
        results = knowledge.search(question, type="code", explain=True, limit=50).results
    (own,) = (result.explain for result in results if result.citation.path == path)
    assert own is not None
    return own.boosts.get("file_name", 0.0)


def test_weights_are_learned_released_kept_by_refreshes_and_rolled_back(
    misled: Project, tmp_path: Path
) -> None:
    asked = "Let topicaa handle its payment", "topicaa_payment.py"
    misleading = read_boost(misled, *asked)
    assert misleading == 5.0
    dry = tune.refresh(misled.lake, misled.settings, dry_run=True)
    assert dry.problem is None and dry.released is None and dry.pairs == {"commit": FILES}
    assert dry.after.one_family.weights["file_name"] < 5.0
    assert dry.after.one_family.weights["test"] == load_model().one_family.weights["test"]
    assert (len(dry.held_out), dry.gain.verdict) == (FILES // 5, "better")
    live = find_live_release(misled.lake)
    assert live is not None and (live.release, live.ranker) == (2, MISLED.to_json()), (
        "a dry run stores nothing"
    )

    made = tune.refresh(misled.lake, misled.settings)
    assert made.after == dry.after, "the same store gives the same weights"
    assert made.released is not None
    assert (made.released.release, made.released.ranker) == (3, made.after.to_json())
    assert made.released.tables == live.tables
    assert read_boost(misled, *asked) == made.after.one_family.weights["file_name"]

    (tmp_path / "app" / "new.py").write_text("def something_new():\n    return 1\n")
    misled.refresh()
    refreshed = find_live_release(misled.lake)
    assert refreshed is not None and (refreshed.release, refreshed.ranker) == (4, made.released.ranker)

    again = tune.refresh(misled.lake, misled.settings)
    assert again.problem == "the weights that it learns are live already" and again.released is None

    back = roll_back_release(misled.lake, misled.settings, 2)
    assert back.ranker == MISLED.to_json()
    assert read_boost(misled, *asked) == misleading
    with pytest.raises(Busy, match="release 5 is pinned"):
        tune.refresh(misled.lake, misled.settings)


def test_weights_that_golden_questions_do_not_like_are_not_released(misled: Project, tmp_path: Path) -> None:
    golden = tmp_path / "golden.yaml"
    golden.write_text(
        "type: code\nquestions:\n"
        "  - {question: where is the payment of topicaa, answers: [{path: topicaa_payment.py}]}\n"
    )
    evaluation = misled.settings.evaluation.model_copy(update={"questions": (golden,)})
    settings = misled.settings.model_copy(update={"evaluation": evaluation})
    result = tune.refresh(misled.lake, settings)
    assert result.gain.verdict == "better" and result.golden_gain is not None
    assert result.problem == "the golden questions are not answered better, by the paired bootstrap"
    assert result.released is None and find_live_release(misled.lake).release == 2  # type: ignore[union-attr]


def test_too_few_pairs_and_nothing_released_are_said(project: Project, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="nothing is released yet"):
        tune.refresh(project.lake, project.settings)
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "a.py").write_text('def f():\n    """Do what is needed here."""\n')
    project.declare("app", "code", tmp_path / "app")
    project.refresh()
    with pytest.raises(NotFound, match="found 1 pairs of a question and its answer, 50 are needed"):
        tune.refresh(project.lake, project.settings)
