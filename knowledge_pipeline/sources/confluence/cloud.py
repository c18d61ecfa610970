"""Confluence Cloud: pages by its API v2, names by v1, which alone tells many in one question.

Source: https://developer.atlassian.com/cloud/confluence/rest/v2/
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from knowledge_pipeline.errors import DocumentSkipped, SourceUnavailable
from knowledge_pipeline.sources.confluence.client import Json, Wiki
from knowledge_pipeline.sources.confluence.content import KINDS, Page, batches, moment, storage_of

_LIMIT = 250  # the most that v2 gives in one page
_SPACES = 100  # the most spaces that one listing takes
_PEOPLE = 100
_PATHS = {"page": "api/v2/pages", "blogpost": "api/v2/blogposts"}
_PARENTS = frozenset({"folder", "whiteboard", "database", "embed"})  # what else a page may be under


@dataclass(frozen=True, slots=True)
class _Place:
    """Where something is in the tree."""

    title: str
    parent_id: str
    parent_kind: str


class CloudEdition:
    """An `Edition`."""

    searched_for_labels = True

    def __init__(self, wiki: Wiki) -> None:
        self._wiki = wiki
        self._names: dict[str, str] = {}
        self._asked: set[str] = set()

    def spaces(self, keys: Sequence[str]) -> Mapping[str, str]:
        """Key by id."""
        question = {"keys": list(keys)} if keys else {"status": "current"}
        found = self._wiki.listing("api/v2/spaces", {**question, "limit": _LIMIT})
        return {str(space["id"]): str(space["key"]) for space in found}

    def listed(self, spaces: Mapping[str, str], *, named: bool) -> Iterator[Page]:
        """Pages by id ascending, a cursor's order that no edit disturbs, with their place in the tree."""
        del named  # the API takes spaces by the hundred, so that naming all of them costs nothing
        for several in batches(spaces, _SPACES):
            tree = _Tree(self._wiki)
            pages = [
                self._noted(tree, raw, kind, spaces) for kind in KINDS for raw in self._raw(kind, several)
            ]
            yield from tree.placed(page for page in pages if page is not None)

    def found(self, wanted: Mapping[str, str], spaces: Mapping[str, str]) -> Iterator[Page]:
        """By id, with their place in the tree."""
        tree = _Tree(self._wiki)
        raws = ((raw, kind) for raw, kind in self._by_id(wanted, {}))
        pages = [self._noted(tree, raw, kind, spaces) for raw, kind in raws]
        yield from tree.placed(page for page in pages if page is not None)

    def read(self, wanted: Mapping[str, str]) -> Iterator[Page]:
        """By id, with bodies."""
        for raw, kind in self._by_id(wanted, {"body-format": "storage"}):
            yield self._page_of(raw, kind, "")

    def read_one(self, page_id: str, kind: str) -> Page | DocumentSkipped:
        """One page; Cloud says 404 of what is gone and of what is hidden from us alike, but 403 at times."""
        raw = self._wiki.get_one(f"{_PATHS[kind]}/{page_id}", {"body-format": "storage"})
        if isinstance(raw, int):
            return DocumentSkipped(
                "the token may not read it any more" if raw == 403 else "deleted while it was read"
            )
        if raw.get("status") != "current":
            return DocumentSkipped("deleted while it was read")
        return self._page_of(raw, kind, "")

    def labels(self, page: Page) -> tuple[str, ...]:
        """Of one page."""
        path = f"{_PATHS[page.kind]}/{page.id}/labels"
        found = self._wiki.listing(path, {"limit": _LIMIT})
        return tuple(sorted(str(each["name"]) for each in found if each.get("prefix") != "my"))

    def people(self, accounts: set[str]) -> Mapping[str, str]:
        """In bulk, each asked for once; nobody where the token may not see people."""
        for several in batches(sorted(accounts - self._asked), _PEOPLE):
            self._asked.update(several)
            found = self._wiki.get_one("rest/api/user/bulk", {"accountId": several, "limit": _PEOPLE})
            for person in found.get("results", []) if isinstance(found, dict) else []:
                if name := person.get("displayName") or person.get("publicName"):
                    self._names[str(person["accountId"])] = str(name)
        return self._names

    def _raw(self, kind: str, spaces: Iterable[str]) -> Iterator[Json]:
        """Current ones only: without a status, archived pages come too."""
        question = {"space-id": list(spaces), "status": "current", "sort": "id", "limit": _LIMIT}
        return self._wiki.listing(_PATHS[kind], question)

    def _by_id(self, wanted: Mapping[str, str], more: Json) -> Iterator[tuple[Json, str]]:
        for kind in KINDS:
            ids = (page_id for page_id, its_kind in wanted.items() if its_kind == kind)
            for several in batches(ids, _LIMIT):
                question = {"id": several, "status": "current", "limit": _LIMIT, **more}
                for raw in self._wiki.listing(_PATHS[kind], question):
                    yield raw, kind

    def _noted(self, tree: _Tree, raw: Json, kind: str, spaces: Mapping[str, str]) -> Page | None:
        """A page, and its place for the tree; None if it is in no wanted space."""
        page = self._page_of(raw, kind, spaces.get(str(raw.get("spaceId")), ""))
        tree.note(raw)
        return page if page.space else None

    def _page_of(self, raw: Json, kind: str, space: str) -> Page:
        try:
            version = raw["version"]
            return Page(
                id=str(raw["id"]),
                kind=kind,
                space=space,
                title=str(raw["title"]),
                version=int(version["number"]),
                updated=moment(version["createdAt"]),
                account=raw.get("authorId"),
                storage=storage_of(raw),
                address=str((raw.get("_links") or {}).get("webui") or ""),
            )
        except (KeyError, TypeError, ValueError):
            raise SourceUnavailable(
                f"{self._wiki.service} lists a page without its id, title or version: nothing was taken"
            ) from None


class _Tree:
    """The place of pages below each other, from their parents' ids, which every listing tells."""

    def __init__(self, wiki: Wiki) -> None:
        self._wiki = wiki
        self._places: dict[str, _Place | None] = {}  # None: not for us to see

    def note(self, raw: Json) -> None:
        """Remember what an answer tells of a page's place."""
        parent = str(raw.get("parentId") or "")
        self._places[str(raw["id"])] = _Place(str(raw["title"]), parent, str(raw.get("parentType") or "page"))

    def placed(self, pages: Iterable[Page]) -> Iterator[Page]:
        """The pages with the titles of what they are under."""
        pages = list(pages)
        self._complete()
        return (replace(page, trail=tuple(self._trail(page.id))) for page in pages)

    def _trail(self, page_id: str) -> list[str]:
        """From the top down; it ends at what we may not see."""
        titles: list[str] = []
        passed = {page_id}
        place = self._places[page_id]
        while place is not None and place.parent_id and place.parent_id not in passed:
            passed.add(place.parent_id)
            place = self._places.get(place.parent_id)
            titles += [place.title] if place is not None else []
        return titles[::-1]

    def _complete(self) -> None:
        """Ask for the parents that were not listed, a level at a time; folders one by one: no bulk exists."""
        while unknown := {
            place.parent_id: place.parent_kind
            for place in self._places.values()
            if place is not None and place.parent_id and place.parent_id not in self._places
        }:
            pages = [each for each, kind in unknown.items() if kind not in _PARENTS]
            for several in batches(pages, _LIMIT):
                question = {"id": several, "status": "current", "limit": _LIMIT}
                for raw in self._wiki.listing(_PATHS["page"], question):
                    self.note(raw)
            for parent_id, kind in unknown.items():
                if kind in _PARENTS:
                    raw = self._wiki.get_one(f"api/v2/{kind}s/{parent_id}", {})
                    if isinstance(raw, dict):
                        self.note(raw)
                self._places.setdefault(parent_id, None)
