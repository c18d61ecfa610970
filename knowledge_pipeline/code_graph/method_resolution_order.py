"""The order in which classes are searched for a member."""

from __future__ import annotations

from collections.abc import Callable

ClassKey = tuple[str, str]
Lineage = list[ClassKey | str]


def linearize(
    start: ClassKey, bases_of: Callable[[ClassKey], Lineage], lineage_of: Callable[[str, str], Lineage]
) -> Lineage:
    """A class, and what it extends in the order of C3; what is outside of the source comes last.

    Where C3 has no answer, the bases' own orders follow each other.

    Source: https://docs.python.org/3/howto/mro.html
    """
    bases = bases_of(start)
    lines = [list(lineage_of(*base)) if isinstance(base, tuple) else [base] for base in bases]
    outside = list(dict.fromkeys(each for line in lines for each in line if isinstance(each, str)))
    inside = [[each for each in line if isinstance(each, tuple)] for line in lines]
    inside.append([each for each in bases if isinstance(each, tuple)])
    return [start, *(each for each in _merge_c3(inside) if each != start), *outside]


def _merge_c3(lines: list[list[ClassKey]]) -> list[ClassKey]:
    merged: list[ClassKey] = []
    lines = [line for line in lines if line]
    while lines:
        later = {each for line in lines for each in line[1:]}
        head = next((line[0] for line in lines if line[0] not in later), lines[0][0])
        merged.append(head)
        lines = [line for line in ([each for each in one if each != head] for one in lines) if line]
    return merged
