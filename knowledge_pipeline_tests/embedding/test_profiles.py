"""Profiles, and the models that they choose: outlines, and a table of token vectors in the package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from knowledge_pipeline.config.embedding import PROFILES, EmbeddingSettings
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.embedding.ensemble import OUTLINE_TOKENS, build_outline
from knowledge_pipeline.embedding.registry import open_embedder, resolve_space
from knowledge_pipeline.knowledge_base import KnowledgeBase
from knowledge_pipeline.stages import pipeline
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.release import find_live_release

CODE = """app/store.py
def open_store(path)

def open_store(path):
    \"\"\"Open the store of a folder.\"\"\"
    storePath = path.resolve()
    return open_store_at(storePath, "6e284600be25c8833b866ef0")
"""


def test_the_default_profile_reads_code_and_prose_with_different_models() -> None:
    settings = EmbeddingSettings()
    assert settings.profile == "balanced"
    assert settings.resolve("code").model == PROFILES["balanced"].code
    assert settings.resolve("git_history").model == PROFILES["balanced"].code
    assert settings.resolve("jira").model == settings.resolve("markdown").model == PROFILES["balanced"].prose
    assert settings.resolve("code").profile is None
    assert EmbeddingSettings.model_validate(settings.model_dump()) == settings


@pytest.mark.parametrize("profile", PROFILES)
def test_every_model_of_a_profile_is_there_and_makes_its_space(profile: str) -> None:
    for type_ in ("code", "markdown"):
        resolved = EmbeddingSettings.model_validate({"profile": profile}).resolve(type_)
        embedder = open_embedder(resolved)
        assert embedder.space == resolve_space(resolved)
        assert embedder.space.max_tokens == 510  # so that another profile cuts the same chunks
        (vector,) = embedder.embed([CODE])
        near, far = embedder.embed_query("open the store"), embedder.embed_query("the weather in spring")
        assert vector.shape == near.shape == (embedder.space.dimensions,)
        assert vector @ near > vector @ far


def test_a_model_by_name_has_no_profile() -> None:
    settings = EmbeddingSettings(model="all-MiniLM-L6-v2")
    assert settings.profile is None
    assert settings.resolve("code") is settings


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"profile": "quick"}, "'fast', 'balanced' or 'best'"),
        ({"profile": "fast", "model": "all-mpnet-base-v2"}, "remove either profile or model"),
        ({"provider": "openai", "profile": "fast"}, "set provider to local"),
    ],
)
def test_a_profile_that_cannot_be_is_refused_with_what_to_do(values: dict[str, str], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        EmbeddingSettings.model_validate(values)


def test_an_outline_is_the_header_and_every_further_word_once() -> None:
    outline = build_outline(CODE)
    header, words = outline.split("\n\n")
    assert header == "app/store.py\ndef open_store(path)"
    assert words.split()[:4] == ["the", "of", "folder", "resolve"]
    assert len(set(words.split())) == len(words.split())
    assert build_outline("") == ""
    assert build_outline("{ } ( )") == "{ } ( )"


def test_an_outline_leaves_out_digests_and_is_cut() -> None:
    digest = "6e284600be25c8833b866ef0ebfab953"
    assert digest not in build_outline(f"src/{digest}_0.rs\n\nfn main() {{}}")
    embedder = open_embedder(EmbeddingSettings(model="all-MiniLM-L6-v2:outline"))
    text = "a.py\n\n" + " ".join(f"word{chr(97 + n % 26)}{chr(97 + n // 26)}" for n in range(400))
    embedder.embed([text])
    assert embedder.usage.tokens <= OUTLINE_TOKENS


def test_a_question_is_read_as_it_is() -> None:
    by_outline = open_embedder(EmbeddingSettings(model="all-MiniLM-L6-v2:outline"))
    whole = open_embedder(EmbeddingSettings(model="all-MiniLM-L6-v2"))
    question = "to be, or not to be: that is the question"
    np.testing.assert_array_equal(by_outline.embed_query(question), whole.embed_query(question))


def test_the_table_gives_every_text_a_vector_of_length_one_without_onnxruntime() -> None:
    code = (
        "import sys\n"
        "from knowledge_pipeline.config.settings import EmbeddingSettings\n"
        "from knowledge_pipeline.embedding.registry import open_embedder\n"
        "embedder = open_embedder(EmbeddingSettings(model='static-v1', backend='torch'))\n"
        "texts = ['getUserName', '', '\\u200b', '日本', 'a ' * 5000]\n"
        "assert abs((embedder.embed(texts) ** 2).sum(axis=1) - 1).max() < 1e-5\n"
        "print([name for name in ('torch', 'onnxruntime') if name in sys.modules])\n"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout == "[]\n"


def test_the_table_reads_parts_of_identifiers() -> None:
    embedder = open_embedder(EmbeddingSettings(model="static-v1"))
    one, two, other = embedder.embed(["getUserName", "get user name", "close the window"])
    assert one @ two > 0.9 > 0.5 > one @ other


def _build_settings(folder: Path, profile: str) -> Settings:
    source = {"id": "main", "type": "code", "connection": {"type": "local", "path": str(folder / "files")}}
    return Settings.model_validate(
        {"store": folder / "store", "embedding": {"profile": profile}, "sources": [source]}
    )


def test_after_a_change_of_profile_the_former_vectors_answer_until_a_refresh_has_made_the_new(
    tmp_path: Path,
) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files/store.py").write_text(CODE)
    first, second = (_build_settings(tmp_path, profile) for profile in ("best", "fast"))
    lake = Lake(first.store if isinstance(first.store, Path) else tmp_path)

    def refresh(settings: Settings) -> None:
        assert not pipeline.refresh(lake, settings, settings.sources).failures
        pipeline.refresh_release(lake, settings)

    refresh(first)
    with KnowledgeBase(second) as knowledge:  # the file says another profile, and nothing was refreshed
        found = knowledge.search("open the store of a folder", type="code")
        assert found.results
        assert found.degraded == ()
    refresh(second)
    live = find_live_release(lake)
    assert live is not None
    assert list(live.tables) == [resolve_space(second.resolve_embedding(second.sources[0])).name]
    with KnowledgeBase(second) as knowledge:
        found = knowledge.search("open the store of a folder", type="code")
        assert found.results
        assert found.degraded == ()
