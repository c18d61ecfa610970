"""Links, images, emoticons and dates of a Confluence page, within a line of text."""

from __future__ import annotations

from knowledge_pipeline.sources.confluence.tree import (
    Element,
    PageWriter,
    collect_raw_text,
    find_child,
    get_attribute,
    name_of,
)
from knowledge_pipeline.sources.markdown_writing import format_link

_RESOURCE_KINDS = ("page", "blog-post", "attachment", "user", "url", "shortcut", "space", "content-entity")
_RESOURCE_ELEMENTS = frozenset(f"ri:{kind}" for kind in _RESOURCE_KINDS)


def render_link(writer: PageWriter, element: Element) -> str:
    """An `ac:link`: its label, and what it leads to where the label does not say so."""
    resource = next((each for each in element if name_of(each) in _RESOURCE_ELEMENTS), None)
    body = find_child(element, "ac:link-body", "ac:plain-text-link-body")
    label = writer.render_line(body) if body is not None else ""
    if resource is None:  # a link within the page
        return label or get_attribute(element, "ac:anchor")
    if name_of(resource) == "ri:url":
        return format_link(label, get_attribute(resource, "ri:value"))
    target = describe_resource(writer, resource)
    return f"{label} ({target})" if label and target and target not in label else label or target


def describe_resource(writer: PageWriter, resource: Element) -> str:
    """What an `ri:` element stands for, by the name that a reader knows it by."""
    kind = name_of(resource)
    if kind in ("ri:page", "ri:blog-post"):
        title, space = get_attribute(resource, "ri:content-title"), get_attribute(resource, "ri:space-key")
        return writer.add_page_reference(title, space or None) if title else ""
    if kind == "ri:user":
        account = get_attribute(resource, "ri:account-id", "ri:userkey")
        given = get_attribute(resource, "ri:username")
        return f"@{given}" if given else writer.format_person(account)
    if kind == "ri:content-entity":
        number = get_attribute(resource, "ri:content-id")
        if number.isdigit():
            writer.add_reference(f"page/{number}")
        return ""
    return get_attribute(resource, "ri:filename", "ri:value", "ri:space-key", "ri:parameter", "ri:key")


def describe_resources(writer: PageWriter, element: Element) -> list[str]:
    """What all `ri:` elements within stand for, each once."""
    resources = (each for each in element.iter() if name_of(each) in _RESOURCE_ELEMENTS)
    return list(dict.fromkeys(filter(None, (describe_resource(writer, each) for each in resources))))


def render_image(writer: PageWriter, element: Element) -> str:
    """An `ac:image` or `img` by its alternative text, its caption, or else its file's name."""
    caption = find_child(element, "ac:caption")
    names = [get_attribute(element, "ac:alt", "alt") or get_attribute(element, "ac:title", "title")]
    if caption is not None:
        names.append(writer.render_line(caption))
    if not any(names):
        file_name = get_attribute(element, "src").rpartition("/")[2].partition("?")[0]
        resources = describe_resources(writer, element) or [file_name]
        names = [each.rpartition("/")[2] or each for each in resources]
    shown = ": ".join(dict.fromkeys(each for each in names if each))
    return f"[image: {shown}]" if shown else ""


def render_emoticon(element: Element) -> str:
    """The character, where the page has it, else its name between colons."""
    fallback = get_attribute(element, "ac:emoji-fallback")
    if fallback and not fallback.startswith(":"):
        return fallback
    short = get_attribute(element, "ac:emoji-shortname") or fallback
    return short or (f":{named}:" if (named := get_attribute(element, "ac:name")) else "")


def render_date(element: Element) -> str:
    """A `time` element: what it holds, or its date."""
    return collect_raw_text(element).strip() or get_attribute(element, "datetime")
