"""How often this process looks for garbage that reference counts leave: cycles of objects."""

from __future__ import annotations

import gc

_YOUNG_OBJECTS = 10_000  # made before Python looks; queries under way, and rows in the making, are thousands


def collect_less_often() -> None:
    """Have this process look for cycles once in 10,000 new objects, unless it does so less often already.

    By default it is once in 700: what is in the making then counts as old, and each look at what is old goes
    through all objects of the process. It took a seventh of a first index, and of an edit, and found little.
    """
    young, *older = gc.get_threshold()
    if 0 < young < _YOUNG_OBJECTS:  # 0: it never looks
        gc.set_threshold(_YOUNG_OBJECTS, *older)
