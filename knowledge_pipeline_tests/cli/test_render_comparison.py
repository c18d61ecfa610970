"""`eval --steps`, `--set` and the comparisons, on a real index."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from knowledge_pipeline_tests.cli.conftest import Run

QUESTIONS = """
- question: sign the payload of a session
  type: code
  answers: [{path: src/sessions.py, symbol: sign_session}]
- {question: how is a failed request tried again, answers: [{path: docs/guide.md}]}
"""
ASKED = ("eval", "--questions", "golden.yaml")


@pytest.fixture
def golden(indexed: Path) -> Path:
    path = indexed / "golden.yaml"
    path.write_text(QUESTIONS)
    return path


def other(home: Path, query: str, *changes: tuple[str, str]) -> Path:
    """The project's file, with query settings, and text replaced."""
    text = (home / "knowledge.yaml").read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = home / "other.yaml"
    path.write_text(text + query)
    return path


@pytest.mark.slow
@pytest.mark.usefixtures("golden")
def test_each_step_is_a_row_with_its_change_to_the_fused_one(run: Run) -> None:
    shown = run(*ASKED, "--steps").out
    rows = [line.split()[:2] for line in shown.splitlines() if re.match(r"(all|code|semantic) +[a-z]", line)]
    assert rows == [
        [type_, step] for type_ in ("all", "code", "semantic") for step in ("vector", "bm25", "fused")
    ]
    assert "TO FUSED" in shown and "P95 MS" in shown and "retrieve " in shown
    told = run(*ASKED, "--steps", "--json").json
    assert list(told["steps"]) == ["vector", "bm25", "fused"]
    fused = told["steps"]["fused"]
    assert fused["types"]["code"]["questions"] == 1 and fused["types"]["code"]["timings_ms"]["fuse"] > 0
    assert fused["to_fused"]["all"]["by_place"]["nDCG@10"]["change"] == {"mean": 0, "low": 0, "high": 0}
    assert fused["to_fused"]["all"]["by_file"]["R@10"]["equal"] == 2


@pytest.mark.slow
@pytest.mark.usefixtures("golden")
def test_the_reranked_step_says_when_there_was_no_rerank(run: Run) -> None:
    reranked = ("--set", "query.rerank.model=./no-such-model", "--set", "query.rerank.types=[code]")
    told = run(*ASKED, "--steps", *reranked, "--json").json
    assert list(told["steps"]) == ["vector", "bm25", "fused", "reranked"]
    assert told["steps"]["reranked"]["types"]["code"]["degraded"] == {"rerank": 1}
    assert told["steps"]["reranked"]["types"]["semantic"]["degraded"] == {}
    shown = run(*ASKED, *reranked).out
    assert "code: 1 of 1 question answered without rerank" in shown


@pytest.mark.slow
def test_two_releases_are_compared_with_the_questions_that_were_lost(
    golden: Path, shop: Path, run: Run
) -> None:
    (shop / "src" / "sessions.py").write_text("nothing = 0\n")
    run("refresh")
    shown = run(*ASKED, "--against-release", "1").out
    assert re.search(r"code +nDCG@10 +1\.000 +0\.000 +-1\.000 \(-1\.000 to -1\.000\) +0 +1 +0", shown)
    assert "code: 1 question, nDCG@10 shows no clear difference; p50 " in shown
    assert "1 question lost\ncode: sign the payload of a session\n" in shown
    assert "nDCG@10 1.00 to 0.00, first answer at 1, now not found" in shown
    assert "0 questions won" in shown
    told = run(*ASKED, "--release", "1", "--against-release", "2", "--json").json
    assert (told["release"], told["against"]["release"]) == (1, 2)
    assert told["tables"] != told["against"]["tables"]
    became = told["changes"]["code"]["by_place"]["nDCG@10"]
    assert (became["better"], became["change"]["mean"], became["verdict"]) == (1, 1, "undecided")
    assert told["types"]["code"]["by_place"]["nDCG@10"]["mean"] == 1
    assert told["against"]["types"]["code"]["by_place"]["nDCG@10"]["mean"] == 0
    (won,) = told["changed_questions"]
    assert (won["question"], won["rank_before"], won["rank_after"]) == (
        "sign the payload of a session",
        None,
        1,
    )


def test_two_configurations_are_compared_over_one_index(golden: Path, run: Run) -> None:
    other(golden.parent, "query: {vector_weight: 0}\n")
    told = run(*ASKED, "--against-config", "other.yaml", "--json").json
    assert told["tables"] == told["against"]["tables"] and told["golden"] != told["against"]["golden"]
    assert set(told["changes"]) == {"all", "code", "semantic"}
    alike = run(*ASKED, "--set", "query.vector_weight=0", "--against-config", "other.yaml", "--json").json
    assert alike["golden"] == alike["against"]["golden"] and alike["changed_questions"] == []


def test_a_configuration_of_another_index_is_refused_in_one_sentence(golden: Path, run: Run) -> None:
    home = golden.parent
    other(home, "", ("store: .knowledge", "store: elsewhere"))
    assert "other.yaml has the store" in run(*ASKED, "--against-config", "other.yaml", code=2).err
    other(home, "", ("model: hashed-words", "model: other-words"))
    refused = run(*ASKED, "--against-config", "other.yaml", code=2).err
    assert "other.yaml has the embedding" in refused and refused.count("\n") == 1
    assert "there is no gone.yaml" in run(*ASKED, "--against-config", "gone.yaml", code=2).err


@pytest.mark.usefixtures("golden")
@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("query.vector_weight=7", "--set query.vector_weight: found '7'; allowed: a number of at most 1"),
        ("query.vector_wait=0.5", "found an unknown key; allowed: "),
        ("query.rerank=fast", "--set query.rerank: found 'fast'; allowed: a mapping of keys to values"),
        ("query.fusion.deep=1", "--set query.fusion: found a mapping; allowed: "),
        ("query.vector_weight", "allowed: a setting under query: query.vector_weight=0.7"),
        ("store=elsewhere", "allowed: a setting under query"),
        ("query=1", "allowed: a setting under query"),
        ("query.rerank.types=[code", "--set query.rerank.types:1: "),
        ("query.vector_weight=!!python/int 1", "--set query.vector_weight: found a YAML tag"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused_as_in_the_file(given: str, told: str, run: Run) -> None:
    refused = run(*ASKED, "--set", given, code=2).err
    assert told in refused and refused.count("\n") == 1


@pytest.mark.usefixtures("golden")
def test_what_does_not_go_together_is_refused(run: Run) -> None:
    for given in (("--steps", "--misses"), ("--steps", "--against-release", "1")):
        assert "give one of --steps, --misses" in run(*ASKED, *given, code=2).err
    assert "kept releases: 1" in run(*ASKED, "--against-release", "9", code=3).err
