"""The APIs of Confluence Cloud, and of Confluence Server and Data Center, as one interface."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from knowledge_pipeline.connectors.confluence.client import ConfluenceClient, Json
from knowledge_pipeline.connectors.confluence.content import (
    BOARD_KINDS,
    CONTENT_KINDS,
    MAX_IDS_PER_QUERY,
    SEARCH_PATH,
    Page,
    PagePlace,
    labels_of,
    shared_labels,
    storage_of,
    to_skipped,
)
from knowledge_pipeline.connectors.service import split_batches
from knowledge_pipeline.errors import DocumentSkipped, SourceUnavailable
from knowledge_pipeline.text import descend, list_objects
from knowledge_pipeline.times import parse_time

_CLOUD_PAGE_SIZE = 250  # the most that v2 gives in one page
_SPACES_PER_CALL = 100  # the most spaces that one listing takes
_PEOPLE_PER_CALL = 100
_PATHS = {kind: f"api/v2/{kind}s" for kind in (*CONTENT_KINDS, *BOARD_KINDS)}
_CONTAINER_KINDS = frozenset({"folder", "whiteboard", "database", "embed"})  # what else a page may be under


class _TreeNode(NamedTuple):
    title: str
    parent_id: str
    parent_kind: str


class _Edition:
    def __init__(self, client: ConfluenceClient) -> None:
        self._client = client
        self._names: dict[str, str] = {}  # of people, by account
        self._resolved_accounts: set[str] = set()

    def _take_unresolved(self, accounts: set[str]) -> list[str]:
        """Those whose names were not asked for yet, each once."""
        unresolved = sorted(accounts - self._resolved_accounts)
        self._resolved_accounts.update(unresolved)
        return unresolved


class CloudEdition(_Edition):
    """Pages by API v2, names by v1, which alone gives many in one request.

    Source: https://developer.atlassian.com/cloud/confluence/rest/v2/
    """

    needs_label_search = True  # pages are listed without their labels, which a search finds

    def list_spaces(self, keys: Sequence[str]) -> Mapping[str, str]:
        """Key by id."""
        question = {"keys": list(keys)} if keys else {"status": "current"}
        spaces = self._client.iter_results("api/v2/spaces", {**question, "limit": _CLOUD_PAGE_SIZE})
        return {str(space["id"]): str(space["key"]) for space in spaces}

    def list_pages(self, spaces: Mapping[str, str], *, is_filtered: bool) -> Iterator[Page]:
        """Pages by id ascending, a cursor's order that no edit disturbs, with their place in the tree."""
        # `is_filtered` is of no use: the API takes spaces by the hundred, so that naming all costs nothing
        # without a status, archived pages come too
        question: Json = {"status": "current", "sort": "id", "limit": _CLOUD_PAGE_SIZE}
        for several in split_batches(spaces, _SPACES_PER_CALL):
            listed = (
                (raw, kind)
                for kind in CONTENT_KINDS
                for raw in self._client.iter_results(_PATHS[kind], question | {"space-id": several})
            )
            yield from self._iter_placed(listed, spaces)

    def find_pages(self, kind_by_id: Mapping[str, str], spaces: Mapping[str, str]) -> Iterator[Page]:
        """By id, with their place in the tree."""
        return self._iter_placed(self._iter_by_id(kind_by_id, {}), spaces)

    def read_pages(self, kind_by_id: Mapping[str, str]) -> Iterator[Page]:
        """By id, with bodies."""
        for raw, kind in self._iter_by_id(kind_by_id, {"body-format": "storage"}):
            yield self._to_page(raw, kind, "")

    def read_page(self, page_id: str, kind: str) -> Page | DocumentSkipped:
        """One page; Cloud answers 404 for deleted and hidden pages alike, but 403 at times."""
        body = {} if kind in BOARD_KINDS else {"body-format": "storage"}
        raw = self._client.get_or_status(f"{_PATHS[kind]}/{page_id}", body)
        if isinstance(raw, int) or raw.get("status") != "current":
            return to_skipped(raw)
        return self._to_page(raw, kind, "")

    def locate_pages(self, kind_by_id: Mapping[str, str]) -> Mapping[str, PagePlace]:
        """By the parents' ids, folders included, which v1 does not name."""
        tree, spaces = _PageTree(self._client), dict[str, str]()
        for raw, _ in self._iter_by_id(kind_by_id, {}):
            tree.add(raw)
            spaces[str(raw["id"])] = str(raw.get("spaceId") or "")
        tree.load_missing_parents()
        return {page: PagePlace(space, tree.list_ancestor_ids(page)) for page, space in spaces.items()}

    def list_labels(self, page: Page) -> tuple[str, ...]:
        """Of one page; boards have none that the API lists."""
        if page.kind in BOARD_KINDS:
            return ()
        path = f"{_PATHS[page.kind]}/{page.id}/labels"
        return shared_labels(self._client.iter_results(path, {"limit": _CLOUD_PAGE_SIZE}))

    def resolve_people(self, accounts: set[str]) -> Mapping[str, str]:
        """Display names by account id, in bulk; who cannot be resolved is left out."""
        for person in iter_people(self._client, self._take_unresolved(accounts)):
            if name := person.get("displayName") or person.get("publicName"):
                self._names[str(person["accountId"])] = str(name)
        return self._names

    def _iter_by_id(self, kind_by_id: Mapping[str, str], extra: Json) -> Iterator[tuple[Json, str]]:
        for kind in CONTENT_KINDS:
            ids = (page_id for page_id, its_kind in kind_by_id.items() if its_kind == kind)
            for several in split_batches(ids, _CLOUD_PAGE_SIZE):
                question = {"id": several, "status": "current", "limit": _CLOUD_PAGE_SIZE, **extra}
                for raw in self._client.iter_results(_PATHS[kind], question):
                    yield raw, kind
        for page_id, kind in kind_by_id.items():
            if kind in BOARD_KINDS:  # which are not listed
                raw = self._client.get_or_status(f"{_PATHS[kind]}/{page_id}", {})
                if isinstance(raw, dict) and raw.get("status") == "current":
                    yield raw, kind

    def _iter_placed(self, listed: Iterable[tuple[Json, str]], spaces: Mapping[str, str]) -> Iterator[Page]:
        """The listed pages of wanted spaces, with their place in the tree of all that is listed."""
        tree, pages = _PageTree(self._client), list[Page]()
        for raw, kind in listed:
            pages.append(self._to_page(raw, kind, spaces.get(str(raw.get("spaceId")), "")))
            tree.add(raw)
        yield from tree.with_ancestors([page for page in pages if page.space])

    def _to_page(self, raw: Json, kind: str, space: str) -> Page:
        try:
            version = raw["version"]
            return Page(
                id=str(raw["id"]),
                kind=kind,
                space=space,
                title=str(raw["title"]),
                version=int(version["number"]),
                updated=parse_time(str(version["createdAt"])),
                author_account=raw.get("authorId"),
                storage=storage_of(raw),
                web_path=str(descend(raw, "_links").get("webui") or ""),
            )
        except (KeyError, TypeError, ValueError):
            raise SourceUnavailable(
                f"{self._client.service} lists a {kind} without its id, title or version: nothing was taken"
            ) from None


class _PageTree:
    """The tree of pages, from the parents' ids in every listing."""

    def __init__(self, client: ConfluenceClient) -> None:
        self._client = client
        self._nodes: dict[str, _TreeNode | None] = {}  # None: not for us to see

    def add(self, raw: Json) -> None:
        parent, kind = str(raw.get("parentId") or ""), str(raw.get("parentType") or "page")
        self._nodes[str(raw["id"])] = _TreeNode(str(raw["title"]), parent, kind)

    def with_ancestors(self, pages: Sequence[Page]) -> Iterator[Page]:
        """The pages with the titles of what they are under."""
        self.load_missing_parents()
        for page in pages:  # the titles end at what we may not see
            nodes = map(self._nodes.get, self.list_ancestor_ids(page.id))
            yield replace(page, ancestors=tuple(node.title for node in nodes if node))

    def list_ancestor_ids(self, page_id: str) -> tuple[str, ...]:
        """From the top down; the first may be one that we may not see."""
        above: list[str] = []
        node = self._nodes[page_id]
        while node and node.parent_id and node.parent_id not in (page_id, *above):
            above.append(node.parent_id)
            node = self._nodes.get(node.parent_id)
        return tuple(reversed(above))

    def load_missing_parents(self) -> None:
        """Read the parents that were not listed, a level at a time; folders one by one."""
        while unknown := {
            node.parent_id: node.parent_kind
            for node in self._nodes.values()
            if node and node.parent_id and node.parent_id not in self._nodes
        }:
            pages = [page_id for page_id, kind in unknown.items() if kind not in _CONTAINER_KINDS]
            for several in split_batches(pages, _CLOUD_PAGE_SIZE):
                question = {"id": several, "status": "current", "limit": _CLOUD_PAGE_SIZE}
                for raw in self._client.iter_results(_PATHS["page"], question):
                    self.add(raw)
            for parent_id, kind in unknown.items():
                if kind in _CONTAINER_KINDS:
                    raw = self._client.get_or_status(f"api/v2/{kind}s/{parent_id}", {})
                    if isinstance(raw, dict):
                        self.add(raw)
                self._nodes.setdefault(parent_id, None)


_SERVER_PAGE_SIZE = 200  # more is cut down by the server, whose `next` is followed whatever it gave
_LISTING_FIELDS = "version,ancestors,space,metadata.labels"  # no bodies
_BODY_FIELDS = "body.storage,version,space,history"


class ServerEdition(_Edition):
    """The one REST API, which pages by offset.

    Source: https://docs.atlassian.com/ConfluenceServer/rest/latest
    """

    needs_label_search = False  # its listing has them

    def list_spaces(self, keys: Sequence[str]) -> Mapping[str, str]:
        """Key by id."""
        question = {"spaceKey": list(keys)} if keys else {"status": "current"}
        question = {**question, "start": 0, "limit": _SPACES_PER_CALL}
        spaces = self._client.iter_results("rest/api/space", question)
        return {str(space["id"]): str(space["key"]) for space in spaces}

    def list_pages(self, spaces: Mapping[str, str], *, is_filtered: bool) -> Iterator[Page]:
        """Space by space where some are named, else all at once: a site may have thousands of spaces."""
        keys = set(spaces.values())
        for key in sorted(keys) if is_filtered else [""]:
            for kind in CONTENT_KINDS:
                question: Json = {"type": kind, "status": "current", "expand": _LISTING_FIELDS}
                question |= {"start": 0, "limit": _SERVER_PAGE_SIZE} | ({"spaceKey": key} if key else {})
                pages = map(self._to_page, self._client.iter_results("rest/api/content", question))
                yield from (page for page in pages if page.space in keys)

    def find_pages(self, kind_by_id: Mapping[str, str], spaces: Mapping[str, str]) -> Iterator[Page]:
        """By id, in one search for many; the rest one by one, which the search does not know yet."""
        keys, missing = set(spaces.values()), dict(kind_by_id)
        for page in map(self._to_page, self._search_by_id(list(kind_by_id), _LISTING_FIELDS)):
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
        return map(self._to_page, self._search_by_id(list(kind_by_id), _BODY_FIELDS))

    def read_page(self, page_id: str, kind: str) -> Page | DocumentSkipped:
        """One page, which the search may not know yet."""
        raw = self._client.get_or_status(f"rest/api/content/{page_id}", {"expand": _BODY_FIELDS})
        if isinstance(raw, int) or raw.get("status", "current") != "current":
            return to_skipped(raw)
        return self._to_page(raw)

    def locate_pages(self, kind_by_id: Mapping[str, str]) -> Mapping[str, PagePlace]:
        """By id, in one search for many; the rest one by one, which the search does not know yet."""
        places: dict[str, PagePlace] = {}
        for several in split_batches(kind_by_id, MAX_IDS_PER_QUERY):
            for raw in self._search_by_id(several, "ancestors,space"):
                places[str(raw["id"])] = _to_place(raw)
        for page_id in kind_by_id.keys() - places.keys():
            raw = self._client.get_or_status(f"rest/api/content/{page_id}", {"expand": "ancestors,space"})
            if isinstance(raw, dict):
                places[page_id] = _to_place(raw)
        return places

    def list_labels(self, page: Page) -> tuple[str, ...]:
        """As listed."""
        return page.labels or ()

    def resolve_people(self, accounts: set[str]) -> Mapping[str, str]:
        """Display names by user key, one by one for want of a bulk call; pages include their authors'."""
        for key in self._take_unresolved(accounts):
            person = self._client.get_or_status("rest/api/user", {"key": key})
            if isinstance(person, dict) and person.get("displayName"):
                self._names[key] = str(person["displayName"])
        return self._names

    def _search_by_id(self, ids: Sequence[str], expand: str) -> Iterator[Json]:
        cql = f"id in ({', '.join(ids)}) and type in ({', '.join(CONTENT_KINDS)})"
        question = {"cql": cql, "expand": expand, "start": 0, "limit": _SERVER_PAGE_SIZE}
        # stop after the last wanted one: the next page would be empty
        return islice(self._client.iter_results(SEARCH_PATH, question), len(ids))

    def _to_page(self, raw: Json) -> Page:
        try:
            version, creator = raw["version"], descend(raw, "history", "createdBy")
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
                web_path=str(descend(raw, "_links").get("webui") or ""),
            )
        except (KeyError, TypeError, ValueError):
            raise SourceUnavailable(
                f"{self._client.service} lists a page without its id, title or version: nothing was taken"
            ) from None


def _to_place(raw: Json) -> PagePlace:
    space, above = str(descend(raw, "space").get("key") or ""), raw.get("ancestors") or ()
    return PagePlace(space, tuple(str(page["id"]) for page in above))


Edition = CloudEdition | ServerEdition


def open_edition(client: ConfluenceClient) -> Edition:
    """The API of a client's site."""
    return CloudEdition(client) if client.is_cloud else ServerEdition(client)


def iter_people(client: ConfluenceClient, accounts: Sequence[str]) -> Iterator[Json]:
    """Those of some people of Cloud, by account id, whom the token may see."""
    for several in split_batches(accounts, _PEOPLE_PER_CALL):
        question = {"accountId": several, "limit": _PEOPLE_PER_CALL}
        answer = client.get_or_status("rest/api/user/bulk", question)
        yield from list_objects(answer.get("results") if isinstance(answer, dict) else None)
