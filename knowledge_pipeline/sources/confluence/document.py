"""From a Confluence page, its comments and its files to one document."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.records import Attachment, Document, Item
from knowledge_pipeline.sources.confluence.content import BOARD_KINDS, ChildContent, Page, PageLocator
from knowledge_pipeline.sources.confluence.storage import storage_to_markdown

_MAX_QUOTE_CHARS = 200  # characters of the page that a comment on them quotes


@dataclass(frozen=True, slots=True)
class PageDocumentBuilder:
    """How the documents of one site are written."""

    site: str
    people: Mapping[str, str]  # display names by account
    build_file_address: Callable[[str, str, str], str]  # by ids of page and file, and the site's path

    def build_document(
        self, item: Item, page: Page, children: Sequence[ChildContent]
    ) -> Document | DocumentSkipped:
        """The page with its files named after its text and its comments last; or that nothing is in it."""
        listed = PageLocator.from_item(item)
        references: set[str] = set()
        parts = [self._convert(page.storage, listed.space, references)]
        if names := sorted({each.title for each in children if each.kind == "attachment" and each.title}):
            parts.append(f"Attachments: {', '.join(names)}")
        if comments := list(self._iter_comments(children, listed.space, references)):
            parts += ["# Comments", *comments]
        text = "\n\n".join(part for part in parts if part)
        if page.kind in BOARD_KINDS:
            place = " / ".join((listed.space, *listed.ancestors))
            text = f"{page.kind.capitalize()} in {place}" + (f"\n\n{text}" if text else "")
        if not text:
            return DocumentSkipped("empty")
        above = ("blog",) if page.kind == "blogpost" else listed.ancestors
        web_path = page.web_path
        if not web_path.startswith("/"):
            boards = f"/spaces/{listed.space}/{page.kind}/{page.id}"
            web_path = boards if page.kind in BOARD_KINDS else f"/pages/viewpage.action?pageId={page.id}"
        return Document(
            uri=item.uri,
            text=text,
            # a slash in a title is none of the path
            path="/".join(part.replace("/", "-") for part in (listed.space, *above, page.title)),
            title=page.title,
            url=self.site + web_path,
            author=page.author or self.people.get(page.author_account or ""),
            # the newest of all that the next listing asks for by time
            last_modified=max([page.updated, *(each.updated for each in children if each.updated)]),
            metadata={
                "wiki_space": listed.space,
                "labels": list(listed.labels),
                "version": page.version,
                "ancestors": list(listed.ancestors),
                "status": "current",
                "page_type": page.kind,
                "mentions": [{"kind": "references", "target": target} for target in sorted(references)],
            },
            attachments=tuple(self._iter_attachments(children)),
        )

    def _iter_attachments(self, children: Sequence[ChildContent]) -> Iterator[Attachment]:
        """The files of a page; a new version of one has the same id."""
        for each in sorted(children, key=lambda child: (len(child.id), child.id)):
            if each.kind == "attachment" and each.title:
                name = quote(each.title, safe="")
                yield Attachment(
                    id=each.id,
                    name=each.title,
                    address=self.build_file_address(each.page_id, each.id, each.download_path),
                    revision=str(each.version),
                    size_bytes=each.size_bytes,
                    url=f"{self.site}/download/attachments/{each.page_id}/{name}",
                    author=each.author,
                    created=each.updated,
                )

    def _convert(self, storage: str, space: str, references: set[str]) -> str:
        converted = storage_to_markdown(storage, space=space, site=self.site, people=self.people)
        references.update(converted.references)
        return converted.text

    def _iter_comments(
        self, children: Sequence[ChildContent], space: str, references: set[str]
    ) -> Iterator[str]:
        """Each comment with its author, day and quoted words, the oldest first."""
        comments = (each for each in children if each.kind == "comment")
        for comment in sorted(comments, key=lambda each: (len(each.id), each.id)):
            if text := self._convert(comment.storage, space, references):
                by = f" by {comment.author}" if comment.author else ""
                about = " ".join(comment.quoted_text.split())[:_MAX_QUOTE_CHARS]
                on = f" on “{about}”" if about else ""
                day = f", {comment.updated.date().isoformat()}" if comment.updated else ""
                yield f"Comment{by}{on}{day}:\n{text}"
