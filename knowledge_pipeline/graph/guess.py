"""What a method's name alone may mean, where the way to it is not known."""

from __future__ import annotations

from knowledge_pipeline.graph.entities import Found, Instance, Known
from knowledge_pipeline.graph.evaluate import Evaluator
from knowledge_pipeline.graph.facts import Use
from knowledge_pipeline.graph.paths import steps_of
from knowledge_pipeline.graph.view import View

BELOW = 0.7
ALONE = 0.5
_FEW = 8  # files


def guessed(use: Use, scope: str, view: View, evaluator: Evaluator) -> Found:
    """Methods that a call may mean.

    Of a class that is known and lacks the method, those of what extends it; of something
    unknown, the only method so named in the source.
    """
    steps = steps_of(use.path)
    name = steps[-1].lstrip(".")
    language = view.index(view.path).language
    if len(steps) < 2 or steps[-1][0] != "." or steps[0] == "@around" or name in language.common:
        return {}
    receivers = evaluator.meaning(view.path, scope, use.path[: -len(steps[-1])])
    methods = _methods(name, view)
    if any(isinstance(each, Instance | Known) for each in receivers):
        return dict.fromkeys([each for each in methods if evaluator.members.is_below(each, receivers)], BELOW)
    return dict.fromkeys(methods, ALONE) if len(methods) == 1 else {}


def _methods(name: str, view: View) -> list[Known]:
    """All methods of a name in the same language, if they lie in few files."""
    files = view.defining(name)
    indices = [view.index(file) for file in files] if len(files) <= _FEW else []
    language = view.index(view.path).language
    return [
        Known(index.facts.path, each)
        for index in indices
        if index.language is language
        for each in index.by_last.get(name, ())
        if index.kinds[each] == "method"
    ]
