"""Vectors of single words, from the table of the static model that the package carries. No model is run.

They tell how near two words are ("delete", "remove"), wherever the vectors of whole texts come from.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property

import numpy as np

from knowledge_pipeline.embedding.model_folders import find_model_folder, map_tensor, read_tensors

_MODEL = "static-v1"
_TABLE, _SCALES = "embedding.weight", "embedding.scale"
_MAX_WORD_CHARS = 32  # a longer word has no vector
_MAX_WORDS = 32_768  # whose vectors are kept: 32 MB


class WordVectors:
    """Vectors of words, made when they are first asked for. For one thread at a time."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._vectors = np.zeros((0, 256), np.float32)

    def look_up(self, words: Sequence[str]) -> np.ndarray:
        """Of each lower-case word a vector of length 1, or of zeros: float32, shape (words, dimensions)."""
        missing = [word for word in dict.fromkeys(words) if word not in self._places]
        if missing:
            self._add(missing)
        return self._vectors[[self._places[word] for word in words]]

    def count_pieces(self, word: str) -> int:
        """Of how many pieces the table makes a word, at least 1: rare words have more."""
        return max(1, len(_split_pieces(word, self._model[2])))

    def _add(self, words: Sequence[str]) -> None:
        if len(self._places) + len(words) > _MAX_WORDS:
            self._places = {}
        start, vectors = len(self._places), self._build(words)
        if (end := start + len(words)) > len(self._vectors):  # doubled, so that few are copied
            grown = np.zeros((max(end, 2 * len(self._vectors)), vectors.shape[1]), np.float32)
            grown[:start] = self._vectors[:start]
            self._vectors = grown
        self._vectors[start:end] = vectors
        self._places |= {word: start + at for at, word in enumerate(words)}

    def _build(self, words: Sequence[str]) -> np.ndarray:
        """The sum of each word's pieces, at length 1."""
        table, scales, vocabulary = self._model
        whole = map(vocabulary.get, words)
        pieces = [
            _split_pieces(word, vocabulary) if number is None else [number]
            for word, number in zip(words, whole, strict=True)
        ]
        counts = np.array([len(own) for own in pieces])
        numbers = np.array([number for own in pieces for number in own], np.int64)
        sums = np.zeros((len(words), table.shape[1]), np.float32)
        if len(numbers):
            starts = (np.cumsum(counts) - counts)[counts > 0]
            sums[counts > 0] = np.add.reduceat(table[numbers] * scales[numbers, None], starts)
        lengths = np.linalg.norm(sums, axis=1, keepdims=True)
        return np.divide(sums, lengths, out=sums, where=lengths > 0)

    @cached_property
    def _model(self) -> tuple[np.ndarray, np.ndarray, dict[str, int]]:
        """The table, the scale of each of its rows, and the row of each piece of a word."""
        folder = find_model_folder(_MODEL)
        path = folder / "model.safetensors"
        tensors = read_tensors(path)
        vocabulary = json.loads((folder / "tokenizer.json").read_bytes())["model"]["vocab"]
        return map_tensor(path, tensors[_TABLE]), map_tensor(path, tensors[_SCALES]), vocabulary


def _split_pieces(word: str, vocabulary: dict[str, int]) -> list[int]:
    """The longest pieces that a vocabulary has, from the left, as WordPiece does; none if one is missing.

    Source: Wu et al. 2016, section 4.1, https://arxiv.org/abs/1609.08144
    """
    if (whole := vocabulary.get(word)) is not None:
        return [whole]
    pieces: list[int] = []
    start = 0
    while start < len(word) <= _MAX_WORD_CHARS:
        ends = range(len(word), start, -1)
        prefix = "##" if start else ""
        end = next((end for end in ends if prefix + word[start:end] in vocabulary), None)
        if end is None:
            return []
        pieces.append(vocabulary[prefix + word[start:end]])
        start = end
    return pieces
