"""Entries of knowledge.yaml for sources that are read from a service."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from knowledge_pipeline.cli.session import WrongUsage
from knowledge_pipeline.config.connections.archive_file import ARCHIVE_NAME

SourceEntry = dict[str, Any]
"""One item of `sources`, as written in the file; `Any`: plain YAML values."""

_REPOSITORY_ADDRESS = re.compile(r"^(?:https?://(?P<host>[^/@\s]+)/)?(?P<path>[\w.-]+(?:/[\w.-]+)+)$")
_AZURE_ADDRESS = re.compile(
    r"https://(?P<account>[a-z0-9]+)\.blob\.core\.windows\.net/(?P<container>[^/?#]+)/?(?P<prefix>[^?#]*)"
)
_GITHUB, _GITLAB = "github.com", "gitlab.com"
_REPOSITORY_PROMPT = "Repository on GitHub or GitLab (its address)"
_HOSTED_KINDS = ("github_pr", "github_issues", "discussions", "releases", "snippets")


@dataclass(frozen=True, slots=True)
class ServiceKind:
    """How a source type is added."""

    address_prompt: str  # "" if the service has one address
    token_variable: str
    id_suffix: str


SERVICE_KINDS = {
    "github_pr": ServiceKind(_REPOSITORY_PROMPT, "GITHUB_TOKEN", "pulls"),
    "github_issues": ServiceKind(_REPOSITORY_PROMPT, "GITHUB_TOKEN", "issues"),
    "discussions": ServiceKind("Repository on GitHub (its address)", "GITHUB_TOKEN", "discussions"),
    "releases": ServiceKind(_REPOSITORY_PROMPT, "GITHUB_TOKEN", "releases"),
    "snippets": ServiceKind("Project on GitLab (its address)", "GITLAB_TOKEN", "snippets"),
    "jira": ServiceKind("Address of the Jira site", "JIRA_TOKEN", "tickets"),
    "confluence": ServiceKind("Address of the Confluence site", "CONFLUENCE_TOKEN", "pages"),
    "slack": ServiceKind("", "SLACK_TOKEN", "slack"),
}
"""The types that are read from a service."""


def build_service_entry(
    kind: str, address: str, *, email: str | None, token_variable: str | None
) -> SourceEntry:
    """An entry without an id; it names the variable of the token ("": none, None: usual), never the token.

    Raises:
        WrongUsage: the address is invalid, or the service takes no e-mail.
    """
    hosted = _parse_repository_address(address) if kind in _HOSTED_KINDS else None
    usual = "GITLAB_TOKEN" if hosted and hosted["type"] == "gitlab" else SERVICE_KINDS[kind].token_variable
    variable = usual if token_variable is None else token_variable
    identity = {**({"email": email} if email else {}), **({"token": f"${{{variable}}}"} if variable else {})}
    if email and kind not in ("jira", "confluence"):
        raise WrongUsage("--email is for Jira and Confluence: other services know the token's account")
    if hosted:
        return {"type": kind, "connection": {**hosted, **identity}}
    if kind == "slack":
        return {"type": kind, "connection": {"type": "slack", **identity}}
    if not re.match(r"^https?://[^\s/@]+", address):
        raise WrongUsage(
            f"{address!r} is not the address of a site: write it like https://example.atlassian.net"
        )
    return {"type": kind, "connection": {"type": kind, "url": address.rstrip("/"), **identity}}


def parse_wiki_url(address: str) -> SourceEntry | None:
    """The connection of a wiki of GitHub or GitLab, by its address in a browser; None for any other."""
    for mark in ("/-/wikis", "/wiki"):
        repository, found, rest = address.partition(mark)
        host = urlsplit(repository).hostname or ""
        if found and rest[:1] in ("", "/") and ("github" in host or "gitlab" in host):
            return {**_parse_repository_address(repository), "wiki": True}
    return None


def parse_bucket_url(address: str) -> SourceEntry | None:
    """The connection of `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX` or a container of Azure; else None.

    Raises:
        WrongUsage: an `az://` URL, which names no account.
    """
    scheme, separator, rest = address.partition("://")
    if scheme == "az":
        raise WrongUsage(
            "an az:// URL names no account: give https://ACCOUNT.blob.core.windows.net/CONTAINER/PREFIX"
        )
    if found := _AZURE_ADDRESS.fullmatch(address):
        return {"type": "azure", **{name: value for name, value in found.groupdict().items() if value}}
    kind = {"s3": "s3", "gs": "gcs"}.get(scheme)
    if kind is None or not separator:
        return None
    bucket, _, prefix = rest.partition("/")
    return {"type": kind, "bucket": bucket, **({"prefix": prefix} if prefix else {})}


def is_archive_file(path: Path) -> bool:
    """Whether a path is of an archive on this machine, by its name."""
    return ARCHIVE_NAME.search(path.name) is not None and path.expanduser().is_file()


def build_archive_connection(bucket: SourceEntry) -> SourceEntry:
    """The connection of an object of a bucket, where the bucket's prefix is the name of an archive."""
    is_archive = ARCHIVE_NAME.search(bucket.get("prefix", ""))
    return {"type": "archive_file", "object": bucket} if is_archive else bucket


def derive_archive_name(path: str) -> str:
    """The first part of an id: the name of an archive."""
    name = ARCHIVE_NAME.sub("", path.rpartition("/")[2])
    return re.sub(r"[^a-z0-9_-]+", "-", name.lower()).strip("-_") or "archive"


def derive_service_name(entry: SourceEntry) -> str:
    """The first part of an id: the name of the repository or site."""
    connection: dict[str, str] = entry["connection"]
    if connection["type"] == "archive_file":
        return derive_archive_name(entry["connection"]["object"]["prefix"])
    keys = ("repository", "project", "bucket", "container")
    if path := next((connection[key] for key in keys if key in connection), None):
        name = path.rpartition("/")[2]
    else:
        name = (urlsplit(connection.get("url", "")).hostname or "workspace").partition(".")[0]
    return re.sub(r"[^a-z0-9_-]+", "-", name.lower()).strip("-_") or "site"


def _parse_repository_address(address: str) -> SourceEntry:
    """The connection of a repository: GitLab's if the host says so, or else GitHub's."""
    found = _REPOSITORY_ADDRESS.match(address.strip().rstrip("/").removesuffix(".git"))
    host, path = (found["host"] or _GITHUB, found["path"]) if found else ("", "")
    if "gitlab" in host:
        site = {} if host == _GITLAB else {"url": f"https://{host}"}
        return {"type": "gitlab", "project": path, **site}
    if not host or path.count("/") != 1:
        raise WrongUsage(f"{address!r} is not a repository on GitHub or GitLab: give its address")
    site = {} if host == _GITHUB else {"url": f"https://{host}/api/v3"}
    return {"type": "github", "repository": path, **site}
