"""Transformers as ONNX, for onnxruntime to run instead of torch: exported, or built for a BERT.

Exports are in the user's cache, named after everything that determines their bytes. They are derived
from the model and can be deleted at any time.
"""

from __future__ import annotations

import inspect
import logging
import struct
import tempfile
import warnings
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from knowledge_pipeline.embedding.base import space_name
from knowledge_pipeline.embedding.model_folders import Tensor, read_json, read_tensors
from knowledge_pipeline.embedding.parallel import open_onnx_session
from knowledge_pipeline.errors import ModelError

if TYPE_CHECKING:
    import torch


_MODEL_TYPES = frozenset({"bert", "distilbert", "mpnet", "roberta", "xlm-roberta"})
_MAX_WEIGHT_BYTES = 1 << 30  # ONNX holds no more in one file
_OPSET = 20  # the first with Gelu as one operation
_RECIPE = f"opset {_OPSET}, eager attention, int8 per channel"
_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
_MIN_COSINE = {False: 0.9999, True: 0.9}  # by whether it is quantised; below it, the export is broken
_SAMPLE_TOKENS = (7, 60)


def build_export_path(name: str, *identity: object, int8: bool) -> Path:
    """The path of a model's exported file, by everything that determines its vectors."""
    from platformdirs import user_cache_path

    stem = space_name(name, _RECIPE, *identity)
    return user_cache_path("knowledge_pipeline") / "onnx" / f"{stem}{'-int8' if int8 else ''}.onnx"


def is_exportable(transformer: Any) -> bool:
    """Whether the first module of a sentence-transformers model is a transformer of a known kind."""
    model = getattr(transformer, "model", None)
    if getattr(getattr(model, "config", None), "model_type", None) not in _MODEL_TYPES or model is None:
        return False
    weights = model.parameters()
    return sum(weight.numel() * weight.element_size() for weight in weights) <= _MAX_WEIGHT_BYTES


def export_to_onnx(transformer: Any, path: Path, *, int8: bool) -> None:
    """Write the ONNX file of the first module of a sentence-transformers model, on the CPU, or nothing.

    One process at a time does. The weights of `int8` are quantised, channel by channel.

    Raises `ModelError`: the export fails, gives other vectors, or cannot be written.
    """
    from filelock import FileLock

    try:
        if path.is_file():
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_suffix(".lock")):
            if not path.is_file():
                _export_verified(transformer.model, path, int8=int8)
    except ModelError:
        raise
    except Exception as error:  # whatever torch, onnx and onnxruntime raise, and a full disk
        raise ModelError(
            f"the model cannot be exported to {path.name} ({type(error).__name__}): make sure that the "
            "user's cache folder can be written and the disk is not full, or set embedding.backend to torch"
        ) from error


def _export_verified(model: torch.nn.Module, path: Path, *, int8: bool) -> None:
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        exported = Path(folder) / "model.onnx"
        with _silence_exporters(), _use_eager_attention(model):
            input_names = _write_onnx(model, exported)
            if int8:
                exported = _quantize(exported)
            _require_similar_vectors(model, exported, input_names, min_cosine=_MIN_COSINE[int8])
        exported.replace(path)


def _write_onnx(model: Any, path: Path) -> list[str]:
    """Export a model; the names of its inputs."""
    import torch

    class Hidden(torch.nn.Module):
        """The last hidden states alone, of inputs by position."""

        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
            return self.model(**dict(zip(names, inputs, strict=True))).last_hidden_state

    parameters = inspect.signature(model.forward).parameters
    names = [name for name in _INPUTS if name in parameters]
    ones = torch.ones((2, 6), dtype=torch.int64)
    samples = {"input_ids": ones + 1, "attention_mask": ones, "token_type_ids": ones - 1}
    axes = {0: torch.export.Dim("texts", min=1, max=4096), 1: torch.export.Dim("tokens", min=2, max=512)}
    torch.onnx.export(  # pyright: ignore[reportUnknownMemberType]  # a bare PathLike
        Hidden().eval(),
        tuple(samples[name] for name in names),
        str(path),
        dynamo=True,
        input_names=names,
        output_names=["last_hidden_state"],
        dynamic_shapes=((axes,) * len(names),),
        external_data=False,
        opset_version=_OPSET,
        verbose=False,
    )
    return names


def _quantize(path: Path) -> Path:
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic  # pyright: ignore[reportMissingTypeStubs, reportUnknownVariableType]  # it has none

    model = onnx.load(str(path))  # pyright: ignore[reportUnknownMemberType]  # a bare PathLike
    note = model.metadata_props.add()
    note.key, note.value = "onnx.quant.pre_process", "onnxruntime.quant"  # otherwise the root logger is used
    target = path.with_name("int8.onnx")
    operations = ["MatMul", "Gemm"]
    quantize_dynamic(
        model, str(target), per_channel=True, weight_type=QuantType.QInt8, op_types_to_quantize=operations
    )
    return target


def _require_similar_vectors(model: Any, path: Path, names: list[str], *, min_cosine: float) -> None:
    """Raise `ModelError` unless both give a few arbitrary texts similar vectors."""
    import torch

    session: Any = open_onnx_session(str(path))
    for length in _SAMPLE_TOKENS:
        ids = 1 + np.arange(length, dtype=np.int64)[None] * 7 % (model.config.vocab_size - 2)
        inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        fed = {name: inputs[name] for name in names}
        with torch.inference_mode():
            expected = model(**{name: torch.from_numpy(value) for name, value in fed.items()})  # pyright: ignore[reportUnknownMemberType]  # it has no types
        reference = expected.last_hidden_state.numpy().mean(axis=1)[0]
        vector = session.run(None, fed)[0].mean(axis=1)[0]
        cosine = float(reference @ vector / (np.linalg.norm(reference) * np.linalg.norm(vector)))
        if not cosine >= min_cosine:  # NaN compares false
            raise ModelError(
                f"the model exported to {path.name} gives other vectors (cosine {cosine:.4f}): "
                "set embedding.backend to torch"
            )


@contextmanager
def _use_eager_attention(model: Any) -> Generator[None]:
    """Attention as separate operations, which onnxruntime fuses."""
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    try:
        yield
    finally:
        model.set_attn_implementation(before)


@contextmanager
def _silence_exporters() -> Generator[None]:
    """Exporters log operators that no text model has."""
    logger = logging.getLogger("torch")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)


# Numbers of fields are those of onnx.proto3 (https://onnx.ai/onnx/repo-docs/IR.html), which never change.
# The package `onnx` writes them as well, but importing it takes longer than a search.
FLOAT, INT64 = 1, 7
"""Types of a tensor's elements."""

_IR_VERSION = 9
_EXTERNAL = 1
_ATTRIBUTE_FLOAT, _ATTRIBUTE_INT, _ATTRIBUTE_INTS = 1, 2, 7
_LENGTH_DELIMITED, _FIXED_32_BITS = 2, 5  # wire types of protocol buffers; 0 is a varint

AttributeValue = int | float | Sequence[int]
_Field = tuple[int, int | float | str | bytes]  # its number, and its value: of an inner message, the bytes


def _write_node(
    kind: str, inputs: Sequence[str], output: str, attributes: Mapping[str, AttributeValue]
) -> bytes:
    """One operation with one output."""
    written = [(5, _write_attribute(name, value)) for name, value in attributes.items()]
    return _encode(*((1, name) for name in inputs), (2, output), (4, kind), *written)


def _write_external_tensor(
    name: str, element_type: int, shape: Sequence[int], *, file: str, offset: int, length: int
) -> bytes:
    """A constant whose bytes lie in another file."""
    location = {"location": file, "offset": str(offset), "length": str(length)}
    entries = [(13, _encode((1, key), (2, value))) for key, value in location.items()]
    return _encode(*((1, size) for size in shape), (2, element_type), (8, name), *entries, (14, _EXTERNAL))


def _write_tensor(name: str, element_type: int, shape: Sequence[int], content: bytes) -> bytes:
    """A constant with its bytes, little-endian."""
    return _encode(*((1, size) for size in shape), (2, element_type), (8, name), (9, content))


def _write_value(name: str, element_type: int, shape: Sequence[int | str]) -> bytes:
    """An input or output of the graph; a dimension that varies has a name."""
    dimensions = [(1, _encode((1 if isinstance(size, int) else 2, size))) for size in shape]
    tensor = _encode((1, element_type), (2, _encode(*dimensions)))
    return _encode((1, name), (2, _encode((1, tensor))))


def _write_model(
    nodes: Sequence[bytes], constants: Sequence[bytes], model_input: bytes, output: bytes, *, opset: int
) -> bytes:
    """A whole model with one input and one output."""
    inner = [*((1, node) for node in nodes), (2, "encoder"), *((5, constant) for constant in constants)]
    graph = _encode(*inner, (11, model_input), (12, output))
    return _encode((1, _IR_VERSION), (7, graph), (8, _encode((1, ""), (2, opset))))


def _write_attribute(name: str, value: AttributeValue) -> bytes:
    if isinstance(value, int):
        return _encode((1, name), (3, value), (20, _ATTRIBUTE_INT))
    if isinstance(value, float):
        return _encode((1, name), (2, value), (20, _ATTRIBUTE_FLOAT))
    return _encode((1, name), *((8, number) for number in value), (20, _ATTRIBUTE_INTS))


def _encode(*fields: _Field) -> bytes:
    return b"".join(_encode_field(*field) for field in fields)


def _encode_field(number: int, value: int | float | str | bytes) -> bytes:
    if isinstance(value, int):
        return _encode_varint(number << 3) + _encode_varint(value & (1 << 64) - 1)
    if isinstance(value, float):
        return _encode_varint(number << 3 | _FIXED_32_BITS) + struct.pack("<f", value)
    content = value.encode() if isinstance(value, str) else value
    return _encode_varint(number << 3 | _LENGTH_DELIMITED) + _encode_varint(len(content)) + content


def _encode_varint(value: int) -> bytes:
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])


TOKEN_IDS = "input_ids"  # noqa: S105 - the input: int64, shape (1, tokens)
_EXPECTED = {"model_type": "bert", "hidden_act": "gelu"}
_WORDS = "embeddings.word_embeddings.weight"


def is_bert(folder: Path, weights: Path) -> bool:
    """Whether a folder's `config.json` and a safetensors file are those of a BERT encoder of 32 bits.

    Raises `OSError`, `ValueError`: its files are damaged.
    """
    config = read_json(folder / "config.json")
    if any(config.get(key) != value for key, value in _EXPECTED.items()):
        return False
    if config.get("position_embedding_type", "absolute") != "absolute" or config.get("is_decoder"):
        return False
    tensors = read_tensors(weights)
    trained = (tensor for name, tensor in tensors.items() if name.endswith((".weight", ".bias")))
    return _WORDS in tensors and all(tensor.dtype == "F32" for tensor in trained)


def build_bert_graph(folder: Path, weights: Path) -> bytes:
    """The serialized graph of a model for which `is_bert` holds; it names the weights' file, not its folder.

    Its input is `TOKEN_IDS`; its output the last hidden states: float32, shape (1, tokens, hidden). It
    computes what `transformers.BertModel` does (Devlin et al. 2018, https://arxiv.org/abs/1810.04805). It is
    built in milliseconds; the weights stay in the model's file, mapped into memory.

    Raises `OSError`, `ValueError`, `KeyError`: the files are damaged.
    """
    return _GraphBuilder(read_json(folder / "config.json"), weights.name, read_tensors(weights)).build()


class _GraphBuilder:
    """Operations by their outputs' names. Within the graph, one text is a matrix (tokens, hidden).

    Only one text is read at a time, so neither padding nor a mask is needed.
    """

    def __init__(self, config: Mapping[str, Any], file: str, tensors: Mapping[str, Tensor]) -> None:
        self._config = config
        self._file = file
        self._tensors = tensors
        self._nodes: list[bytes] = []
        self._constants: dict[str, bytes] = {}

    def build(self) -> bytes:
        """The whole model."""
        hidden = self._build_embeddings()
        for layer in range(self._config["num_hidden_layers"]):
            hidden = self._build_layer(hidden, f"encoder.layer.{layer}")
        output = self._operation("Unsqueeze", hidden, self._integers([0]))
        input_ = _write_value(TOKEN_IDS, INT64, [1, "tokens"])
        output_value = _write_value(output, FLOAT, [1, "tokens", self._config["hidden_size"]])
        constants = list(self._constants.values())
        return _write_model(self._nodes, constants, input_, output_value, opset=_OPSET)

    def _build_embeddings(self) -> str:
        ids = self._operation("Reshape", TOKEN_IDS, self._integers([-1]))
        zero, one = self._integers(0), self._integers(1)
        positions = self._operation("Range", zero, self._operation("Size", ids), one)
        words = self._operation("Gather", self._weight(_WORDS), ids)
        places = self._operation("Gather", self._weight("embeddings.position_embeddings.weight"), positions)
        kind = self._operation("Gather", self._weight("embeddings.token_type_embeddings.weight"), zero)
        total = self._operation("Add", self._operation("Add", words, kind), places)
        return self._normalize(total, "embeddings.LayerNorm")

    def _build_layer(self, hidden: str, layer: str) -> str:
        attended = self._attend(hidden, f"{layer}.attention.self")
        total = self._operation("Add", self._dense(attended, f"{layer}.attention.output.dense"), hidden)
        hidden = self._normalize(total, f"{layer}.attention.output.LayerNorm")
        inner = self._operation("Gelu", self._dense(hidden, f"{layer}.intermediate.dense"))
        total = self._operation("Add", self._dense(inner, f"{layer}.output.dense"), hidden)
        return self._normalize(total, f"{layer}.output.LayerNorm")

    def _attend(self, hidden: str, attention: str) -> str:
        """Scaled dot products of every pair of tokens, by heads."""
        heads, width = self._config["num_attention_heads"], self._config["hidden_size"]
        by_heads = self._integers([0, heads, width // heads])
        query, key, value = (
            self._operation("Reshape", self._dense(hidden, f"{attention}.{part}"), by_heads)
            for part in ("query", "key", "value")
        )
        query = self._operation("Transpose", query, perm=[1, 0, 2])
        scores = self._operation("MatMul", query, self._operation("Transpose", key, perm=[1, 2, 0]))
        scale = self._constant(FLOAT, [], struct.pack("<f", (width // heads) ** -0.5))
        weights = self._operation("Softmax", self._operation("Mul", scores, scale), axis=-1)
        mixed = self._operation("MatMul", weights, self._operation("Transpose", value, perm=[1, 0, 2]))
        together = self._operation("Transpose", mixed, perm=[1, 0, 2])
        return self._operation("Reshape", together, self._integers([0, width]))

    def _dense(self, input_: str, name: str) -> str:
        weight, bias = self._weight(f"{name}.weight"), self._weight(f"{name}.bias")
        return self._operation("Gemm", input_, weight, bias, transB=1)

    def _normalize(self, input_: str, name: str) -> str:
        weight, bias = self._weight(f"{name}.weight"), self._weight(f"{name}.bias")
        epsilon = float(self._config.get("layer_norm_eps", 1e-12))
        return self._operation("LayerNormalization", input_, weight, bias, axis=-1, epsilon=epsilon)

    def _operation(self, kind: str, *inputs: str, **attributes: AttributeValue) -> str:
        output = f"{kind}_{len(self._nodes)}"
        self._nodes.append(_write_node(kind, inputs, output, attributes))
        return output

    def _weight(self, name: str) -> str:
        """A tensor that stays in the model's file."""
        tensor = self._tensors[name]
        self._constants[name] = _write_external_tensor(
            name, FLOAT, tensor.shape, file=self._file, offset=tensor.offset, length=tensor.length
        )
        return name

    def _integers(self, values: int | list[int]) -> str:
        """One number, or a list of them."""
        if isinstance(values, int):
            return self._constant(INT64, [], struct.pack("<q", values))
        return self._constant(INT64, [len(values)], struct.pack(f"<{len(values)}q", *values))

    def _constant(self, element_type: int, shape: list[int], content: bytes) -> str:
        name = f"constant_{len(self._constants)}"
        self._constants[name] = _write_tensor(name, element_type, shape, content)
        return name
