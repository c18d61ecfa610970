"""Models that run without torch; that they give torch's vectors, slow tests say."""

import json
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from knowledge_pipeline.config.embedding import EmbeddingSettings
from knowledge_pipeline.embedding.encoders import is_encoder
from knowledge_pipeline.embedding.model_folders import find_model_folder, read_tensors
from knowledge_pipeline.embedding.onnx_export import build_bert_graph
from knowledge_pipeline.embedding.registry import open_embedder
from knowledge_pipeline.errors import ModelError
from knowledge_pipeline_tests.fakes.tiny_bert import WINDOW, build_tiny_bert
from knowledge_pipeline_tests.fakes.tiny_model import build_tiny_model

MINILM = "all-MiniLM-L6-v2"
TEXTS = ["hello world", "def f(x): return x", "", "日本 語 x", "q\udcff", "a long text " * 60, "zzz"]


@pytest.fixture
def bert(tmp_path):
    return build_tiny_bert(tmp_path / "bert")


def _open(model, **settings):
    return open_embedder(EmbeddingSettings.model_validate({"model": str(model), **settings}))


def test_the_default_models_embed_texts_and_questions_without_torch():
    code = (
        "import sys\n"
        "from knowledge_pipeline.config.settings import EmbeddingSettings\n"
        "from knowledge_pipeline.embedding.registry import open_embedder\n"
        "embedder = open_embedder(EmbeddingSettings())\n"
        "assert embedder.embed(['a cat', 'a dog']).shape == (2, 768)\n"
        "assert embedder.embed_query('a cat').shape == (768,)\n"
        "heavy = ('torch', 'transformers', 'sentence_transformers', 'lancedb', 'pyarrow', 'httpx2')\n"
        "print([name for name in heavy if name in sys.modules])\n"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout == "[]\n"


def test_beside_a_gpu_models_run_without_torch_where_it_is_not_installed(bert):
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "sys.modules['torch'] = None\n"
        "from knowledge_pipeline.config.settings import EmbeddingSettings\n"
        "from knowledge_pipeline.embedding import local\n"
        "local._GPU_DEVICES = (Path(sys.argv[1]),)\n"
        "embedder = local.LocalEmbedder(EmbeddingSettings(model=sys.argv[1]))\n"
        "assert embedder.embed(['a cat']).shape == (1, 48)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(bert)], check=True)


@pytest.mark.parametrize("backend", ["torch", "onnx-int8"])
def test_without_torch_a_backend_that_needs_it_says_what_to_install(bert, monkeypatch, backend):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(
        ModelError, match=r"needs a package that is not installed: pip install 'knowledge-pipeline\[local\]'"
    ):
        _open(bert, backend=backend).embed(["text"])


def test_vectors_have_length_one_and_do_not_depend_on_other_texts(bert):
    embedder = _open(bert)
    vectors = embedder.embed(TEXTS)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    np.testing.assert_array_equal(np.stack([embedder.embed([text])[0] for text in TEXTS]), vectors)
    np.testing.assert_array_equal(embedder.embed_query(TEXTS[1]), vectors[1])


def test_tokens_are_counted_as_the_tokenizer_counts_them(bert):
    embedder = _open(bert)
    embedder.embed(TEXTS)
    tokenize, most = embedder.tokenizer(), embedder.space.max_tokens
    assert most == WINDOW - 2
    assert embedder.usage.tokens == sum(min(len(tokenize(text)), most) for text in TEXTS)


def test_threads_share_an_encoder(bert):
    embedder = _open(bert)
    alone = embedder.embed(TEXTS)
    with ThreadPoolExecutor(6) as pool:
        for vectors in pool.map(lambda _: embedder.embed(TEXTS), range(12)):
            np.testing.assert_array_equal(vectors, alone)


def test_fewer_dimensions_are_the_first_ones_normalised_anew(bert):
    whole, cut = (_open(bert, dimensions=size).embed(TEXTS) for size in (None, 8))
    np.testing.assert_allclose(
        cut, whole[:, :8] / np.linalg.norm(whole[:, :8], axis=1, keepdims=True), atol=1e-6
    )


def test_links_to_files_elsewhere_are_followed(bert, tmp_path):
    """As in the hub's cache."""
    linked = tmp_path / "linked"
    linked.mkdir()
    for path in bert.iterdir():
        (linked / path.name).symlink_to(path)
    np.testing.assert_array_equal(_open(linked).embed(TEXTS), _open(bert).embed(TEXTS))


def test_the_first_token_stands_for_the_text_where_the_model_says_so(bert, tmp_path):
    by_first = build_tiny_bert(tmp_path / "first", pooling="cls")
    assert np.abs(_open(by_first).embed(TEXTS) - _open(bert).embed(TEXTS)).max() > 1e-2


@pytest.mark.parametrize("cut", [1, 10_000])
def test_weights_that_are_cut_say_what_to_do(bert, cut):
    weights = bert / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-cut])
    with pytest.raises(ModelError, match="install or download it again"):
        _open(bert).embed(["text"])


def test_a_damaged_tokenizer_says_what_to_do(bert):
    (bert / "tokenizer.json").write_text("{}")
    with pytest.raises(ModelError, match="install or download it again"):
        _open(bert).embed(["text"])


def test_a_layer_that_is_missing_says_what_to_do(bert):
    config = json.loads((bert / "config.json").read_text())
    (bert / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 3}))
    with pytest.raises(ModelError, match="install or download it again"):
        _open(bert).embed(["text"])


def test_models_that_need_more_than_an_encoder_are_left_to_torch(tmp_path):
    assert is_encoder(find_model_folder(MINILM))
    assert is_encoder(build_tiny_model(tmp_path / "static"))
    assert is_encoder(build_tiny_bert(tmp_path / "bare", pooling=None))
    assert not is_encoder(build_tiny_bert(tmp_path / "max", pooling="max"))
    assert not is_encoder(build_tiny_bert(tmp_path / "half", dtype=np.float16))

    def changed(name: str, content: dict[str, object]) -> bool:
        folder = build_tiny_bert(tmp_path / "changed")
        before = json.loads((folder / name).read_text()) if (folder / name).is_file() else {}
        (folder / name).write_text(json.dumps({**before, **content}))
        found = is_encoder(folder)
        shutil.rmtree(folder)
        return found

    switches = {f"pooling_mode_{mode}": False for mode in ("cls_token", "mean_tokens", "max_tokens")}
    assert not changed("1_Pooling/config.json", switches)
    assert changed("config.json", {"hidden_act": "gelu"})
    assert not changed("config.json", {"hidden_act": "relu"})
    assert not changed("config.json", {"model_type": "mpnet"})
    assert not changed("config.json", {"position_embedding_type": "relative_key"})
    assert not changed("sentence_bert_config.json", {"do_lower_case": True})
    assert not changed("config_sentence_transformers.json", {"prompts": {"query": "query: "}})
    assert changed("config_sentence_transformers.json", {"prompts": {"query": "", "document": ""}})


def test_tensors_are_found_where_they_lie(bert):
    from safetensors.numpy import load_file

    path = bert / "model.safetensors"
    content = path.read_bytes()
    for name, value in load_file(path).items():
        tensor = read_tensors(path)[name]
        assert content[tensor.offset : tensor.offset + tensor.length] == value.tobytes()
        assert tensor.shape == value.shape


@pytest.mark.pytorch
@pytest.mark.slow
@pytest.mark.parametrize("pooling", ["mean", "cls", None])
def test_a_small_encoder_gives_the_vectors_of_torch(tmp_path, pooling):
    folder = build_tiny_bert(tmp_path / "bert", pooling=pooling)
    here, there = (_open(folder, backend=backend) for backend in ("auto", "torch"))
    np.testing.assert_allclose(here.embed(TEXTS), there.embed(TEXTS), atol=1e-5)
    np.testing.assert_allclose(here.embed_query(TEXTS[1]), there.embed_query(TEXTS[1]), atol=1e-5)
    assert here.usage == there.usage


@pytest.mark.pytorch
@pytest.mark.slow
def test_a_table_of_token_vectors_gives_the_vectors_of_torch(tmp_path):
    folder = build_tiny_model(tmp_path / "static")
    texts = [text for text in TEXTS if text]
    for dimensions in (None, 8):
        here, there = (_open(folder, backend=each, dimensions=dimensions) for each in ("auto", "torch"))
        np.testing.assert_allclose(here.embed(texts), there.embed(texts), atol=1e-6)
        assert here.usage == there.usage


def test_the_graph_is_what_the_onnx_package_reads_and_accepts(bert):
    import onnx

    model = onnx.load_from_string(build_bert_graph(bert, bert / "model.safetensors"))
    assert model.opset_import[0].version == 20
    assert [each.name for each in model.graph.input] == ["input_ids"]
    onnx.save(model, bert / "graph.onnx")
    onnx.checker.check_model(str(bert / "graph.onnx"), full_check=True)
    again = onnx.load_from_string(model.SerializeToString())
    assert again == model  # nothing of it was unknown to the package, or written twice
