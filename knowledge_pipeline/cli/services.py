"""The entry of knowledge.yaml for a source that a service is asked for: an address, and who asks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from knowledge_pipeline.cli.session import WrongUsage

Entry = dict[str, Any]

_REPOSITORY = re.compile(r"^(?:https?://(?P<host>[^/@\s]+)/)?(?P<repository>[\w.-]+/[\w.-]+?)(?:\.git)?/?$")
_GITHUB = "github.com"


@dataclass(frozen=True, slots=True)
class Kind:
    """What is asked for a type, and how it is named."""

    address: str  # asked of a person
    token_variable: str
    named: str  # the end of an id


KINDS = {
    "github_pr": Kind("Repository on GitHub (owner/name, or its address)", "GITHUB_TOKEN", "pulls"),
    "github_issues": Kind("Repository on GitHub (owner/name, or its address)", "GITHUB_TOKEN", "issues"),
    "jira": Kind("Address of the Jira site", "JIRA_TOKEN", "tickets"),
    "confluence": Kind("Address of the Confluence site", "CONFLUENCE_TOKEN", "pages"),
}
"""The types that are read from a service."""


def service_entry(kind: str, address: str, *, email: str | None, token_variable: str | None) -> Entry:
    """An entry without an id; the token is named, never written.

    Args:
        kind: one of `KINDS`.
        address: of a site, or a repository.
        email: whose token it is, where the service wants to know.
        token_variable: the environment variable that holds the token; "" for none, None for the usual one.

    Raises:
        WrongUsage: the address is none, or an e-mail is given to a service that wants none.
    """
    variable = KINDS[kind].token_variable if token_variable is None else token_variable
    identity = {**({"email": email} if email else {}), **({"token": f"${{{variable}}}"} if variable else {})}
    if kind in ("github_pr", "github_issues"):
        if email:
            raise WrongUsage("--email is for Jira and Confluence: GitHub knows whose token it is")
        return {"type": kind, "connection": {**_github(address), **identity}}
    if not re.match(r"^https?://[^\s/@]+", address):
        raise WrongUsage(f"{address!r} is no address of a site: write it like https://example.atlassian.net")
    return {"type": kind, "connection": {"type": kind, "url": address.rstrip("/"), **identity}}


def service_name(entry: Entry) -> str:
    """The beginning of an id: the repository's name, or the site's."""
    connection = entry["connection"]
    if "repository" in connection:
        name = str(connection["repository"]).rpartition("/")[2]
    else:
        name = (urlsplit(connection["url"]).hostname or "").partition(".")[0]
    return re.sub(r"[^a-z0-9_-]+", "-", name.lower()).strip("-_") or "site"


def _github(address: str) -> Entry:
    found = _REPOSITORY.match(address.strip())
    if found is None:
        raise WrongUsage(f"{address!r} is no repository of GitHub: write owner/name, or its address")
    connection: Entry = {"type": "github", "repository": found["repository"]}
    host = found["host"] or _GITHUB
    return connection if host.endswith(_GITHUB) else {**connection, "url": f"https://{host}/api/v3"}
