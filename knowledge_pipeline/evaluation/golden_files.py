"""Reads golden questions from YAML files and from folders in the layout of the BEIR benchmark.

A YAML file is a list of questions, or a mapping that also says how all of them are asked;
docs/evaluation.md describes both formats.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from pydantic import Field, ValidationError, create_model, model_validator

from knowledge_pipeline.config.file import format_problems, read_config
from knowledge_pipeline.config.model import SettingsModel
from knowledge_pipeline.config.problems import to_problem
from knowledge_pipeline.config.sources.source import SourceId
from knowledge_pipeline.config.yaml_lines import ConfigProblem, ParsedConfig, parse_config
from knowledge_pipeline.contract.filters import Filters
from knowledge_pipeline.contract.types import SearchType
from knowledge_pipeline.errors import ConfigError
from knowledge_pipeline.evaluation.beir import read_beir
from knowledge_pipeline.evaluation.golden import GoldenAnswer, GoldenQuestion, GoldenSet
from knowledge_pipeline.json_values import is_list

if TYPE_CHECKING:
    GoldenFilters = SettingsModel
else:
    _HINTS = get_type_hints(Filters, include_extras=True)
    GoldenFilters = create_model(  # the fields of `Filters`, read like other settings
        "GoldenFilters",
        __base__=SettingsModel,
        **{each.name: (_HINTS[each.name], each.default) for each in fields(Filters)},
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
        given = {name: getattr(self.filters, name) for name in self.filters.model_fields_set}
        return {**given, "sources": (self.source,)} if self.source else given


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

    Raises:
        ConfigError: one is missing or wrong; the message names the file, the line and the entry.
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
    file = _parse_file(path)
    shared: SearchType = file.type or "semantic"
    if file.beir:
        return read_beir(path.parent / file.beir, type=shared, filters=file.to_filters())
    return [
        GoldenQuestion(
            text=entry.question,
            answers=tuple(GoldenAnswer(each.path, each.symbol, each.relevance) for each in entry.answers),
            type=entry.type or shared,
            filters={**file.to_filters(), **entry.to_filters()},
            file=path.name,
        )
        for entry in file.questions
    ]


def _parse_file(path: Path) -> QuestionFile:
    parsed = parse_config(read_config(path), name=path.name)
    if is_list(parsed.value):  # of questions
        parsed = ParsedConfig(
            {"questions": parsed.value},
            {("questions", *key_path): line for key_path, line in parsed.lines.items()},
            [ConfigProblem(each.line, ("questions", *each.key_path), each.text) for each in parsed.problems],
        )
    try:
        file = QuestionFile.model_validate(parsed.value)
    except ValidationError as error:
        errors = error.errors(include_url=False, include_input=False)
        parsed.problems += [to_problem(each, parsed, QuestionFile) for each in errors]
        file = None
    if file is None or parsed.problems:
        raise ConfigError(format_problems(sorted(parsed.problems, key=lambda each: each.line), path))
    return file
