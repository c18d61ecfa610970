"""Addresses of git repositories, read in one way: whoever checks an address and whoever opens it ask here."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

_HOST = r"(?P<host>[A-Za-z0-9_][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\])"
_USER = r"(?:(?P<user>[^/?#\\\s-][^/?#\\\s]*)@)?"
_URL = re.compile(rf"{_USER}{_HOST}(?::[0-9]{{0,5}})?(?P<path>[/?#].*)?")
_SCP = re.compile(rf"(?:[^/@:\s-][^/@:\s]*@)?{_HOST}:(?P<path>.+)", re.DOTALL)
_SCHEMES = {name: name for name in ("file", "git", "http", "https", "ssh")} | dict.fromkeys(
    ("git+ssh", "ssh+git"), "ssh"
)
_TRANSPORT_HELPER = re.compile(r"[A-Za-z0-9+.-]+::")


@dataclass(frozen=True, slots=True)
class GitAddress:
    """Where git connects to, or which folder of this machine it opens."""

    url: str
    """What git is given: with the scheme in lower case; of HTTP without user and password."""
    scheme: str
    """One of file, git, http, https and ssh; a path of this machine is `file`."""
    host: str
    """In lower case; "" for this machine."""
    path: str
    """Of this machine: the folder that git opens. Of a URL: what follows the host, a query left out."""
    user: str | None = None
    """User, or user and password, as the URL has them; of HTTP alone."""

    @property
    def is_local(self) -> bool:
        """Whether a folder of this machine is read."""
        return self.scheme == "file"


def parse_git_address(text: str) -> GitAddress:
    """Read an address as git does, but refuse what could be read in two ways.

    Raises `ValueError`: it names a helper or another scheme, or has a space or a control character where none
    belongs. The message does not repeat the address, which may hold a password.
    """
    if not text or text != text.strip() or any(ord(char) < 32 or ord(char) == 127 for char in text):
        raise ValueError("it has a space around it, or a control character")
    if text.startswith(("-", "//", "\\\\")) or _TRANSPORT_HELPER.match(text):
        raise ValueError("git would take it for an option, another machine's folder, or a program to run")
    scheme, mark, rest = text.partition("://")
    if mark:
        return _parse_url(scheme.lower(), rest)
    scp = None if Path(text).is_absolute() else _SCP.fullmatch(text)
    if scp:
        host = scp["host"].lower()
        if host in _SCHEMES:
            raise ValueError(f"{host}: is followed by //")
        return GitAddress(text, "ssh", host, scp["path"])
    if ":" in text.partition("/")[0] and not Path(text).is_absolute():
        raise ValueError("its host has a character that no host has; a folder's path begins with ./ or /")
    return GitAddress(text, "file", "", text)


def _parse_url(scheme: str, rest: str) -> GitAddress:
    if scheme not in _SCHEMES:
        raise ValueError("git is given no other schemes than file, git, http, https and ssh")
    if any(char.isspace() for char in rest):
        raise ValueError("a URL has no spaces: write %20")
    url = f"{scheme}://{rest}"
    if scheme == "file":
        path = unquote(rest, errors="surrogateescape")
        if not path.startswith("/") or path.startswith("//") or any(ord(char) < 32 for char in path):
            raise ValueError("file:// is followed by an absolute path of this machine")
        return GitAddress(url, "file", "", path)
    match = _URL.fullmatch(rest)
    if not match:
        raise ValueError("its host has a character that no host has")
    user, path = match["user"], match["path"] or ""
    if scheme in ("http", "https"):  # whose user and password travel in a header
        url = f"{scheme}://{rest.removeprefix(f'{user}@') if user else rest}"
    path = re.split(r"[?#]", path, maxsplit=1)[0]
    own_user = user if scheme in ("http", "https") else None
    return GitAddress(url, _SCHEMES[scheme], match["host"].lower().strip("[]"), path, own_user)
