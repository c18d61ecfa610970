"""Golden questions: what people ask, and the places that answer it, read from YAML files and BEIR folders.

A YAML file is a list of questions, or a mapping that also says how all of them are asked;
docs/evaluation.md describes both formats.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from pydantic import Field, ValidationError, create_model, model_validator

from knowledge_pipeline.config.file import format_problems, read_config
from knowledge_pipeline.config.model import SettingsModel
from knowledge_pipeline.config.problems import ConfigProblem, ParsedConfig, parse_config, to_problem
from knowledge_pipeline.config.sources import SourceId
from knowledge_pipeline.contract.filters import Filters, SearchType
from knowledge_pipeline.errors import ConfigError
from knowledge_pipeline.text import is_list


@dataclass(frozen=True, slots=True)
class GoldenAnswer:
    """A file that answers a question, or one definition in it."""

    path: str  # within its source, or "source:uri"
    symbol: str | None = None  # "Store.get"
    relevance: int = 1  # more is better


@dataclass(frozen=True, slots=True)
class GoldenQuestion:
    """One question, how it is asked, and the places that answer it."""

    text: str
    answers: tuple[GoldenAnswer, ...]  # at least one
    type: SearchType = "semantic"
    filters: Mapping[str, Any] = field(default_factory=dict[str, Any])  # as in `contract.filters.Filters`
    file: str = ""  # that it comes from


@dataclass(frozen=True, slots=True)
class GoldenSet:
    """All questions of some files."""

    questions: tuple[GoldenQuestion, ...]

    @property
    def digest(self) -> str:
        """32 hex digits; equal if questions, answers, types and filters are, in any order."""
        lines: list[str] = []
        for question in self.questions:
            answers = sorted((it.path, it.symbol or "", it.relevance) for it in question.answers)
            values = [question.text, question.type, dict(question.filters), answers]
            lines.append(json.dumps(values, sort_keys=True, default=str))
        return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:32]


def read_beir(
    folder: Path, *, type: SearchType = "semantic", filters: Mapping[str, Any] | None = None
) -> list[GoldenQuestion]:
    """Every query of a folder that has a relevant document, in the order of `queries.jsonl`.

    The index is the corpus, so `corpus.jsonl` is not read: document ids are paths, or `source:uri`.

    Format: https://github.com/beir-cellar/beir/wiki/Load-your-custom-dataset

    Raises `ConfigError`: a file is missing or wrong; the message names file and line.
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


if TYPE_CHECKING:
    GoldenFilters = SettingsModel
else:
    _HINTS = get_type_hints(Filters, include_extras=True)
    GoldenFilters = create_model(  # the fields of `Filters`, read like other settings
        "GoldenFilters",
        __base__=SettingsModel,
        **{column.name: (_HINTS[column.name], column.default) for column in fields(Filters)},
    )


class AnswerEntry(SettingsModel):
    """One entry of `answers`."""

    path: str = Field(min_length=1)
    symbol: str | None = Field(default=None, min_length=1)
    relevance: int = Field(default=1, ge=1, le=10)


class _QuestionDefaults(SettingsModel):
    type: SearchType | None = None
    source: SourceId | None = None  # short for filters.sources
    filters: GoldenFilters = GoldenFilters()

    def to_filters(self) -> dict[str, Any]:
        filters = {name: getattr(self.filters, name) for name in self.filters.model_fields_set}
        return {**filters, "sources": (self.source,)} if self.source else filters


class QuestionEntry(_QuestionDefaults):
    """One entry of `questions`."""

    question: str = Field(min_length=1)
    answers: tuple[AnswerEntry, ...] = Field(min_length=1)


class QuestionFile(_QuestionDefaults):
    """A whole file; what an entry says of `type` and `filters` replaces what the file says."""

    questions: tuple[QuestionEntry, ...] = ()
    beir: Path | None = None  # a folder whose questions are taken instead

    @model_validator(mode="after")
    def _require_questions(self) -> QuestionFile:
        if bool(self.questions) == bool(self.beir):
            raise ValueError("found no questions, or both kinds; required: `questions`, or `beir`")
        return self


def load_golden_set(paths: Sequence[Path]) -> GoldenSet:
    """Read YAML files and BEIR folders.

    Raises `ConfigError`: one is missing or wrong; the message names the file, the line and the entry.
    """
    questions: list[GoldenQuestion] = []
    for path in paths:
        if path.is_dir():
            questions += read_beir(path)
        elif path.is_file():
            questions += _read_question_file(path)
        else:
            raise ConfigError(
                f"there are no golden questions at {path}: correct evaluation.questions, or write the file"
            )
    return GoldenSet(tuple(questions))


def _read_question_file(path: Path) -> list[GoldenQuestion]:
    parsed = parse_config(read_config(path), name=path.name)
    if is_list(parsed.value):  # of questions
        lines = {("questions", *key_path): line for key_path, line in parsed.lines.items()}
        problems = [ConfigProblem(it.line, ("questions", *it.key_path), it.text) for it in parsed.problems]
        parsed = ParsedConfig({"questions": parsed.value}, lines, problems)
    try:
        file = QuestionFile.model_validate(parsed.value)
    except ValidationError as error:
        errors = error.errors(include_url=False, include_input=False)
        parsed.problems += [to_problem(error, parsed, QuestionFile) for error in errors]
        file = None
    if file is None or parsed.problems:
        raise ConfigError(format_problems(sorted(parsed.problems, key=lambda problem: problem.line), path))
    shared: SearchType = file.type or "semantic"
    if file.beir:
        return read_beir(path.parent / file.beir, type=shared, filters=file.to_filters())
    return [
        GoldenQuestion(
            entry.question,
            tuple(GoldenAnswer(answer.path, answer.symbol, answer.relevance) for answer in entry.answers),
            entry.type or shared,
            {**file.to_filters(), **entry.to_filters()},
            path.name,
        )
        for entry in file.questions
    ]
