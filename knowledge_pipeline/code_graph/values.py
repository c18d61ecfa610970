"""What an expression or a type says of a name: values, each with the suffix of the path that it belongs to.

`List<Store> rows` says that `rows` is a `List()`, and that what it holds, `rows[]`, is a `Store()`:
the values ("", "List()") and ("[]", "Store()").
"""

from __future__ import annotations

from collections.abc import Iterable

Value = tuple[str, str]
"""A suffix, and a path whose value the name has with that suffix."""

Values = list[Value]


def add_prefix(prefix: str, values: Iterable[Value]) -> Values:
    """The values beneath a suffix."""
    return [(prefix + suffix, value) for suffix, value in values if value]


def tuple_values(places: Iterable[Iterable[Value]]) -> Values:
    """The values of a tuple's places: "[0]", "[1]"."""
    return [value for place, values in enumerate(places) for value in add_prefix(f"[{place}]", values)]


def own_value(values: Iterable[Value]) -> str | None:
    """The value of the name itself."""
    return next((value for suffix, value in values if not suffix), None)


def called_values(values: Iterable[Value]) -> Values:
    """The values of what calling the name gives."""
    return [
        (suffix.removeprefix("()"), value) if suffix else ("", f"{value}()")
        for suffix, value in values
        if not suffix or suffix.startswith("()")
    ]


def element_values(values: Iterable[Value]) -> Values:
    """The values of what iterating gives."""
    return [
        (suffix.removeprefix("[]"), value) if suffix else ("", f"{value}[]")
        for suffix, value in values
        if not suffix or suffix.startswith("[]")
    ]


def iterated_values(values: Iterable[Value]) -> Values:
    """The values of what iterating gives, tuples included."""
    return [
        (suffix[suffix.index("]") + 1 :], value) if suffix else ("", f"{value}[]")
        for suffix, value in values
        if not suffix or suffix.startswith("[")
    ]


def step_values(values: Iterable[Value], step: str) -> Values:
    """The values of what a step leads to: ".rows" or "[1]"; any element is also the one at a position."""
    steps = (step, "[]") if step[0] == "[" else (step,)
    found: Values = []
    for suffix, value in values:
        start = next((each for each in steps if suffix.startswith(each)), None)
        if start is not None and suffix[len(start) : len(start) + 1] in ("", ".", "(", "["):
            found.append((suffix[len(start) :], value))
        elif not suffix:
            found.append(("", value + step))
    return found


def values_at(values: Values, step: str) -> Values:
    """The values that are known of a step; if none are, the step taken from the name's own value."""
    found = [(suffix.removeprefix(step), value) for suffix, value in values if suffix.startswith(step)]
    return found or [("", value + step) for suffix, value in values if not suffix]
