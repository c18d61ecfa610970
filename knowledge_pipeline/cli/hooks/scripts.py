"""The lines that a git hook gets, beside whatever else it does."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from knowledge_pipeline.errors import ConfigError

HOOKS = ("post-commit", "post-merge", "post-rewrite", "post-checkout")
"""After each of these HEAD may name another commit."""

_BEGIN, _END = "# knowledge: begin", "# knowledge: end"
_BLOCK = re.compile(rf"\n?{_BEGIN}\n[^\0]*?{_END}\n")
_SHELL = re.compile(r"#!\s*(?:/usr)?/bin/(?:env )?(?:ba|da|z|k)?sh\b")


def build_script(path: Path, command: Sequence[str], log: Path) -> str:
    """The text of a hook that also starts a command in the background, once.

    Raises:
        ConfigError: the hook is there and is no shell script.
    """
    present = path.read_text("utf-8") if path.exists() else "#!/bin/sh\n"
    if not _SHELL.match(present):
        raise ConfigError(f"{path} is not a shell script: let it start `{shlex.join(command)}` itself")
    started = f"nohup {shlex.join(command)} >{shlex.quote(str(log))} 2>&1 </dev/null &"
    # Git names its repository and index to a hook, and would to every git that the command starts.
    lines = [_BEGIN, "(", "unset $(git rev-parse --local-env-vars)", started, ")", _END]
    return _BLOCK.sub("", present).rstrip("\n") + "\n" + "\n".join(lines) + "\n"


def write_script(path: Path, text: str) -> None:
    """Write a hook that git can start."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    path.chmod(path.stat().st_mode | 0o755)


def remove_command(path: Path) -> bool:
    """Take the lines out of a hook, and remove one that does nothing else; whether they were there."""
    present = path.read_text("utf-8") if path.exists() else ""
    rest = _BLOCK.sub("", present)
    if rest == present:
        return False
    if rest.partition("\n")[2].strip():  # more than the line that names the shell
        path.write_text(rest.rstrip("\n") + "\n", "utf-8")
    else:
        path.unlink()
    return True
