"""The code corpus, and a short way to cut code in tests."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from knowledge_pipeline.chunking.base import MeasuredDocument, TokenLimits
from knowledge_pipeline.chunking.code import chunk_code
from knowledge_pipeline.chunking.pack import chunk_lines
from knowledge_pipeline.config.sources import ChunkingSettings
from knowledge_pipeline.records import Chunk, Document

CORPUS = Path(__file__).parents[1] / "corpus" / "code"

FILES = {
    "python": "store.py",
    "javascript": "cart.js",
    "typescript": "api.ts",
    "tsx": "Panel.tsx",
    "go": "server.go",
    "java": "Repository.java",
    "rust": "queue.rs",
    "c": "list.c",
    "cpp": "shape.cpp",
    "c_sharp": "Orders.cs",
    "ruby": "inbox.rb",
    "php": "Router.php",
    "kotlin": "Parser.kt",
    "swift": "Account.swift",
    "scala": "Catalog.scala",
    "bash": "deploy.sh",
    "lua": "session.lua",
    "elixir": "cart.ex",
    "haskell": "Ledger.hs",
    "ocaml": "cache.ml",
    "powershell": "Backup.psm1",
    "sql": "orders.sql",
    "zig": "ring.zig",
    "hcl": "network.tf",
    "terraform": "network.tf",
    "dockerfile": "Dockerfile",
}

WITHOUT_FUNCTIONS = {"hcl", "terraform", "dockerfile"}


def sample(language: str) -> str:
    """The corpus file of a language."""
    return (CORPUS / FILES[language]).read_text("utf-8")


def tokenize(text: str) -> Sequence[int]:
    """Words and marks, one token each."""
    return [match.start() for match in re.finditer(r"\w+|[^\w\s]", text)]


def measured(text: str, language: str | None, path: str = "src/file") -> MeasuredDocument:
    """A document with its tokens counted."""
    return MeasuredDocument(Document(uri=path, text=text, path=path, language=language), tokenize)


def code_chunks(
    text: str,
    language: str | None = "python",
    *,
    path: str = "src/file",
    max_tokens: int = 256,
    min_tokens: int = 0,
    **settings: Any,
) -> list[Chunk]:
    """The chunks of a text cut by its syntax."""
    document = measured(text, language, path)
    spans = chunk_code(
        document, ChunkingSettings.model_validate(settings), TokenLimits(max_tokens, min_tokens)
    )
    return [document.build_chunk(span) for span in spans]


def line_chunks(text: str, *, max_tokens: int = 256, overlap_tokens: int = 0) -> list[Chunk]:
    """The chunks of a text cut by lines."""
    document = measured(text, None)
    spans = chunk_lines(document, ChunkingSettings(), TokenLimits(max_tokens, overlap_tokens=overlap_tokens))
    return [document.build_chunk(span) for span in spans]


def uncovered(text: str, chunks: Sequence[Chunk]) -> str:
    """What lies in no chunk, white space left off."""
    covered = bytearray(len(text))
    for chunk in chunks:
        covered[chunk.start_char : chunk.end_char] = b"\1" * (chunk.end_char - chunk.start_char)
    return "".join(text[at] for at in range(len(text)) if not covered[at] and not text[at].isspace())
