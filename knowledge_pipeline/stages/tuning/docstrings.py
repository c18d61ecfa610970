"""Docstrings as questions: the first sentence asks for the definition, with the docstring taken out. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from knowledge_pipeline.chunking.code.documentation import extract_first_sentence, find_documentation
from knowledge_pipeline.evaluation.golden import GoldenAnswer, GoldenQuestion
from knowledge_pipeline.stages.tuning.pairs import Pair, is_question
from knowledge_pipeline.syntax.grammars import GRAMMARS, choose_grammar, parse
from knowledge_pipeline.syntax.outline import Outline


def iter_docstring_pairs(
    text: str, *, source: str, path: str, language: str | None, made_at: datetime | None = None
) -> Iterator[Pair]:
    """A pair for each definition of a file whose documentation begins with a sentence that is a question."""
    if language not in GRAMMARS:
        return
    syntax = parse(text, choose_grammar(language, path))
    outline = Outline(syntax) if syntax else None
    for definition in outline.definitions if outline else ():
        documentation = find_documentation(outline, definition) if outline else ""
        sentence = extract_first_sentence(documentation, definition.name)
        if is_question(sentence):
            answer = GoldenAnswer(path, definition.symbol)
            question = GoldenQuestion(sentence, (answer,), "code", {"sources": (source,)})
            yield Pair("docstring", question, f"{source}:{path}", made_at, documentation)
