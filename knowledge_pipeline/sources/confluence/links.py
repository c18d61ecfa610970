"""Links, images, emoticons and dates of a Confluence page, within a line of text."""

from __future__ import annotations

from knowledge_pipeline.sources.confluence.tree import Element, Writer, attribute, child, name, raw_text
from knowledge_pipeline.sources.markdown_writing import linked

_RESOURCES = frozenset(
    {
        "ri:page",
        "ri:blog-post",
        "ri:attachment",
        "ri:user",
        "ri:url",
        "ri:shortcut",
        "ri:space",
        "ri:content-entity",
    }
)


def link(writer: Writer, element: Element) -> str:
    """An `ac:link`: its label, and what it leads to where the label does not say so."""
    resource = next((each for each in element if name(each) in _RESOURCES), None)
    body = child(element, "ac:link-body", "ac:plain-text-link-body")
    label = writer.line(body) if body is not None else ""
    if resource is None:  # a link within the page
        return label or attribute(element, "ac:anchor")
    if name(resource) == "ri:url":
        return linked(label, attribute(resource, "ri:value"))
    target = described(writer, resource)
    return f"{label} ({target})" if label and target and target not in label else label or target


def described(writer: Writer, resource: Element) -> str:
    """What an `ri:` element stands for, by the name that a reader knows it by."""
    kind = name(resource)
    if kind in ("ri:page", "ri:blog-post"):
        title = attribute(resource, "ri:content-title")
        return writer.page(title, attribute(resource, "ri:space-key") or None) if title else ""
    if kind == "ri:user":
        account = attribute(resource, "ri:account-id", "ri:userkey")
        given = attribute(resource, "ri:username")
        return f"@{given}" if given else writer.person(account)
    if kind == "ri:content-entity":
        number = attribute(resource, "ri:content-id")
        if number.isdigit():
            writer.refer(f"page/{number}")
        return ""
    return attribute(resource, "ri:filename", "ri:value", "ri:space-key", "ri:parameter", "ri:key")


def resources(writer: Writer, element: Element) -> list[str]:
    """What all `ri:` elements within stand for, each once."""
    found = (described(writer, each) for each in element.iter() if name(each) in _RESOURCES)
    return list(dict.fromkeys(each for each in found if each))


def image(writer: Writer, element: Element) -> str:
    """An `ac:image` or `img` by its alternative text, its caption, or else its file's name."""
    caption = child(element, "ac:caption")
    told = [attribute(element, "ac:alt", "alt") or attribute(element, "ac:title", "title")]
    if caption is not None:
        told.append(writer.line(caption))
    if not any(told):
        told = resources(writer, element) or [attribute(element, "src").rpartition("/")[2].partition("?")[0]]
        told = [each.rpartition("/")[2] or each for each in told]
    shown = ": ".join(dict.fromkeys(each for each in told if each))
    return f"[image: {shown}]" if shown else ""


def emoticon(element: Element) -> str:
    """The character, where the page tells it, else its name between colons."""
    fallback = attribute(element, "ac:emoji-fallback")
    if fallback and not fallback.startswith(":"):
        return fallback
    short = attribute(element, "ac:emoji-shortname") or fallback
    return short or (f":{named}:" if (named := attribute(element, "ac:name")) else "")


def date(element: Element) -> str:
    """A `time` element: what it holds, or its date."""
    return raw_text(element).strip() or attribute(element, "datetime")
