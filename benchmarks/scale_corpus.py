"""Git repositories of any size, made of the sources of this interpreter's packages, and a small model.

The packages hold some 250 MB of sources. Where that is not enough a file is taken again with every fourth
word exchanged for another one, so that no text, no id and no vector comes twice. The model is a static one:
each token has the vector that all-MiniLM-L6-v2 begins with, a text the weighted mean of its tokens'. So
vectors are made of real text by the stages themselves, at thousands a second, and neighbours mean something.
"""

from __future__ import annotations

import random
import re
import subprocess
import sysconfig
import zlib
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path

from knowledge_pipeline.embedding.model_folders import find_model_folder

CHUNKS_A_REPOSITORY = 100_000
CHARS_A_CHUNK = 464  # measured; how many chunks there are is counted after
PARTS = 100  # folders of a repository: a filter by one of them keeps a hundredth

_SMALLEST_BYTES, _LARGEST_BYTES = 1_000, 60_000
_EDITED_CHARS = range(12_000, 16_000)
_ENDINGS = frozenset({".py", ".pyi", ".h", ".hpp", ".cuh", ".c", ".cpp", ".js"})
_WORD = re.compile(r"[A-Za-z_]{5,}")
_EXCHANGED = 4  # one word of so many
_COMMON = 1e-4  # a token's share of all, from which on it counts for less than half
_GIT = ("git", "-c", "user.name=bench", "-c", "user.email=bench@example.org", "-c", "commit.gpgsign=false")


def git(folder: Path, *words: str) -> None:
    """Run git in a repository."""
    subprocess.run([*_GIT, *words], cwd=folder, check=True, stdout=subprocess.DEVNULL)


def repositories(folder: Path, chunks: int) -> list[Path]:
    """Repositories of about so many chunks together, 100,000 in each; those that are there are kept."""
    starts = range(0, chunks, CHUNKS_A_REPOSITORY)
    found = [folder / f"r{number:02}" for number in range(len(starts))]
    if not all((made / ".git").is_dir() for made in found):
        texts = _texts()
        for made, start in zip(found, starts, strict=True):
            size = min(CHUNKS_A_REPOSITORY, chunks - start)
            is_there = (made / ".git").is_dir()
            (_passed_over if is_there else partial(_write, made))(texts, size * CHARS_A_CHUNK)
    return found


def small_files(folder: Path, count: int) -> Path:
    """A repository of so many small files, a thousand in each folder."""
    for number in range(count) if not folder.exists() else ():
        path = folder / f"d{number // 1000:03}" / f"m{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"def answer_{number}(value):\n    return value + {number}\n")
    if not (folder / ".git").is_dir():
        _commit_all(folder)
    return folder


def static_model(folder: Path) -> Path:
    """A model in sentence-transformers layout, 384 dimensions, that reads texts as the default model does."""
    if (folder / "modules.json").is_file():
        return folder
    import numpy as np
    from safetensors.numpy import load_file
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import StaticEmbedding
    from tokenizers import Tokenizer

    whole = find_model_folder("all-MiniLM-L6-v2")
    tokenizer = Tokenizer.from_file(str(whole / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    weights = load_file(whole / "model.safetensors")
    table = next(each for name, each in weights.items() if name.endswith("word_embeddings.weight"))
    texts, counted = _texts(), np.ones(len(table))
    for _ in range(2_000):
        np.add.at(counted, tokenizer.encode(next(texts)[1], add_special_tokens=False).ids, 1)
    share = counted / counted.sum()
    table = (table - share @ table) * (_COMMON / (_COMMON + share))[:, None]
    static = StaticEmbedding(tokenizer, embedding_weights=table.astype(np.float32))
    SentenceTransformer(modules=[static], device="cpu").save(str(folder), create_model_card=False)
    return folder


def find_edited_file(repository: Path) -> Path:
    """A Python file of some 14,000 characters: the first one, which repositories of any size share."""
    names = (name for name, text in _texts() if name.endswith(".py") and len(text) in _EDITED_CHARS)
    return next(path for path in (_place(repository, name) for name in names) if path.is_file())


@cache
def _sources() -> list[tuple[str, Path]]:
    """Names and places of the sources of all packages and of the standard library, shuffled."""
    places = {Path(sysconfig.get_path(name)) for name in ("purelib", "stdlib")}
    files = [
        (f"{place.name.replace('site-packages', 'packages')}/{path.relative_to(place).as_posix()}", path)
        for place in sorted(places)
        for path in sorted(place.rglob("*"))
        if path.suffix in _ENDINGS and "site-packages" not in path.relative_to(place).parts
    ]
    wanted = [each for each in files if _SMALLEST_BYTES < each[1].stat().st_size < _LARGEST_BYTES]
    random.Random(7).shuffle(wanted)
    return wanted


def _texts() -> Iterator[tuple[str, str]]:
    """Names and texts, endlessly; each round other texts."""
    words: list[str] = []
    for copy in range(1_000):
        for name, path in _sources():
            try:
                text = path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue
            if copy == 0 and len(words) < 50_000:
                words += _WORD.findall(text)[:20]
            yield (f"{copy}/{name}", _exchange_words(text, copy, words) if copy else text)


def _exchange_words(text: str, copy: int, words: list[str]) -> str:
    """The same word is exchanged for the same other one, so that what is called one thing stays one."""

    def other(found: re.Match[str]) -> str:
        mark = zlib.crc32(f"{copy} {found[0]}".encode())
        return words[mark // _EXCHANGED % len(words)] if mark % _EXCHANGED == 0 else found[0]

    return _WORD.sub(other, text)


def _write(folder: Path, texts: Iterator[tuple[str, str]], chars: int) -> None:
    written = 0
    while written < chars:
        name, text = next(texts)
        path = _place(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        written += len(text)
    _commit_all(folder)


def _place(folder: Path, name: str) -> Path:
    return folder / f"part{zlib.crc32(name.encode()) % PARTS:02}" / name


def _passed_over(texts: Iterator[tuple[str, str]], chars: int) -> None:
    while chars > 0:
        chars -= len(next(texts)[1])


def _commit_all(folder: Path) -> None:
    git(folder, "init", "-qb", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "all")
