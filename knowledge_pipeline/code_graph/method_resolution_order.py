"""The order in which classes are searched for a member."""

from __future__ import annotations

from collections.abc import Callable

Class = tuple[str, str]
Line = list[Class | str]


def linearized(start: Class, bases_of: Callable[[Class], Line], line_of: Callable[[str, str], Line]) -> Line:
    """A class, and what it extends in the order of C3; what is outside of the source comes last.

    Where C3 has no answer, the bases' own orders follow each other.

    Source: https://docs.python.org/3/howto/mro.html
    """
    bases = bases_of(start)
    lines = [list(line_of(*base)) if isinstance(base, tuple) else [base] for base in bases]
    outside = list(dict.fromkeys(each for line in lines for each in line if isinstance(each, str)))
    inside = [[each for each in line if isinstance(each, tuple)] for line in lines]
    inside.append([each for each in bases if isinstance(each, tuple)])
    return [start, *(each for each in _merged(inside) if each != start), *outside]


def _merged(lines: list[list[Class]]) -> list[Class]:
    merged: list[Class] = []
    lines = [line for line in lines if line]
    while lines:
        later = {each for line in lines for each in line[1:]}
        head = next((line[0] for line in lines if line[0] not in later), lines[0][0])
        merged.append(head)
        lines = [line for line in ([each for each in one if each != head] for one in lines) if line]
    return merged
