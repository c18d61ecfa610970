"""Confluence Server and Data Center: its one REST API, which pages by offset.

Source: https://docs.atlassian.com/ConfluenceServer/rest/latest
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from knowledge_pipeline.errors import DocumentSkipped, SourceUnavailable
from knowledge_pipeline.sources.confluence.client import Json, Wiki
from knowledge_pipeline.sources.confluence.content import KINDS, Page, labels_of, moment, storage_of
from knowledge_pipeline.sources.confluence.search import SEARCH

_LIMIT = 200  # more is cut down by the server, whose `next` is followed whatever it gave
_SPACES = 100
_LISTED = "version,ancestors,space,metadata.labels"  # no bodies
_READ = "body.storage,version,space,history"


class ServerEdition:
    """An `Edition`."""

    searched_for_labels = False  # its listing tells them

    def __init__(self, wiki: Wiki) -> None:
        self._wiki = wiki
        self._names: dict[str, str] = {}
        self._asked: set[str] = set()

    def spaces(self, keys: Sequence[str]) -> Mapping[str, str]:
        """Key by id."""
        question = {"spaceKey": list(keys)} if keys else {"status": "current"}
        found = self._wiki.listing("rest/api/space", {**question, "start": 0, "limit": _SPACES})
        return {str(space["id"]): str(space["key"]) for space in found}

    def listed(self, spaces: Mapping[str, str], *, named: bool) -> Iterator[Page]:
        """Space by space where some are named, else all at once: a site may have thousands of spaces."""
        keys = set(spaces.values())
        for key in sorted(keys) if named else [""]:
            for kind in KINDS:
                question = {"type": kind, "status": "current", "start": 0, "limit": _LIMIT, "expand": _LISTED}
                if key:
                    question["spaceKey"] = key
                pages = (self._page_of(raw) for raw in self._wiki.listing("rest/api/content", question))
                yield from (page for page in pages if page.space in keys)

    def found(self, wanted: Mapping[str, str], spaces: Mapping[str, str]) -> Iterator[Page]:
        """By id, in one search for many."""
        keys = set(spaces.values())
        yield from (page for page in self._by_id(wanted, _LISTED) if page.space in keys)

    def read(self, wanted: Mapping[str, str]) -> Iterator[Page]:
        """By id, in one search for many, which reads bodies from the database, not from its index."""
        return self._by_id(wanted, _READ)

    def read_one(self, page_id: str, kind: str) -> Page | DocumentSkipped:
        """One page, which the search may not know yet."""
        del kind
        raw = self._wiki.get_one(f"rest/api/content/{page_id}", {"expand": _READ})
        if isinstance(raw, int):
            return DocumentSkipped(
                "the token may not read it any more" if raw == 403 else "deleted while it was read"
            )
        if raw.get("status", "current") != "current":
            return DocumentSkipped("deleted while it was read")
        return self._page_of(raw)

    def labels(self, page: Page) -> tuple[str, ...]:
        """As listed."""
        return page.labels or ()

    def people(self, accounts: set[str]) -> Mapping[str, str]:
        """One by one, each asked for once: no bulk exists. Authors need none, pages tell their names."""
        for key in sorted(accounts - self._asked):
            self._asked.add(key)
            person = self._wiki.get_one("rest/api/user", {"key": key})
            if isinstance(person, dict) and person.get("displayName"):
                self._names[key] = str(person["displayName"])
        return self._names

    def _by_id(self, wanted: Mapping[str, str], expand: str) -> Iterator[Page]:
        if wanted:
            cql = f"id in ({', '.join(wanted)}) and type in ({', '.join(KINDS)})"
            question = {"cql": cql, "expand": expand, "start": 0, "limit": _LIMIT}
            found = self._wiki.listing(SEARCH, question)
            yield from (
                self._page_of(raw) for raw in islice(found, len(wanted))
            )  # no page after the last one

    def _page_of(self, raw: Json) -> Page:
        try:
            version = raw["version"]
            return Page(
                id=str(raw["id"]),
                kind=str(raw["type"]),
                space=str(raw["space"]["key"]),
                title=str(raw["title"]),
                version=int(version["number"]),
                updated=moment(version["when"]),
                trail=tuple(str(above["title"]) for above in raw.get("ancestors") or ()),
                labels=labels_of(raw),
                author=_creator(raw),
                storage=storage_of(raw),
                address=str((raw.get("_links") or {}).get("webui") or ""),
            )
        except (KeyError, TypeError, ValueError):
            raise SourceUnavailable(
                f"{self._wiki.service} lists a page without its id, title or version: nothing was taken"
            ) from None


def _creator(raw: Json) -> str | None:
    """The creator's name; a page that somebody made without signing in has none."""
    creator = (raw.get("history") or {}).get("createdBy") or {}
    return creator.get("displayName") if creator.get("type") != "anonymous" else None
