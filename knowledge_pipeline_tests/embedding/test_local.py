"""Files and spaces of local models here; what needs torch is in test_local_vectors.py."""

import json
import subprocess
import sys

import pytest

from knowledge_pipeline.config.embedding import EmbeddingSettings
from knowledge_pipeline.embedding.registry import open_embedder, resolve_space
from knowledge_pipeline.errors import ModelError
from knowledge_pipeline_tests.counted import steps
from knowledge_pipeline_tests.fakes.tiny_model import build_tiny_model


@pytest.fixture
def tiny(tmp_path):
    return build_tiny_model(tmp_path / "Tiny Model_v1.5")


def test_the_default_space_is_told_from_small_files(tiny):
    space = resolve_space(EmbeddingSettings())
    name = "all-MiniLM-L6-v2+bge-small-en-v1.5"
    assert (space.model, space.dimensions, space.max_tokens) == (name, 768, 510)
    assert space.name.startswith("all-minilm-l6-v2-bge-small-en-v1-5-")


def test_a_space_that_was_told_is_told_again_in_a_few_steps():
    resolve_space(EmbeddingSettings())
    # 8,000, of which pathlib takes half, and twice as many in Python 3.12; the first time it takes 52,000
    assert steps(lambda: resolve_space(EmbeddingSettings())) < 20_000


def test_opening_an_embedder_and_its_tokenizer_loads_no_torch():
    code = (
        "import sys\n"
        "from knowledge_pipeline.config.settings import EmbeddingSettings\n"
        "from knowledge_pipeline.embedding.registry import open_embedder\n"
        "embedder = open_embedder(EmbeddingSettings())\n"
        "assert embedder.tokenizer()('two words') == [0, 4]\n"
        "assert embedder.space.dimensions == 768\n"
        "heavy = ('torch', 'sentence_transformers', 'onnxruntime', 'httpx2')\n"
        "print([name for name in heavy if name in sys.modules])\n"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout == "[]\n"


def test_a_space_name_is_fit_for_a_file_and_the_same_wherever_the_folder_lies(tiny, tmp_path):
    name = resolve_space(EmbeddingSettings(model=str(tiny))).name
    assert name.startswith("tiny-model-v1-5-")
    elsewhere = build_tiny_model(tmp_path / "elsewhere" / tiny.name)
    assert resolve_space(EmbeddingSettings(model=f"{elsewhere}/")).name == name
    assert open_embedder(EmbeddingSettings(model=str(tiny))).space.name == name


def test_other_weights_configuration_or_dimensions_make_another_space(tiny):
    names = {
        resolve_space(EmbeddingSettings(model=str(tiny))).name,
        resolve_space(EmbeddingSettings(model=str(tiny), dimensions=16)).name,
    }

    weights = tiny / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    names.add(resolve_space(EmbeddingSettings(model=str(tiny))).name)

    (tiny / "config_sentence_transformers.json").write_text(json.dumps({"prompts": {"query": "query: "}}))
    names.add(resolve_space(EmbeddingSettings(model=str(tiny))).name)
    assert len(names) == 4


def test_dimensions_follow_the_last_module_that_makes_vectors(tmp_path):
    folder = tmp_path / "dense"
    steps = [
        ("Transformer", ""),
        ("Pooling", "1_Pooling"),
        ("Dense", "2_Dense"),
        ("Normalize", "3_Normalize"),
    ]
    _write(folder / "modules.json", [{"type": f"st.{kind}", "path": place} for kind, place in steps])
    _write(folder / "config.json", {"hidden_size": 100, "max_position_embeddings": 512})
    _write(folder / "1_Pooling/config.json", {"embedding_dimension": 100, "pooling_mode": ["cls", "mean"]})
    _write(folder / "2_Dense/config.json", {"in_features": 200, "out_features": 64})
    space = resolve_space(EmbeddingSettings(model=str(folder)))
    assert (space.dimensions, space.max_tokens) == (64, 510)

    _write(folder / "modules.json", [{"type": f"st.{kind}", "path": place} for kind, place in steps[:2]])
    assert resolve_space(EmbeddingSettings(model=str(folder))).dimensions == 200
    both = {
        "word_embedding_dimension": 100,
        "pooling_mode_cls_token": False,
        "pooling_mode_mean_tokens": True,
    }
    _write(folder / "1_Pooling/config.json", both)
    assert resolve_space(EmbeddingSettings(model=str(folder))).dimensions == 100


def _write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


@pytest.mark.parametrize("content", ["{", "[{}]", "[]", '[{"type": "x.Pooling", "path": "missing"}]'])
def test_a_damaged_configuration_says_so(tiny, content):
    (tiny / "modules.json").write_text(content)
    with pytest.raises(ModelError, match="is damaged"):
        resolve_space(EmbeddingSettings(model=str(tiny)))
