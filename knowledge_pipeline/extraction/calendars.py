"""Calendars, as mails carry them, as text: what takes place when and where, and who is invited.

Source: RFC 5545, https://www.rfc-editor.org/rfc/rfc5545
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

_COMPONENTS = frozenset({"VEVENT", "VTODO", "VJOURNAL"})
_FIELDS = {
    "DTSTART": "Start",
    "DTEND": "End",
    "DUE": "Due",
    "DURATION": "Duration",
    "RRULE": "Repeats",
    "LOCATION": "Location",
    "STATUS": "Status",
    "ORGANIZER": "Organizer",
    "ATTENDEE": "Attendees",
    "URL": "Link",
}
_MAX_VALUES = 50  # of one field
_FOLD = re.compile(r"\n[ \t]")
_PROPERTY = re.compile(r"(?P<name>[\w-]+)(?P<parameters>(?:;[^\":\n]*+|\"[^\"\n]*+\")*+):(?P<value>[^\n]*)")
_PARAMETER = re.compile(
    r";(?P<name>CN|TZID)=(?:\"(?P<quoted>[^\"]*+)\"|(?P<plain>[^\";:,]*+))", re.IGNORECASE
)
_MOMENT = re.compile(
    r"(?P<year>\d{4})(?P<month>\d\d)(?P<day>\d\d)(?:T(?P<hour>\d\d)(?P<minute>\d\d)\d\d(?P<utc>Z?))?"
)
_ESCAPE = re.compile(r"\\(.)")


def render_calendar(text: str) -> str:
    """A section for each event, task or journal entry; "" for a calendar that has none."""
    return "\n\n".join(_render_component(fields) for fields in _iter_components(text))


def _iter_components(text: str) -> Iterator[dict[str, list[str]]]:
    """The fields of each component; those of parts in it, such as alarms, are left out."""
    open_parts: list[str] = []
    components, method = 0, ""
    fields: dict[str, list[str]] | None = None
    for line in _FOLD.sub("", text.replace("\r\n", "\n")).split("\n"):
        if (match := _PROPERTY.fullmatch(line.rstrip())) is None:
            continue
        name, value = match["name"].upper(), match["value"].strip()
        if name == "BEGIN":
            open_parts.append(value.upper())
            components += value.upper() in _COMPONENTS
            if fields is None and components:
                fields = defaultdict(list, {"METHOD": [method]})
        elif name == "END":
            components -= bool(open_parts) and open_parts.pop() in _COMPONENTS
            if fields is not None and not components:
                yield fields
                fields = None
        elif fields is not None and open_parts and open_parts[-1] in _COMPONENTS:
            fields[name].append(_format_value(name, match["parameters"], value))
        elif name == "METHOD":
            method = value.lower()
    if fields is not None:  # a calendar that was cut
        yield fields


def _render_component(fields: dict[str, list[str]]) -> str:
    method = fields["METHOD"][0]
    kind = f"Calendar ({method})" if method in {"cancel", "counter", "reply"} else "Calendar"
    lines = [f"{label}: {_join(fields[name])}" for name, label in _FIELDS.items() if fields.get(name)]
    heading = f"### {kind}: {' '.join(' '.join(fields.get('SUMMARY', [])).split()) or '(no title)'}"
    texts = (*fields.get("DESCRIPTION", []), *fields.get("COMMENT", []))
    return "\n\n".join(filter(None, (heading, "  \n".join(lines), *(text.strip() for text in texts))))


def _join(values: list[str]) -> str:
    rest = [f"and {len(values) - _MAX_VALUES} more"] if len(values) > _MAX_VALUES else []
    return ", ".join([*values[:_MAX_VALUES], *rest])


def _format_value(name: str, parameters: str, value: str) -> str:
    matches = _PARAMETER.finditer(parameters)
    options = {match["name"].upper(): match["quoted"] or match["plain"] for match in matches}
    if name in {"DTSTART", "DTEND", "DUE"} and (moment := _MOMENT.fullmatch(value)):
        day = "-".join(moment.group("year", "month", "day"))
        if moment["hour"] is None:
            return day
        zone = "UTC" if moment["utc"] else options.get("TZID")
        return f"{day} {moment['hour']}:{moment['minute']}" + (f" ({zone})" if zone else "")
    if name in {"ORGANIZER", "ATTENDEE"}:
        address = re.sub("^mailto:", "", value, flags=re.IGNORECASE)
        return f"{options['CN']} <{address}>" if options.get("CN") else address
    return _ESCAPE.sub(lambda match: "\n" if match[1] in "nN" else match[1], value)
