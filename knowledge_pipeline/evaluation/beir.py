"""Golden questions in the layout of the BEIR benchmark: `queries.jsonl` and `qrels/*.tsv`.

The index is the corpus, so `corpus.jsonl` is not read: document ids are paths, or `source:uri`.

Format: https://github.com/beir-cellar/beir/wiki/Load-your-custom-dataset
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from knowledge_pipeline.contract.types import SearchType
from knowledge_pipeline.errors import ConfigError
from knowledge_pipeline.evaluation.golden import GoldenAnswer, GoldenQuestion


def read_beir(
    folder: Path, *, type: SearchType = "semantic", filters: Mapping[str, Any] | None = None
) -> list[GoldenQuestion]:
    """Every query of a folder that has a relevant document, in the file's order.

    Raises:
        ConfigError: a file is missing or wrong; the message names file and line.
    """
    texts: dict[str, str] = {}
    path = folder / "queries.jsonl"
    for number, line in _iter_lines(path):
        try:
            entry = json.loads(line)
            texts[str(entry["_id"])] = str(entry["text"])
        except (ValueError, KeyError, TypeError):
            raise ConfigError(f'{path}:{number}: no query; a line is {{"_id": …, "text": …}}') from None
    answers: dict[str, list[GoldenAnswer]] = {}
    tables = sorted((folder / "qrels").glob("*.tsv"))
    if not tables:
        raise ConfigError(f"there is no judgement in {folder / 'qrels'}: a file such as dev.tsv is needed")
    for table in tables:
        for query, answer in _iter_judgements(table, texts):
            answers.setdefault(query, []).append(answer)
    if not answers:
        raise ConfigError(f"no document is judged relevant in {folder / 'qrels'}: add judgements above 0")
    return [
        GoldenQuestion(text, tuple(answers[query]), type, dict(filters or {}), folder.name)
        for query, text in texts.items()
        if query in answers
    ]


def _iter_judgements(path: Path, texts_by_query: Mapping[str, str]) -> Iterator[tuple[str, GoldenAnswer]]:
    """The id of a query and each document that is relevant to it."""
    for number, line in _iter_lines(path):
        cells = line.split("\t")
        if number == 1 and cells[-1].strip() == "score":
            continue
        try:
            query, document, relevance = cells[0], cells[1], int(cells[2])
        except (IndexError, ValueError):
            problem = "no judgement; a line is query id, document id and a whole number, with tabs between"
            raise ConfigError(f"{path}:{number}: {problem}") from None
        if query not in texts_by_query:
            raise ConfigError(f"{path}:{number}: the query {query!r} is not in queries.jsonl: add it there")
        if relevance > 0:
            yield query, GoldenAnswer(document, relevance=relevance)


def _iter_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Lines that are not empty, counted from 1."""
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield number, line.rstrip("\n")
    except OSError as error:
        problem = f"{path} cannot be read ({error.strerror}): it should have golden questions"
        raise ConfigError(problem) from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not UTF-8: save it as UTF-8") from None
