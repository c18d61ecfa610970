"""What is called, iterated or taken out of values of JavaScript and TypeScript."""

from __future__ import annotations

from knowledge_pipeline.code_graph.languages.ecmascript.types import Values


def call_values(values: Values) -> Values:
    """What calling any of the values gives."""
    found: Values = []
    for suffix, value in values:
        if suffix.startswith("()"):
            found.append((suffix[2:], value))
        elif not suffix:
            found.append(("", f"{value}()"))
    return found


def element_values(values: Values) -> Values:
    """What values give that are iterated over."""
    found: Values = []
    for suffix, value in values:
        if suffix.startswith("["):
            found.append((suffix[suffix.index("]") + 1 :], value))
        elif not suffix:
            found.append(("", f"{value}[]"))
    return found


def step_values(values: Values, step: str) -> Values:
    """What a step takes out of values: ".rows" or "[1]"."""
    steps = (step, "[]") if step[0] == "[" else (step,)
    found: Values = []
    for suffix, value in values:
        start = next((each for each in steps if suffix.startswith(each)), None)
        if start is not None and suffix[len(start) : len(start) + 1] in ("", ".", "(", "["):
            found.append((suffix[len(start) :], value))
        elif not suffix:
            found.append(("", value + step))
    return found
