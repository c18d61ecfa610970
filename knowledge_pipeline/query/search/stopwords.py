"""Words of a question that say how it is asked, not what about: full text does without them.

They are left out of what is asked and not of what is indexed, so that a question that has no
other words ("to be or not to be") still finds them.
"""

from __future__ import annotations

import re

_STOPWORD_LIST = """
    a about again all am an and any are as at be been being both but by can could did do does doing done down
    during each few for from further had has have having he her here him his how i if in into is it its just
    many me more most much must my no nor not of off on once only or other our out over own same shall she
    should so some such than that the their them then there these they this those through to too under until
    up us use used uses using very was we were what when where which while who whom whose why will with would
    you your
"""
_STOPWORDS = frozenset(_STOPWORD_LIST.split())
_WORD = re.compile(r"\w+(?:['’]\w+)?")


def remove_stopwords(text: str) -> str:
    """The words of a text that say what it is about, in their order; all of them if none does."""
    words: list[str] = _WORD.findall(text)
    telling = [word for word in words if word.casefold() not in _STOPWORDS]
    return " ".join(telling or words) or text
