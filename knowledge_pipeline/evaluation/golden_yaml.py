"""Golden questions as a YAML file: a list of questions, or a mapping that says how all of them are asked."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, model_validator

from knowledge_pipeline.config.file import listed, read
from knowledge_pipeline.config.problems import problem_of
from knowledge_pipeline.config.settings import Frozen, SourceId
from knowledge_pipeline.config.yaml_lines import Parsed, Problem, parse
from knowledge_pipeline.errors import ConfigError
from knowledge_pipeline.evaluation.beir import read_beir
from knowledge_pipeline.evaluation.golden import Place, Question, SearchType


class Narrowing(Frozen):
    """What a question is narrowed to: the fields of `query.filters.Filters`."""

    languages: tuple[str, ...] = ()
    extensions: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    source_types: tuple[str, ...] = ()
    repos: tuple[str, ...] = ()
    branches: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    authors: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ()
    spaces: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    include_archived: bool = False


class Answering(Frozen):
    """One entry of `answers`."""

    path: str = Field(min_length=1)
    symbol: str | None = Field(default=None, min_length=1)
    relevance: int = Field(default=1, ge=1, le=10)


class _Asking(Frozen):
    type: SearchType | None = None
    source: SourceId | None = None  # short for filters.sources
    filters: Narrowing = Narrowing()

    def narrowing(self) -> dict[str, Any]:
        """The filters that are set."""
        given = {name: getattr(self.filters, name) for name in self.filters.model_fields_set}
        return {**given, "sources": (self.source,)} if self.source else given


class Entry(_Asking):
    """One entry of `questions`."""

    question: str = Field(min_length=1)
    answers: tuple[Answering, ...] = Field(min_length=1)


class QuestionFile(_Asking):
    """A whole file; what an entry says of `type` and `filters` replaces what the file says."""

    questions: tuple[Entry, ...] = ()
    beir: Path | None = None  # a folder whose questions are taken instead

    @model_validator(mode="after")
    def _holds_questions(self) -> QuestionFile:
        if bool(self.questions) == bool(self.beir):
            raise ValueError("found no questions, or both kinds; required: `questions`, or `beir`")
        return self


def read_yaml(path: Path) -> list[Question]:
    """The questions of one file.

    Raises:
        ConfigError: the file is unreadable or wrong; one line a problem, with its line and entry.
    """
    file = _validated(path)
    shared: SearchType = file.type or "semantic"
    if file.beir:
        return read_beir(path.parent / file.beir, type=shared, filters=file.narrowing())
    return [
        Question(
            text=entry.question,
            answers=tuple(Place(one.path, one.symbol, one.relevance) for one in entry.answers),
            type=entry.type or shared,
            filters={**file.narrowing(), **entry.narrowing()},
            file=path.name,
        )
        for entry in file.questions
    ]


def _validated(path: Path) -> QuestionFile:
    parsed = _under_one_key(parse(read(path), name=path.name))
    try:
        file = QuestionFile.model_validate(parsed.value)
    except ValidationError as error:
        refused = error.errors(include_url=False, include_input=False)
        parsed.problems += [problem_of(one, parsed, QuestionFile) for one in refused]
        file = None
    if file is None or parsed.problems:
        problems = sorted(parsed.problems, key=lambda problem: problem.line)
        raise ConfigError(listed(problems, path))
    return file


def _under_one_key(parsed: Parsed) -> Parsed:
    """A bare list is the value of `questions`."""
    if not isinstance(parsed.value, list):
        return parsed
    return Parsed(
        {"questions": parsed.value},
        {("questions", *place): line for place, line in parsed.lines.items()},
        [Problem(each.line, ("questions", *each.place), each.text) for each in parsed.problems],
    )
