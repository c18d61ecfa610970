"""Confluence Server and Data Center: its one REST API, which pages by offset.

Source: https://docs.atlassian.com/ConfluenceServer/rest/latest
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from knowledge_pipeline.errors import DocumentSkipped, SourceUnavailable
from knowledge_pipeline.sources.confluence.client import ConfluenceClient, Json
from knowledge_pipeline.sources.confluence.content import (
    CONTENT_KINDS,
    Page,
    PagePlace,
    labels_of,
    split_batches,
    storage_of,
    to_skipped,
)
from knowledge_pipeline.sources.confluence.search import MAX_IDS_PER_QUERY, SEARCH_PATH
from knowledge_pipeline.times import parse_time

_PAGE_SIZE = 200  # more is cut down by the server, whose `next` is followed whatever it gave
_SPACES_PER_CALL = 100
_LISTING_FIELDS = "version,ancestors,space,metadata.labels"  # no bodies
_BODY_FIELDS = "body.storage,version,space,history"


class ServerEdition:
    """An `Edition`."""

    needs_label_search = False  # its listing has them

    def __init__(self, client: ConfluenceClient) -> None:
        self._client = client
        self._names: dict[str, str] = {}
        self._resolved_accounts: set[str] = set()

    def list_spaces(self, keys: Sequence[str]) -> Mapping[str, str]:
        """Key by id."""
        question = {"spaceKey": list(keys)} if keys else {"status": "current"}
        question = {**question, "start": 0, "limit": _SPACES_PER_CALL}
        found = self._client.iter_results("rest/api/space", question)
        return {str(space["id"]): str(space["key"]) for space in found}

    def list_pages(self, spaces: Mapping[str, str], *, is_filtered: bool) -> Iterator[Page]:
        """Space by space where some are named, else all at once: a site may have thousands of spaces."""
        keys = set(spaces.values())
        for key in sorted(keys) if is_filtered else [""]:
            for kind in CONTENT_KINDS:
                question: Json = {"type": kind, "status": "current", "expand": _LISTING_FIELDS}
                question |= {"start": 0, "limit": _PAGE_SIZE} | ({"spaceKey": key} if key else {})
                pages = map(self._to_page, self._client.iter_results("rest/api/content", question))
                yield from (page for page in pages if page.space in keys)

    def find_pages(self, kind_by_id: Mapping[str, str], spaces: Mapping[str, str]) -> Iterator[Page]:
        """By id, in one search for many; the rest one by one, which the search does not know yet."""
        keys, missing = set(spaces.values()), dict(kind_by_id)
        for page in self._iter_by_id(kind_by_id, _LISTING_FIELDS):
            missing.pop(page.id, None)
            if page.space in keys:
                yield page
        for page_id in missing:
            raw = self._client.get_or_status(f"rest/api/content/{page_id}", {"expand": _LISTING_FIELDS})
            if isinstance(raw, dict) and raw.get("status", "current") == "current":
                page = self._to_page(raw)
                if page.space in keys:
                    yield page

    def read_pages(self, kind_by_id: Mapping[str, str]) -> Iterator[Page]:
        """By id, in one search for many, which reads bodies from the database, not from its index."""
        return self._iter_by_id(kind_by_id, _BODY_FIELDS)

    def read_page(self, page_id: str, kind: str) -> Page | DocumentSkipped:
        """One page, which the search may not know yet."""
        del kind
        raw = self._client.get_or_status(f"rest/api/content/{page_id}", {"expand": _BODY_FIELDS})
        if isinstance(raw, int) or raw.get("status", "current") != "current":
            return to_skipped(raw)
        return self._to_page(raw)

    def locate_pages(self, kind_by_id: Mapping[str, str]) -> Mapping[str, PagePlace]:
        """By id, in one search for many; the rest one by one, which the search does not know yet."""
        found: dict[str, PagePlace] = {}
        for several in split_batches(kind_by_id, MAX_IDS_PER_QUERY):
            for raw in self._search_by_id(several, "ancestors,space"):
                found[str(raw["id"])] = _to_place(raw)
        for page_id in kind_by_id.keys() - found.keys():
            raw = self._client.get_or_status(f"rest/api/content/{page_id}", {"expand": "ancestors,space"})
            if isinstance(raw, dict):
                found[page_id] = _to_place(raw)
        return found

    def list_labels(self, page: Page) -> tuple[str, ...]:
        """As listed."""
        return page.labels or ()

    def resolve_people(self, accounts: set[str]) -> Mapping[str, str]:
        """One by one, each account once, for want of a bulk call; pages include their authors' names."""
        for key in sorted(accounts - self._resolved_accounts):
            self._resolved_accounts.add(key)
            person = self._client.get_or_status("rest/api/user", {"key": key})
            if isinstance(person, dict) and person.get("displayName"):
                self._names[key] = str(person["displayName"])
        return self._names

    def _iter_by_id(self, kind_by_id: Mapping[str, str], expand: str) -> Iterator[Page]:
        if kind_by_id:
            yield from map(self._to_page, self._search_by_id(list(kind_by_id), expand))

    def _search_by_id(self, ids: Sequence[str], expand: str) -> Iterator[Json]:
        cql = f"id in ({', '.join(ids)}) and type in ({', '.join(CONTENT_KINDS)})"
        question = {"cql": cql, "expand": expand, "start": 0, "limit": _PAGE_SIZE}
        # stop after the last wanted one: the next page would be empty
        yield from islice(self._client.iter_results(SEARCH_PATH, question), len(ids))

    def _to_page(self, raw: Json) -> Page:
        try:
            version, creator = raw["version"], (raw.get("history") or Json()).get("createdBy") or Json()
            return Page(
                id=str(raw["id"]),
                kind=str(raw["type"]),
                space=str(raw["space"]["key"]),
                title=str(raw["title"]),
                version=int(version["number"]),
                updated=parse_time(str(version["when"])),
                ancestors=tuple(str(above["title"]) for above in raw.get("ancestors") or ()),
                labels=labels_of(raw),
                author=creator.get("displayName") if creator.get("type") != "anonymous" else None,
                storage=storage_of(raw),
                web_path=str((raw.get("_links") or Json()).get("webui") or ""),
            )
        except (KeyError, TypeError, ValueError):
            raise SourceUnavailable(
                f"{self._client.service} lists a page without its id, title or version: nothing was taken"
            ) from None


def _to_place(raw: Json) -> PagePlace:
    space, above = raw.get("space") or Json(), raw.get("ancestors") or ()
    return PagePlace(str(space.get("key") or ""), tuple(str(each["id"]) for each in above))
