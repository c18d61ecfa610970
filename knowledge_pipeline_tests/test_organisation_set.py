"""The evaluation set over an organisation is sound, and its texts come through the connectors."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack

import pytest

from benchmarks.mixed_measure import ANSWERS, NONE, Place, Question, Target
from benchmarks.organisation_set import Answer, find_medium, list_media, read_questions, summarize
from benchmarks.organisation_texts import FOLDER, OrganisationTexts, list_names, read_texts
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.connectors.registry import open_source
from knowledge_pipeline.records import Document


def test_there_are_as_many_texts_and_questions_as_promised():
    counts = {kind: len(read_texts(kind)) for kind in ("tickets", "pages", "threads", "pull_requests")}
    assert counts == {"tickets": 40, "pages": 40, "threads": 40, "pull_requests": 30}
    answerable = Counter(question.kind != NONE for question in read_questions())
    assert answerable == {True: 60, False: 30}


def test_names_ids_and_questions_are_unique():
    names, questions = list_names(), read_questions()
    assert len(set(names)) == len(names)
    assert (
        len({question.id for question in questions}) == len({question.text for question in questions}) == 90
    )


def test_every_target_is_a_text_of_the_set_a_commit_or_lines_of_a_file():
    names = set(list_names())
    rows = [json.loads(line) for line in (FOLDER / "questions.jsonl").read_text().splitlines()]
    targets = [target for row in rows for target in row["targets"]]
    assert {target["document"] for target in targets if "document" in target} - names == set()
    for target in targets:
        assert target["grade"] in (1, ANSWERS)
        assert "document" in target or "path" in target or re.fullmatch("[0-9a-f]{40}", target["commit"])
        assert "path" not in target or 1 <= target["start"] <= target["end"]


def test_only_questions_of_kind_none_have_no_target_that_answers():
    for question in read_questions():
        assert bool(list_media(question)) is (question.kind != NONE) is bool(question.targets), question.id
        assert len(set(question.targets)) == len(question.targets), question.id


def test_kinds_and_media_are_spread():
    answerable = [question for question in read_questions() if question.kind != NONE]
    kinds = Counter(question.kind for question in answerable)
    assert len(kinds) >= 9 and max(kinds.values()) <= 10
    media = Counter(medium for question in answerable for medium in list_media(question))
    assert media.keys() == {
        *("tickets", "wiki", "chat", "pull requests", "commits", "code", "documentation"),
    }
    assert min(media.values()) >= 10


def test_keys_that_texts_mention_are_those_of_tickets_and_pull_requests():
    files = [FOLDER / f"{kind}.yaml" for kind in ("tickets", "pages", "threads", "pull_requests")]
    mentioned = {key for file in files for key in re.findall(r"HTTPX-\d+", file.read_text())}
    assert mentioned - set(list_names()) == set()


@pytest.fixture(scope="module")
def documents(tmp_path_factory):
    """What the connectors make of the texts, by name."""
    read: dict[str, Document] = {}
    with OrganisationTexts() as texts, ExitStack() as stack:
        settings = Settings.model_validate({"sources": texts.declare()})
        for source in settings.sources:
            opened = stack.enter_context(open_source(source, cache=tmp_path_factory.mktemp("cache")))
            for item in opened.discover():
                document = opened.fetch(item)
                assert isinstance(document, Document)
                read[texts.names[source.id, document.uri]] = document
    return read


def test_connectors_read_all_texts_and_nothing_else(documents):
    assert documents.keys() == set(list_names())


def test_texts_keep_their_authors_days_and_parts(documents):
    ticket = documents["HTTPX-2"]
    assert "Comment by Jonas Weber, 2020-12-15:" in ticket.text
    assert ticket.metadata["status"] == "Done"
    page = documents["wiki/python-policy"]
    assert "| 3.7 | June 2023 | 0.24.1 |" in page.text
    thread = documents["chat/docker-socket"]
    assert thread.metadata["participants"] == ["Keiko Tanaka", "Tobias Renner"]
    assert thread.metadata["created_at"].startswith("2020-08-18T08:20")
    pull = documents["pull/1808"]
    assert "httpx/_client.py line 830" in pull.text
    assert pull.metadata["merged_at"].startswith("2021-09-13")


def test_a_question_counts_in_each_medium_that_answers_it():
    both = Question("q", "who", "?", (Target(Place("HTTPX-1"), 2), Target(Place("docs/a.md", 1, 9), 2)))
    nothing = Question("n", NONE, "?", ())
    rows = summarize([Answer(both, [Place("HTTPX-1")], 0.5), Answer(nothing, [], 0.1)])
    assert [row.name for row in rows] == ["all", "who", "in documentation", "in tickets"]
    assert {(row.questions, row.at_1) for row in rows} == {(1, 1.0)}
    assert find_medium("httpx/_auth.py") == "code"


def test_a_missing_mirror_is_named(tmp_path):
    command = [sys.executable, "-m", "benchmarks.organisation_set", "--mirrors", str(tmp_path / "none")]
    done = subprocess.run([*command, "--store", str(tmp_path / "store")], capture_output=True, text=True)
    assert done.returncode == 2
    assert "clone encode/httpx to there" in done.stderr
