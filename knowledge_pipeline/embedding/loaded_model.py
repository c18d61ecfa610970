"""A sentence-transformers model in memory, run by torch or by onnxruntime."""

from __future__ import annotations

import copy
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from knowledge_pipeline.embedding.onnx_export import export_to_onnx, is_exportable
from knowledge_pipeline.embedding.parallel import count_usable_cores, map_on_cores, open_onnx_session
from knowledge_pipeline.embedding.tokenizer import SPECIAL_TOKENS

if TYPE_CHECKING:
    import torch
    from sentence_transformers import SentenceTransformer

_CPU_BATCH_TEXTS = 4  # on a CPU bigger batches pay for padding and cache misses
_GPU_BATCH_TEXTS = 64
_GROUP_TEXTS = 8  # texts that a thread takes at a time


class _EncodeCall(NamedTuple):
    """How sentence-transformers is called for texts."""

    method: str
    options: Mapping[str, str]


class LoadedModel:
    """One model. Threads may share it: each that computes has a copy of everything but the weights.

    A fast tokenizer that two threads use at once raises "Already borrowed". Torch uses all cores by
    itself, so it has one copy; onnxruntime has one for each core, which computes one text at a time.
    """

    def __init__(self, model: SentenceTransformer) -> None:
        self.on_cpu = model.device.type == "cpu"
        self.can_export = self.on_cpu and is_exportable(model[0])
        self.uses_onnx = False
        self._switch_lock = threading.Lock()
        self._idle_copies: SimpleQueue[_ModelCopy] = SimpleQueue()
        self._idle_copies.put(_ModelCopy(model))

    def encode(
        self, texts: Sequence[str], method: str, batch_size: int | None, *, with_own_prompt: bool = True
    ) -> tuple[np.ndarray, int]:
        """Vectors of length 1 in the order of the texts, and how many tokens were read.

        Args:
            texts: fit to be encoded.
            method: `encode_document` or `encode_query`.
            batch_size: texts that are padded to one length; None: the best for where it runs.
            with_own_prompt: whether the prompt of the model's folder, if it has one, stands before them.
        """
        call = _EncodeCall(method, {} if with_own_prompt else {"prompt": ""})
        if self.uses_onnx:
            return self._encode_in_parallel(texts, call, batch_size or 1)
        best = _CPU_BATCH_TEXTS if self.on_cpu else _GPU_BATCH_TEXTS
        return self._encode_by_copy(texts, call, batch_size or best)

    def _encode_by_copy(
        self, texts: Sequence[str], call: _EncodeCall, batch_size: int
    ) -> tuple[np.ndarray, int]:
        model_copy = self._idle_copies.get()
        try:
            return model_copy.encode(texts, call, batch_size)
        finally:
            self._idle_copies.put(model_copy)

    def switch_to_onnx(self, path: Path, *, int8: bool) -> None:
        """Replace torch's weights with an exported file, and drop them.

        Args:
            path: of the file, which is exported first where it does not exist; see `build_export_path`.
            int8: whether the exported weights are quantised.

        Raises:
            ModelError: it cannot be exported; torch still runs the model.
        """
        with self._switch_lock:
            if self.uses_onnx:
                return
            copies = [first] = [self._idle_copies.get()]
            inner: Any = first.model[0]
            torch_model = inner.model
            try:
                export_to_onnx(inner, path, int8=int8)
                inner.model = build_onnx_module(path, torch_model.config)
                copies += [_ModelCopy(copy.deepcopy(first.model)) for _ in range(count_usable_cores() - 1)]
                self.uses_onnx = True
            except BaseException:
                inner.model = torch_model
                copies = [first]
                raise
            finally:
                for each in copies:
                    self._idle_copies.put(each)

    def _encode_in_parallel(
        self, texts: Sequence[str], call: _EncodeCall, batch_size: int
    ) -> tuple[np.ndarray, int]:
        """Longest texts first, in small groups, so that no core waits long for another at the end."""
        order = sorted(range(len(texts)), key=lambda at: -len(texts[at]))
        size = max(batch_size, min(_GROUP_TEXTS, -(-len(texts) // count_usable_cores())))
        groups = [order[start : start + size] for start in range(0, len(order), size)]

        def encode_group(group: list[int]) -> tuple[np.ndarray, int]:
            return self._encode_by_copy([texts[at] for at in group], call, batch_size)

        parts = map_on_cores(encode_group, groups)
        vectors = np.empty((len(texts), parts[0][0].shape[1]), np.float32)
        for group, (rows, _) in zip(groups, parts, strict=True):
            vectors[group] = rows
        return vectors, sum(tokens for _, tokens in parts)


class _ModelCopy:
    """A model that one thread at a time uses, and the number of tokens that it read."""

    def __init__(self, model: SentenceTransformer) -> None:
        self.model = model
        self._token_count = 0
        # Tokens are counted here, because tokenizing again costs as much.
        preprocess = type(model).preprocess  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  # of any input

        def preprocess_and_count(*args: Any, **kwargs: Any) -> Any:  # as sentence-transformers calls it
            features = preprocess(model, *args, **kwargs)
            mask = features.get("attention_mask")
            if mask is None:  # of a static model: no special tokens, no padding
                self._token_count += int(features["input_ids"].numel())
            else:
                self._token_count += int(mask.sum()) - SPECIAL_TOKENS * len(mask)
            return features

        model.preprocess = preprocess_and_count

    def encode(self, texts: Sequence[str], call: _EncodeCall, batch_size: int) -> tuple[np.ndarray, int]:
        self._token_count = 0
        options = {"batch_size": batch_size, "normalize_embeddings": True, "show_progress_bar": False}
        vectors = getattr(self.model, call.method)(list(texts), **options, **call.options)
        return np.asarray(vectors, dtype=np.float32), self._token_count


def build_onnx_module(path: Path, config: Any) -> torch.nn.Module:
    """A module that replaces the transformer of a sentence-transformers model; copies share its session."""
    import torch
    from transformers.modeling_outputs import BaseModelOutput

    class OnnxModel(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.config = config
            self.session: Any = open_onnx_session(str(path))
            self.input_names = {given.name for given in self.session.get_inputs()}

        def __deepcopy__(self, memo: dict[int, Any]) -> OnnxModel:
            return self

        def forward(self, **given: Any) -> BaseModelOutput:
            fed = {name: value.numpy() for name, value in given.items() if name in self.input_names}
            (hidden,) = self.session.run(None, fed)
            return BaseModelOutput(last_hidden_state=torch.from_numpy(hidden))  # pyright: ignore[reportUnknownMemberType]  # it has no types

    return OnnxModel()
