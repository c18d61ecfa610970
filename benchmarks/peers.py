"""This project beside CocoIndex, LlamaIndex, haiku.rag and txtai: the same files, model and questions.

    python -m benchmarks.peers --envs FOLDER [--only NAME ...] [--repeats 5] [--python312 PROGRAM]
                               [--first | --kept] [--json | --docs] [--picture FILE]

Each peer is installed once, pinned, in an environment of its own below `--envs` (1 to 6 GB each), where the
corpus and the logs are kept too; haiku.rag needs Python 3.12. `peer_scripts/` has one script for each, which
says how it is used; `peer_scripts/measuring.py` says what is measured, the same for all. Each has a process
to itself, one after the other, on two cores. A peer that fails is told with where its log lies. `--kept`
measures nothing anew that was measured before; `--docs` prints the tables as Markdown. `--first` measures
first indexes alone, each tool in turn and `--repeats` times so:

    python -m benchmarks.peers --envs FOLDER --first --repeats 3 --only minilm-onnx default cocoindex_lancedb
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from benchmarks import peers_corpus, peers_tables
from benchmarks.peer_scripts.measuring import THREADS
from benchmarks.peers_own import VARIANTS
from benchmarks.pictures import bars, picture
from knowledge_pipeline.embedding.model_folders import find_model_folder

HERE = Path(__file__).resolve().parent
_TORCH = "torch==2.13.0"
_MODEL = "all-MiniLM-L6-v2"


@dataclass(frozen=True)
class Peer:
    """A tool in an environment of its own."""

    packages: tuple[str, ...]
    newer_python: bool = False


PEERS: dict[str, Peer] = {
    "cocoindex_lancedb": Peer(
        ("cocoindex[lancedb]==1.0.26", "lancedb==0.40.0", "sentence-transformers==6.2.0")
    ),
    "llamaindex_lancedb": Peer(
        (
            "llama-index-core==0.14.25",
            "llama-index-vector-stores-lancedb==0.6.0",
            "llama-index-embeddings-huggingface==0.8.0",
            "lancedb==0.40.0",
            "pandas==3.1.1",  # which its store imports, and does not name
            "sentence-transformers==6.2.0",
        )
    ),
    "haiku_rag": Peer(
        ("haiku.rag-slim[docling]==0.101.1", "sentence-transformers==6.2.0"), newer_python=True
    ),
    "txtai_index": Peer(("txtai==9.14.0", "chonkie==1.7.0", "sentence-transformers==6.2.0")),
}


class Bench:
    """Where everything is kept, and what is asked for."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.folder: Path = options.envs.resolve()
        self.options = options
        self.corpus, self.questions = peers_corpus.prepare(self.folder / "corpus")

    def figures(self) -> Iterator[dict[str, Any]]:
        """Those of every tool that was asked for; of one that failed its name and `failed`."""
        for name in self.options.only or [*VARIANTS, *PEERS]:
            try:
                yield self.measure(name)
            except subprocess.CalledProcessError as error:
                log = self.log(name).relative_to(self.folder)
                yield {"tool": name, "failed": f"exit {error.returncode}, see {log} below --envs"}

    def first_figures(self) -> Iterator[dict[str, Any]]:
        """Those of first indexes alone, the tools in turn: a busy minute is nobody's alone."""
        for _ in range(self.options.repeats):
            yield from self.figures()

    def measure(self, name: str) -> dict[str, Any]:
        """The figures of one tool."""
        kept = self.log(name).with_suffix(".json")
        if self.options.kept and kept.is_file():
            return json.loads(kept.read_text("utf-8"))
        command = self.own(name) if name in VARIANTS else self.peer(name)
        with tempfile.TemporaryDirectory(dir=self.folder) as work:
            out = Path(work) / "figures.json"
            given = {
                "--corpus": self.corpus,
                "--work": work,
                "--questions": self.questions,
                "--model": find_model_folder(_MODEL),
                "--out": out,
                "--repeats": self.options.repeats,
            }
            words = [str(word) for pair in given.items() for word in pair]
            self.run(name, [*command, *words, *(["--first"] if self.options.first else [])])
            if not self.options.first:
                shutil.copyfile(out, kept)
            return json.loads(out.read_text("utf-8"))

    @staticmethod
    def own(variant: str) -> list[str]:
        """The command of this project."""
        return [sys.executable, "-m", "benchmarks.peers_own", "--variant", variant]

    def peer(self, name: str) -> list[str]:
        """The command of a peer, whose environment is made first if it is not there."""
        place = self.folder / name
        made, wanted = place / "installed.json", json.dumps([_TORCH, *PEERS[name].packages])
        if not made.is_file() or made.read_text("utf-8") != wanted:
            self.install(name, place)
            made.write_text(wanted, encoding="utf-8")
        return [str(place / "bin" / "python"), "-m", f"benchmarks.peer_scripts.{name}"]

    def install(self, name: str, place: Path) -> None:
        """Torch comes first and alone, so that its build for the CPU is taken where there is one."""
        peer = PEERS[name]
        python = self.options.python312 if peer.newer_python else sys.executable
        shutil.rmtree(place, ignore_errors=True)
        self.run(name, [python, "-m", "venv", str(place)])
        pip = [
            str(place / "bin" / "python"),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
        ]
        self.run(name, [*pip, _TORCH])
        self.run(name, [*pip, *peer.packages])

    def run(self, name: str, command: list[str]) -> None:
        """Run a command, its output kept in the tool's log.

        Raises:
            CalledProcessError: it failed.
        """
        threads = {key: str(THREADS) for key in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")}
        quiet = {
            "HF_HUB_OFFLINE": "1",
            "COCOINDEX_DISABLE_USAGE_TRACKING": "1",
            "LOGFIRE_IGNORE_NO_CONFIG": "1",
        }
        quiet["PYTHONPATH"] = str(HERE.parent)
        with self.log(name).open("a", encoding="utf-8") as log:
            subprocess.run(command, check=True, stdout=log, stderr=log, env=os.environ | threads | quiet)

    def log(self, name: str) -> Path:
        """Where a tool's output is kept."""
        folder = self.folder / "logs"
        folder.mkdir(exist_ok=True)
        return folder / f"{name}.log"

    def about(self) -> str:
        """The machine, and what is indexed and asked."""
        files = sum(path.is_file() for path in self.corpus.rglob("*"))
        asked = len(json.loads(self.questions.read_text("utf-8")))
        return (
            f"{peers_corpus.PACKAGE}: {files} files, {asked} questions; {THREADS} threads on {_processor()}, "
            f"Python {platform.python_version()}; load {os.getloadavg()[0]:.1f} before"
        )


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return f"{next(named, platform.machine())}, {os.cpu_count()} cores"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--envs", type=Path, required=True, help="where environments are made, and kept")
    parser.add_argument("--only", nargs="+", choices=[*VARIANTS, *PEERS], help="these, in this order")
    parser.add_argument("--repeats", type=int, default=5, help="of what is quick; medians are told")
    parser.add_argument("--python312", default="python3.12", help="for haiku.rag")
    scope = parser.add_mutually_exclusive_group()
    scope.add_argument("--first", action="store_true", help="first indexes alone")
    scope.add_argument("--kept", action="store_true", help="take figures of an earlier run that are there")
    parser.add_argument("--picture", type=picture, help="where bars of it are written")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="print JSON instead of tables")
    shape.add_argument("--docs", action="store_true", help="print Markdown instead of tables")
    options = parser.parse_args()
    options.envs.mkdir(parents=True, exist_ok=True)
    bench, console = Bench(options), Console(stderr=True)
    about, found = bench.about(), []
    for one in bench.first_figures() if options.first else bench.figures():
        console.print(f"{one['tool']}: {one.get('failed', 'measured')}")
        found.append(one)
    if options.picture and not options.first:
        bars(options.picture, peers_tables.panels(found))
    if options.json:
        print(json.dumps({"about": about, "figures": found}, indent=2))
    elif options.docs:
        print(peers_tables.markdown(about, found))
    else:
        peers_tables.show(about, found)


if __name__ == "__main__":
    main()
