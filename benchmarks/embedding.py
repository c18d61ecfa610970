"""Chunks a second by backend and batch, side by side, against what the cores can multiply.

    python -m benchmarks.embedding [--texts 200] [--backends torch onnx onnx-int8] [--batches 1 4 32] [--json]
                                   [--picture FILE]

The texts are this repository's own code and documentation, cut as a refresh cuts them, an even draw over
their lengths. Every figure stands by the clock and by the processor's time: where other programs run beside,
only the second can be compared. Fidelity is the cosine to torch in 32 bits and the share of the ten
nearest neighbours that are the same. Operations are counted from each model's configuration for the tokens
it reads; the limit is a product of two large matrices, measured in the same run. Of int8 the share can
exceed 100 %.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.pictures import bars, picture
from knowledge_pipeline.config.embedding import EmbeddingSettings
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.embedding.base import Embedder
from knowledge_pipeline.embedding.model_folders import find_model_folder
from knowledge_pipeline.embedding.parallel import count_usable_cores
from knowledge_pipeline.embedding.registry import open_embedder
from knowledge_pipeline.records import build_embedded_text
from knowledge_pipeline.stages import chunks, snapshot
from knowledge_pipeline.stages.context import RefreshContext
from knowledge_pipeline.store.lake import Lake

HERE = Path(__file__).resolve().parents[1]
_MINILM, _BGE = "all-MiniLM-L6-v2", "bge-small-en-v1.5"
_BGE_SHAPE = (12, 384, 1536)  # layers, width, width between
_NEIGHBOURS = 10
_SQUARE = 2048


@dataclass
class Figure:
    """One way to embed the same texts."""

    model: str
    backend: str
    batch: int | None  # None: its own choice
    seconds: float
    cpu_seconds: float
    texts: int
    tokens: int
    gflop: float
    cosine_mean: float
    cosine_least: float
    neighbours: float  # share of ten

    @property
    def per_second(self) -> float:
        """Chunks by the clock."""
        return self.texts / self.seconds

    @property
    def per_cpu_second(self) -> float:
        """Chunks by the processor's time."""
        return self.texts / self.cpu_seconds


def repository_texts(count: int) -> list[str]:
    """Texts of this repository as they would be embedded by default, drawn evenly over their lengths."""
    with tempfile.TemporaryDirectory() as folder:
        connections = {"code": "knowledge_pipeline", "markdown": "docs"}
        sources = [
            {"id": type_, "type": type_, "connection": {"type": "local", "path": str(HERE / place)}}
            for type_, place in connections.items()
        ]
        lake = Lake(Path(folder))
        settings = Settings.model_validate({"store": lake.root, "sources": sources})
        found: set[str] = set()
        for source in settings.sources:
            this = RefreshContext(lake, settings, source)
            snapshot.refresh(this)
            chunks.refresh(this)
            for row in (
                lake.chunks(source.type, source.id).read_rows(["header", "text", "skipped"]).to_pylist()
            ):
                if row["skipped"] is None:
                    found.add(build_embedded_text(row["header"], row["text"]))
    by_length = sorted(found, key=lambda text: (len(text), text))
    return [by_length[at] for at in np.linspace(0, len(by_length) - 1, count).astype(int)]


def time_work(work: Callable[[], np.ndarray]) -> tuple[np.ndarray, float, float]:
    """What it made, seconds by the clock, and seconds of the processor in this process."""
    clock, cpu = time.perf_counter(), time.process_time()
    made = work()
    return made, time.perf_counter() - clock, time.process_time() - cpu


def limit() -> dict[str, float]:
    """GFLOP a second of a large product in 32 bits, by the clock and by processor's time; best of five."""
    import torch

    one = torch.rand(_SQUARE, _SQUARE)
    one @ one
    runs = [time_work(lambda: (one @ one).numpy())[1:] for _ in range(5)]
    gflop = 2 * _SQUARE**3 / 1e9
    return {
        "per_second": gflop / min(seconds for seconds, _ in runs),
        "per_cpu_second": gflop / min(cpu for _, cpu in runs),
    }


def gflop_of(model: str, embedder: Embedder, texts: list[str]) -> float:
    """Of the matrix products of a BERT-like model over the texts, without padding."""
    if model == _BGE:
        layers, width, between = _BGE_SHAPE
    else:
        config = json.loads((find_model_folder(model) / "config.json").read_text())
        layers, width, between = (
            config[key] for key in ("num_hidden_layers", "hidden_size", "intermediate_size")
        )
    tokenize, most = embedder.tokenizer(), embedder.space.max_tokens
    read = np.array([min(len(tokenize(text)), most) + 2 for text in texts], dtype=np.float64)
    linear = 2 * (4 * width * width + 2 * width * between)
    attention = 4 * width * read  # scores and their sums, for each token
    return float(layers * (read * (linear + attention)).sum() / 1e9)


def figures(texts: list[str], backends: list[str], batches: list[int]) -> list[Figure]:
    """Every backend and batch of the model that has backends; then the carried one, and the default."""
    reference = open_embedder(EmbeddingSettings(model=_MINILM, backend="torch")).embed(texts)
    ways = [
        EmbeddingSettings.model_validate({"model": _MINILM, "backend": backend, "batch_size": batch})
        for backend in backends
        for batch in (batches if backend == "torch" else [None])
    ]
    made = [_figure(way, texts, reference) for way in ways]
    return [*made, _figure(EmbeddingSettings(model=_BGE), texts, None), _figure(_default(), texts, None)]


def _default() -> EmbeddingSettings:
    """The default pair, on the CPU."""
    return EmbeddingSettings(backend="onnx")


def _figure(way: EmbeddingSettings, texts: list[str], reference: np.ndarray | None) -> Figure:
    embedder = open_embedder(way)
    embedder.embed(texts[:4])  # loads the model
    before = embedder.usage.tokens
    vectors, seconds, cpu_seconds = time_work(lambda: embedder.embed(texts))
    reference = vectors if reference is None else reference
    cosines = (vectors * reference).sum(axis=1)
    singles = way.model.split("+")
    gflop = sum(gflop_of(name, open_embedder(EmbeddingSettings(model=name)), texts) for name in singles)
    return Figure(
        model=way.model,
        backend="carried int8" if way.model == _BGE else way.backend,
        batch=way.batch_size,
        seconds=seconds,
        cpu_seconds=cpu_seconds,
        texts=len(texts),
        tokens=embedder.usage.tokens - before,
        gflop=gflop,
        cosine_mean=float(cosines.mean()),
        cosine_least=float(cosines.min()),
        neighbours=_compute_shared_neighbours(vectors, reference),
    )


def _compute_shared_neighbours(vectors: np.ndarray, reference: np.ndarray) -> float:
    def nearest(rows: np.ndarray) -> np.ndarray:
        near = rows @ rows.T
        np.fill_diagonal(near, -2)
        return np.argsort(-near, axis=1)[:, :_NEIGHBOURS]

    pairs = zip(nearest(vectors), nearest(reference), strict=True)
    return float(np.mean([len(set(one) & set(other)) / len(one) for one, other in pairs]))


def show(found: list[Figure], most: dict[str, float], machine: str) -> None:
    """Print the figures as a table."""
    columns = (
        "model",
        "backend",
        "batch",
        "chunks/s",
        "chunks/CPU-s",
        "of the limit",
        "cosine",
        "least",
        "same of 10",
    )
    table = Table(*columns, title=machine)
    for one in found:
        share = one.gflop / one.cpu_seconds / most["per_cpu_second"]
        alike = (f"{one.cosine_mean:.4f}", f"{one.cosine_least:.4f}", f"{one.neighbours:.2f}")
        compared = alike if one.model == _MINILM else ("", "", "")
        speed = (f"{one.per_second:.1f}", f"{one.per_cpu_second:.1f}", f"{share:.0%}")
        table.add_row(one.model, one.backend, str(one.batch or "own"), *speed, *compared)
    console = Console(width=150)
    console.print(table)
    console.print(
        f"limit: {most['per_second']:.0f} GFLOP/s by the clock, {most['per_cpu_second']:.0f} per CPU-second; "
        f"{found[0].texts} texts of {found[0].tokens / found[0].texts:.0f} tokens read at the mean"
    )


def panels(found: list[Figure], most: dict[str, float]) -> dict[str, dict[str, float]]:
    """What is drawn: by title, then by model, backend and batch."""
    named = {f"{one.model}, {one.backend}, {one.batch or 'own'}": one for one in found}
    shares = {name: 100 * one.gflop / one.cpu_seconds / most["per_cpu_second"] for name, one in named.items()}
    return {
        "chunks a second": {name: one.per_second for name, one in named.items()},
        "% of what the cores can multiply": shares,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--texts", type=int, default=200)
    parser.add_argument("--backends", nargs="+", default=["torch", "onnx", "onnx-int8"])
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 4, 32])
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--picture", type=picture, help="where bars of it are written")
    options = parser.parse_args()
    texts = repository_texts(options.texts)
    load = os.getloadavg()[0]
    machine = (
        f"{count_usable_cores()} cores, {platform.machine()}, Python {platform.python_version()}; "
        f"load {load:.1f} before" + (", so not alone" if load > 0.5 * count_usable_cores() else "")
    )
    found = figures(texts, options.backends, options.batches)
    most = limit()
    if options.picture:
        bars(options.picture, panels(found, most))
    if options.json:
        rows = [asdict(one) for one in found]
        print(json.dumps({"machine": machine, "limit_gflop": most, "figures": rows}, indent=2))
    else:
        show(found, most, machine)


if __name__ == "__main__":
    main()
