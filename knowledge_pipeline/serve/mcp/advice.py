"""Messages as an agent can act on them: it has no shell, or one on another machine."""

from __future__ import annotations

import re

_COMMAND = re.compile(r"`(?:knowledge |ulimit |--)[^`]*`|pip install")
_CLAUSE_END = re.compile(r"[:;.] ")
_OPERATOR = "whoever operates this knowledge base can mend that"


def drop_commands(sentence: str) -> str:
    """A message that names, in place of what to type into a shell, who can."""
    command = _COMMAND.search(sentence)
    if command is None:
        return sentence
    ends = list(_CLAUSE_END.finditer(sentence, 0, command.start()))
    problem = sentence[: ends[-1].start()] if ends else sentence[: command.start()].rstrip()
    return f"{problem}: {_OPERATOR}{'.' if sentence.endswith('.') else ''}"
