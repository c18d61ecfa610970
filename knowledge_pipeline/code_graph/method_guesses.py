"""What a method's name alone may mean, where the way to it is not known."""

from __future__ import annotations

from knowledge_pipeline.code_graph.access_paths import split_steps
from knowledge_pipeline.code_graph.entities import DefinitionRef, Instance, Meanings
from knowledge_pipeline.code_graph.evaluate import Evaluator
from knowledge_pipeline.code_graph.facts import Use
from knowledge_pipeline.code_graph.traced_view import TracedView

SUBCLASS_CONFIDENCE = 0.7
UNIQUE_NAME_CONFIDENCE = 0.5
_MAX_FILES = 8  # files


def guess_methods(use: Use, scope: str, view: TracedView, evaluator: Evaluator) -> Meanings:
    """Methods that a call may mean.

    Of a class that is known and lacks the method, those of what extends it; else the only method
    so named in the source: of something unknown, or of what a mixin will be mixed with.
    """
    steps = split_steps(use.path)
    name = steps[-1].lstrip(".")
    language = view.index(view.path).language
    if len(steps) < 2 or steps[-1][0] != "." or steps[0] == "@around" or name in language.common_methods:
        return {}
    receivers = evaluator.resolve_path(view.path, scope, use.path[: -len(steps[-1])])
    if name not in evaluator.methods_by_name:
        evaluator.methods_by_name[name] = view.log.record(lambda: _list_methods(name, view))
    methods, asked = evaluator.methods_by_name[name]
    view.log.mask |= asked
    if any(isinstance(each, Instance | DefinitionRef) for each in receivers):
        below = [each for each in methods if evaluator.is_subclass_method(each, receivers)]
        own = view.index(view.path).enclosing_class(scope)
        if below or Instance(view.path, own or "") not in receivers:
            return dict.fromkeys(
                [each for each in below if not _overrides(each, below, evaluator)], SUBCLASS_CONFIDENCE
            )
    return dict.fromkeys(methods, UNIQUE_NAME_CONFIDENCE) if len(methods) == 1 else {}


def _overrides(method: DefinitionRef, methods: list[DefinitionRef], evaluator: Evaluator) -> bool:
    classes = (DefinitionRef(each.path, each.name.rpartition(".")[0]) for each in methods if each != method)
    others: Meanings = dict.fromkeys(classes, 1.0)
    return evaluator.is_subclass_method(method, others)


def _list_methods(name: str, view: TracedView) -> list[DefinitionRef]:
    """All methods of a name in the same language, if they lie in few files."""
    files = view.files_defining(name)
    indices = [view.index(file) for file in files] if len(files) <= _MAX_FILES else []
    language = view.index(view.path).language
    return [
        DefinitionRef(index.facts.path, each)
        for index in indices
        if index.language is language
        for each in index.definitions_named(name)
        if index.kinds[each] == "method"
    ]
