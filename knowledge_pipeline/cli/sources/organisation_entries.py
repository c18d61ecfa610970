"""Entries of knowledge.yaml for organisations: all that a service has of what one address names."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from knowledge_pipeline.cli.session import WrongUsage
from knowledge_pipeline.cli.sources.service_entries import (
    SourceEntry,
    build_service_entry,
    parse_bucket_url,
)
from knowledge_pipeline.config.connections.archive_file import ARCHIVE_NAME

_OF_SITES = {"jira": "jira_projects", "confluence": "confluence_spaces", "slack": "slack_channels"}
_ADDRESS = re.compile(
    r"^(?:https?://)?(?P<host>[\w-]+(?:\.[\w-]+)+(?::\d+)?)/(?P<path>[\w.-]+(?:/[\w.-]+)*)$"
)


def build_organisation_connection(
    kind: str, address: str, *, email: str | None, token_variable: str | None
) -> SourceEntry:
    """The connection of an organisation, by the type of its members' sources and the address of all.

    Raises:
        WrongUsage: the address names nothing that has members of this type.
    """
    if kind in _OF_SITES:
        entry = build_service_entry(kind, address, email=email, token_variable=token_variable)
        return {**entry["connection"], "type": _OF_SITES[kind]}
    if email:
        raise WrongUsage("--email is for Jira and Confluence")
    if bucket := parse_bucket_url(address):
        if token_variable:
            raise WrongUsage("a bucket takes no --token-env: see --set connection.access_key_id")
        if pattern := find_archive_pattern(address):
            return {**bucket, "type": f"{bucket['type']}_archives", "prefix": pattern.rpartition("/")[0]}
        return {**bucket, "type": f"{bucket['type']}_folders"}
    found = _ADDRESS.match(address.strip().rstrip("/"))
    if found is None or ("gitlab" not in found["host"] and "/" in found["path"]):
        raise WrongUsage(
            f"{address!r} is no organisation: give github.com/NAME, gitlab.com/GROUP, s3://BUCKET/PREFIX, "
            "the address of a Jira or Confluence site, or --path FOLDER"
        )
    host, path = found["host"], found["path"]
    is_gitlab = "gitlab" in host
    variable = token_variable or ("GITLAB_TOKEN" if is_gitlab else "GITHUB_TOKEN")
    identity = {"token": f"${{{variable}}}"}
    if is_gitlab:
        site = {} if host == "gitlab.com" else {"url": f"https://{host}"}
        return {"type": "gitlab_group", "group": path, **site, **identity}
    site = {} if host == "github.com" else {"url": f"https://{host}/api/v3"}
    return {"type": "github_organisation", "organisation": path, **site, **identity}


def find_archive_pattern(address: str) -> str | None:
    """The names of archives that `s3://BUCKET/PREFIX/*.zip` means; None for any other address."""
    prefix = (parse_bucket_url(address) or {}).get("prefix", "")
    name = prefix.rpartition("/")[2]
    return prefix if "*" in name and ARCHIVE_NAME.search(name) else None


def choose_organisation_id(connection: SourceEntry, used_ids: set[str]) -> str:
    """The name of the organisation, the site or the folder, with a number where that is taken."""
    known: dict[str, str] = connection
    named = (known.get(key) for key in ("organisation", "group", "prefix", "bucket", "path"))
    name = next((each.rstrip("/").rpartition("/")[2] for each in named if each), "")
    name = name or (urlsplit(known.get("url", "")).hostname or "").partition(".")[0]
    slug = re.sub(r"[^a-z0-9_-]+", "-", name.lower()).strip("-_")[:30] or known["type"].partition("_")[0]
    numbers = ["", *map(str, range(2, len(used_ids) + 3))]  # no "-2": ids do not begin with another and "-"
    return next(f"{slug}{number}" for number in numbers if f"{slug}{number}" not in used_ids)
