"""A BERT encoder (Devlin et al. 2018, https://arxiv.org/abs/1810.04805) as a graph for onnxruntime.

The graph is a few kilobytes and is built anew for each process, in milliseconds; the weights stay in the
model's own safetensors file, mapped into memory. It reads one text at a time, so that it needs neither
padding nor a mask, and computes what `transformers.BertModel` computes, without torch.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from knowledge_pipeline.embedding import onnx_format
from knowledge_pipeline.embedding.model_config import read_json
from knowledge_pipeline.embedding.onnx_format import FLOAT, INT64, AttributeValue
from knowledge_pipeline.embedding.safetensors_file import Tensor, read_tensors

TOKEN_IDS = "input_ids"  # noqa: S105 - the input: int64, shape (1, tokens)

_OPSET = 20  # the first with Gelu as one operation
_EXPECTED = {"model_type": "bert", "hidden_act": "gelu"}
_WORDS = "embeddings.word_embeddings.weight"


def is_bert(folder: Path, weights: Path) -> bool:
    """Whether a folder's `config.json` and a safetensors file are those of a BERT encoder of 32 bits.

    Raises:
        OSError, ValueError: its files are damaged.
    """
    config = read_json(folder / "config.json")
    if any(config.get(key) != value for key, value in _EXPECTED.items()):
        return False
    if config.get("position_embedding_type", "absolute") != "absolute" or config.get("is_decoder"):
        return False
    tensors = read_tensors(weights)
    return _WORDS in tensors and all(
        tensor.dtype == "F32" for name, tensor in tensors.items() if name.endswith((".weight", ".bias"))
    )


def build_bert_graph(folder: Path, weights: Path) -> bytes:
    """The serialized graph of a model for which `is_bert` holds; it names the weights' file, not its folder.

    Its input is `TOKEN_IDS`; its output the last hidden states: float32, shape (1, tokens, hidden).

    Raises:
        OSError, ValueError, KeyError: the files are damaged.
    """
    return _GraphBuilder(read_json(folder / "config.json"), weights.name, read_tensors(weights)).build()


class _GraphBuilder:
    """Operations by their outputs' names. Within the graph, one text is a matrix (tokens, hidden)."""

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
        given = onnx_format.write_value(TOKEN_IDS, INT64, [1, "tokens"])
        made = onnx_format.write_value(output, FLOAT, [1, "tokens", self._config["hidden_size"]])
        constants = list(self._constants.values())
        return onnx_format.write_model(self._nodes, constants, given, made, opset=_OPSET)

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
        attended = self._dense(
            self._attend(hidden, f"{layer}.attention.self"), f"{layer}.attention.output.dense"
        )
        total = self._operation("Add", attended, hidden)
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
        scale = self._float((width // heads) ** -0.5)
        weights = self._operation("Softmax", self._operation("Mul", scores, scale), axis=-1)
        mixed = self._operation("MatMul", weights, self._operation("Transpose", value, perm=[1, 0, 2]))
        together = self._operation("Transpose", mixed, perm=[1, 0, 2])
        return self._operation("Reshape", together, self._integers([0, width]))

    def _dense(self, given: str, name: str) -> str:
        weight, bias = self._weight(f"{name}.weight"), self._weight(f"{name}.bias")
        return self._operation("Gemm", given, weight, bias, transB=1)

    def _normalize(self, given: str, name: str) -> str:
        weight, bias = self._weight(f"{name}.weight"), self._weight(f"{name}.bias")
        epsilon = float(self._config.get("layer_norm_eps", 1e-12))
        return self._operation("LayerNormalization", given, weight, bias, axis=-1, epsilon=epsilon)

    def _operation(self, kind: str, *inputs: str, **attributes: AttributeValue) -> str:
        output = f"{kind}_{len(self._nodes)}"
        self._nodes.append(onnx_format.write_node(kind, inputs, output, attributes))
        return output

    def _weight(self, name: str) -> str:
        """A tensor that stays in the model's file."""
        tensor = self._tensors[name]
        self._constants[name] = onnx_format.write_external_tensor(
            name, FLOAT, tensor.shape, file=self._file, offset=tensor.offset, length=tensor.length
        )
        return name

    def _integers(self, values: int | list[int]) -> str:
        """One number, or a list of them."""
        if isinstance(values, int):
            return self._constant(INT64, [], struct.pack("<q", values))
        return self._constant(INT64, [len(values)], struct.pack(f"<{len(values)}q", *values))

    def _float(self, value: float) -> str:
        return self._constant(FLOAT, [], struct.pack("<f", value))

    def _constant(self, element_type: int, shape: list[int], content: bytes) -> str:
        name = f"constant_{len(self._constants)}"
        self._constants[name] = onnx_format.write_tensor(name, element_type, shape, content)
        return name
