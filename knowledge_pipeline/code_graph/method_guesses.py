"""What a method's name alone may mean, where the way to it is not known."""

from __future__ import annotations

from knowledge_pipeline.code_graph.access_paths import steps_of
from knowledge_pipeline.code_graph.entities import Found, Instance, Known
from knowledge_pipeline.code_graph.evaluate import Evaluator
from knowledge_pipeline.code_graph.facts import Use
from knowledge_pipeline.code_graph.traced_view import View

BELOW = 0.7
ALONE = 0.5
_FEW = 8  # files


def guessed(use: Use, scope: str, view: View, evaluator: Evaluator) -> Found:
    """Methods that a call may mean.

    Of a class that is known and lacks the method, those of what extends it; else the only method
    so named in the source: of something unknown, or of what a mixin will be mixed with.
    """
    steps = steps_of(use.path)
    name = steps[-1].lstrip(".")
    language = view.index(view.path).language
    if len(steps) < 2 or steps[-1][0] != "." or steps[0] == "@around" or name in language.common:
        return {}
    receivers = evaluator.meaning(view.path, scope, use.path[: -len(steps[-1])])
    methods = _methods(name, view)
    if any(isinstance(each, Instance | Known) for each in receivers):
        below = [each for each in methods if evaluator.members.is_below(each, receivers)]
        own = view.index(view.path).class_of(scope)
        if below or Instance(view.path, own or "") not in receivers:
            return dict.fromkeys([each for each in below if not _overrides(each, below, evaluator)], BELOW)
    return dict.fromkeys(methods, ALONE) if len(methods) == 1 else {}


def _overrides(method: Known, methods: list[Known], evaluator: Evaluator) -> bool:
    """Whether a method's class extends that of another one."""
    others: Found = {_class_of(each): 1.0 for each in methods if each != method}
    return evaluator.members.is_below(method, others)


def _class_of(method: Known) -> Known:
    return Known(method.path, method.name.rpartition(".")[0])


def _methods(name: str, view: View) -> list[Known]:
    """All methods of a name in the same language, if they lie in few files."""
    files = view.defining(name)
    indices = [view.index(file) for file in files] if len(files) <= _FEW else []
    language = view.index(view.path).language
    return [
        Known(index.facts.path, each)
        for index in indices
        if index.language is language
        for each in index.named(name)
        if index.kinds[each] == "method"
    ]
