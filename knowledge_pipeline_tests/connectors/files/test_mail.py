"""Mails as people's programs write them: alternatives, charsets, attached messages, bounces, invitations."""

import base64
from textwrap import dedent

import pytest

from knowledge_pipeline.extraction.extraction import extract
from knowledge_pipeline.knowledge_base import KnowledgeBase
from knowledge_pipeline_tests.conftest import Project
from knowledge_pipeline_tests.connectors.files.test_extraction import pdf

_HEADERS = "From: Jane Doe <jane@example.org>\nSubject: {subject}\nMIME-Version: 1.0\n"
_SHOWN = "From: Jane Doe <jane@example.org>\n\n"


def eml(content: str, subject: str = "Hello") -> bytes:
    return (_HEADERS.format(subject=subject) + dedent(content).lstrip("\n")).encode(
        "utf-8", "surrogateescape"
    )


def part(content: bytes, type_: str) -> str:
    encoded = base64.encodebytes(content).decode()
    return f"Content-Type: {type_}\nContent-Transfer-Encoding: base64\n\n{encoded}"


def multipart(subtype: str, *parts: str, boundary: str = "b1") -> str:
    body = "".join(f"--{boundary}\n{each}\n" for each in parts)
    return f'Content-Type: multipart/{subtype}; boundary="{boundary}"\n\n{body}--{boundary}--\n'


def body_of(payload: bytes) -> str:
    return extract("a.eml", payload).text.partition(_SHOWN)[2]


PLAIN = "Content-Type: text/plain; charset=utf-8\n\n{}"
HTML = "Content-Type: text/html; charset=utf-8\n\n<p>{}</p>"
PICTURE = part(b"\x89PNG\0", 'image/png; name="rack.png"').replace(
    "\nContent-T", '\nContent-Disposition: inline; filename="rack.png"\nContent-T'
)


@pytest.mark.parametrize("blank", ["", " \r\n\n", "\u00a0\n"])
def test_a_page_is_read_where_the_text_beside_it_is_blank(blank):
    message = eml(multipart("alternative", PLAIN.format(blank), HTML.format("The rack moves on Monday")))
    assert body_of(message) == "The rack moves on Monday"


def test_of_alternatives_the_text_is_read_and_what_the_others_attach():
    page = multipart(
        "mixed", HTML.format("Moves"), part(pdf("The plan"), 'application/pdf; name="p.pdf"'), boundary="m"
    )
    message = eml(multipart("alternative", PLAIN.format("It moves"), page))
    assert body_of(message) == "It moves\n\n### Attachment: p.pdf\n\nThe plan"


def test_text_after_a_picture_is_read():
    message = eml(
        multipart("mixed", PLAIN.format("Before the rack."), PICTURE, PLAIN.format("After the rack."))
    )
    found = extract("a.eml", message)
    assert found.text.endswith(
        "Before the rack.\n\nAfter the rack.\n\nAttachment: rack.png (not read: binary file)"
    )
    assert found.metadata == {"format": "email", "note": "parts not read: 1 .png attachment"}


def test_pictures_of_a_page_are_no_attachments():
    page = multipart("related", HTML.format("The rack"), PICTURE, boundary="r")
    found = extract("a.eml", eml(multipart("alternative", PLAIN.format(""), page)))
    assert found.text.endswith("\n\nThe rack") and "note" not in found.metadata


def test_a_signed_message_is_read_as_one_that_is_not():
    signed = multipart("mixed", PLAIN.format("Signed words"), PLAIN.format("and a footer"), boundary="s")
    signature = 'Content-Type: application/pgp-signature; name="signature.asc"\n\nxxx'
    found = extract("a.eml", eml(multipart("signed", signed, signature)))
    assert "Signed words\n\nand a footer\n\n" in found.text and "note" not in found.metadata


@pytest.mark.parametrize(
    ("label", "written", "text"),
    [
        ("x-sjis", "cp932", "①サーバを移動します"),
        ("windows-31j", "cp932", "～サーバ"),
        ("gb2312", "gb18030", "镕基的数据库"),
        ("x-gbk", "gb18030", "数据库迁移"),
        ("ks_c_5601-1987", "cp949", "똠방각하"),
        ("windows-874", "cp874", "ย้ายฐานข้อมูล"),
        ("iso-8859-8-i", "iso8859-8", "שלום לכולם"),
        ("x-mac-roman", "mac-roman", "Größe"),
        ("unicode-1-1-utf-8", "utf-8", "Größe"),
        ("x-cp1251", "cp1251", "Перенос базы"),
        ("iso-8859-1", "cp1252", "“Größe” – 5 €"),
        ("us-ascii", "cp1252", "“Größe” – 5 €"),
        ("utf-16", "utf-16", "Größe und €"),
        ("utf-16le", "utf-16-le", "Größe und €"),
        ("utf-7", "utf-7", "Größe"),
        ("iso-2022-jp", "iso2022_jp", "サーバを移動します"),
    ],
)
def test_charsets_are_what_browsers_take_them_for(label, written, text):
    payload = text.encode(written)
    found = extract("a.eml", eml(part(payload, f"text/plain; charset={label}")))
    assert found.text.partition(_SHOWN)[2] == text and "note" not in found.metadata
    page = f"<html><body><p>{text}</p></body></html>".encode(written)
    assert body_of(eml(part(page, f'text/html; charset="{label}"'))) == text
    word = base64.b64encode(payload).decode()
    assert extract("a.eml", eml("\nx", subject=f"=?{label}?B?{word}?=")).title == text


def test_bad_bytes_of_a_text_are_counted():
    found = extract("a.eml", eml(part("Größe ".encode() * 3 + b"\xff\xff x", "text/plain; charset=utf-8")))
    assert found.text.endswith("Größe Größe Größe \ufffd\ufffd x")
    assert found.metadata["note"] == "not valid UTF-8 at 2 places, which read \ufffd"
    wrong = extract("a.eml", eml(part("Größe, Höhe".encode("cp1252"), "text/plain; charset=utf-8")))
    page = extract("a.eml", eml(part("<p>Größe, Höhe".encode("cp1252"), "text/html; charset=utf-8")))
    assert (
        page.text.endswith("Gr\ufffd\ufffde, H\ufffdhe") and page.metadata["note"] == wrong.metadata["note"]
    )
    assert "Gr\ufffd" in wrong.text and "2 places" not in wrong.metadata["note"] and "note" in wrong.metadata


def test_a_text_in_an_unknown_encoding_is_counted():
    found = extract("a.eml", eml(part("Größe, Höhe".encode("cp1252"), "text/plain; charset=x-none")))
    assert found.text.endswith("(its text could not be read: not valid UTF-8 at byte 2)")
    assert found.metadata["note"] == "parts not read: 1 text"
    assert body_of(eml(part("Größe".encode(), "text/plain; charset=x-none"))) == "Größe"


def test_what_a_mail_does_not_declare_is_in_the_configured_encoding():
    raw = "From: Jane Doe <jane@example.org>\nSubject: Größe\n\nHöhe – 5 €\n".encode("cp1252")
    found = extract("a.eml", raw, "windows-1252")
    assert (found.title, found.text.partition(_SHOWN)[2]) == ("Größe", "Höhe – 5 €")
    utf_8 = raw.decode("cp1252").encode()
    assert extract("a.eml", utf_8, "windows-1252") == found == extract("a.eml", utf_8)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-8-sig"])
def test_a_mail_that_an_editor_saved_is_read(encoding):
    assert extract("a.eml", eml("\nGröße\n").decode().encode(encoding)).text.endswith(_SHOWN + "Größe")


ATTACHED = "Content-Type: message/rfc822\n\n{}"
INNER = "From: Bob <bob@example.org>\nSubject: The outage\n\nThe disk was full.\n"


def test_attached_messages_are_read():
    message = eml(multipart("mixed", PLAIN.format("See below."), ATTACHED.format(INNER)))
    assert body_of(message) == (
        "See below.\n\n### Attached message: The outage\n\nFrom: Bob <bob@example.org>\n\nThe disk was full."
    )


@pytest.mark.parametrize(
    "attached",
    [
        part(INNER.encode(), 'application/octet-stream; name="outage.eml"'),
        part(INNER.encode(), "message/rfc822"),
        multipart("digest", "\n" + INNER, boundary="d"),
    ],
)
def test_attached_messages_are_read_however_they_are_attached(attached):
    text = extract("a.eml", eml(multipart("mixed", PLAIN.format("See below."), attached))).text
    assert "### Attached message: The outage\n\nFrom: Bob <bob@example.org>\n\nThe disk was full." in text
    box = extract("a.mbox", b"From jane Tue Nov  3 10:00:00 2026\n" + eml(multipart("mixed", attached)))
    assert "The disk was full." in box.text


def test_messages_within_each_other_have_an_end():
    text = "Subject: last\n\nend\n"
    for depth in range(12):
        text = f"Subject: {depth}\nContent-Type: message/rfc822\n\n{text}"
    found = extract("a.eml", text.encode())
    assert found.text.endswith("(not read: 8 messages within each other)")
    assert found.metadata["note"] == "parts not read: 1 attached message"


def test_a_bounce_says_who_did_not_get_what():
    status = (
        "Content-Type: message/delivery-status\n\nReporting-MTA: dns; mail.example.org\n\n"
        "Final-Recipient: rfc822; ops@example.com\nAction: failed\nStatus: 5.2.2\n"
        "Diagnostic-Code: smtp; 552 mailbox full\n"
    )
    returned = "Content-Type: text/rfc822-headers\n\nSubject: The outage\nFrom: jane@example.org\nX-Id: 5\n"
    message = eml(
        multipart("report; report-type=delivery-status", PLAIN.format("Not delivered."), status, returned)
    )
    assert body_of(message) == (
        "Not delivered.\n\n### Delivery status\n\nReporting-MTA: dns; mail.example.org\n\n"
        "Final-Recipient: rfc822; ops@example.com  \nAction: failed  \nStatus: 5.2.2  \n"
        "Diagnostic-Code: smtp; 552 mailbox full\n\n"
        "### Headers of the returned message\n\nSubject: The outage  \nFrom: jane@example.org"
    )


CALENDAR = """\
BEGIN:VCALENDAR
METHOD:REQUEST
BEGIN:VTIMEZONE
TZID:Europe/Berlin
BEGIN:STANDARD
DTSTART:19701025T030000
END:STANDARD
END:VTIMEZONE
BEGIN:VEVENT
SUMMARY:Review\\, part 2
DTSTART;TZID=Europe/Berlin:20261103T100000
DTEND;TZID=Europe/Berlin:20261103T113000
LOCATION:Room 5
ORGANIZER;CN="Doe: Jane":mailto:jane@example.org
ATTENDEE;ROLE=REQ-PARTICIPANT;CN=Bob:MAILTO:bob@example.org
ATTENDEE:mailto:eve@example.org
DESCRIPTION:Bring the pla
 n.\\nAnd the numbers.
BEGIN:VALARM
DESCRIPTION:Reminder
END:VALARM
END:VEVENT
END:VCALENDAR
"""
EVENT = (
    "### Calendar: Review, part 2\n\nStart: 2026-11-03 10:00 (Europe/Berlin)  \n"
    "End: 2026-11-03 11:30 (Europe/Berlin)  \nLocation: Room 5  \nOrganizer: Doe: Jane <jane@example.org>  \n"
    "Attendees: Bob <bob@example.org>, eve@example.org\n\nBring the plan.\nAnd the numbers."
)


@pytest.mark.parametrize(
    "invitation",
    [
        part(CALENDAR.replace("\n", "\r\n").encode(), "text/calendar; charset=utf-8; method=REQUEST"),
        part(CALENDAR.encode(), 'application/octet-stream; name="invite.ics"'),
    ],
)
def test_an_invitation_says_when_and_where(invitation):
    plain, page = PLAIN.format("You are invited."), HTML.format("You are invited.")
    assert body_of(eml(multipart("alternative", plain, page, invitation))) == f"You are invited.\n\n{EVENT}"


def test_a_cancelled_day_says_so():
    day = (
        "BEGIN:VCALENDAR\nMETHOD:CANCEL\nBEGIN:VEVENT\nDTSTART;VALUE=DATE:20261103\nSUMMARY:Off\nEND:VEVENT\n"
    )
    text = body_of(eml(f"Content-Type: text/calendar\n\n{day}"))
    assert text == "### Calendar (cancel): Off\n\nStart: 2026-11-03"


def test_a_broken_message_does_not_lose_a_mailbox():
    nested = "".join(f"Content-Type: multipart/mixed; boundary=b{at}\n\n--b{at}\n" for at in range(1_500))
    box = f"From a@b\nSubject: One\n{nested}\n\nFrom a@b\nSubject: Two\n\nThe words.\n"
    found = extract("a.mbox", box.encode())
    assert found.text == "## One\n\n## Two\n\nThe words."
    assert found.metadata["note"] == "parts not read: 1 broken message"


def test_a_calendar_is_read_in_time_in_proportion_to_its_size():
    deep = "BEGIN:VEVENT\n" * 30_000 + "SUMMARY:deep\n" + "END:VEVENT\n" * 30_000
    assert body_of(eml(f"Content-Type: text/calendar\n\n{deep}")) == "### Calendar: deep"
    hostile = (
        "BEGIN:VEVENT\n"
        + "A"
        + ';"a' * 200_000
        + "\nATTENDEE"
        + ";CN=" * 200_000
        + ":x\nSUMMARY:end\nEND:VEVENT"
    )
    assert "end" in body_of(eml(f"Content-Type: text/calendar\n\n{hostile}"))


def test_a_sentence_in_a_mailbox_begins_no_message():
    first = (
        "From jane Tue Nov  3 10:00:00 2026\nFrom: Jane Doe <jane@example.org>\nSubject: First\n\n"
        "From here on it is slow.\nNote: 10:00 was the time.\n\nFrom now\nTodo: nothing\n\n>From the log\n\n"
    )
    second = "From - Mon Jan 05 12:00:00 +0000 2015\nSubject: Second\n\nx\n\n"
    third = "From bob@example.org\r\nSubject: Third\r\n\r\ny\r\n"
    found = extract("a.mbox", (first + second + third).encode())
    assert found.metadata == {"format": "mbox", "messages": 3}
    assert found.text == (
        "## First\n\n" + _SHOWN + "From here on it is slow.\nNote: 10:00 was the time.\n\nFrom now\n"
        "Todo: nothing\n\nFrom the log\n\n## Second\n\nx\n\n## Third\n\ny"
    )


def test_files_attached_in_a_mailbox_are_counted():
    message = eml(
        multipart("mixed", PLAIN.format("x"), part(pdf("The plan"), 'application/pdf; name="p.pdf"'))
    )
    found = extract("a.mbox", (b"From jane Tue Nov  3 10:00:00 2026\n" + message + b"\n") * 2)
    assert found.text.count("Attachment: p.pdf") == 2 and "The plan" not in found.text
    assert found.metadata["note"] == "parts not read: 2 .pdf attachments"


def test_attachments_of_other_formats_are_counted_by_their_endings():
    names = ["a.vsd", "b.VSD", "c.zip", "d", "e.so long an ending", *(f"x.f{number}" for number in range(9))]
    files = (part(b"\0", f'application/octet-stream; name="{name}"') for name in names)
    found = extract("a.eml", eml(multipart("mixed", PLAIN.format("x"), *files)))
    endings = ", ".join(f"1 .f{number} attachment" for number in range(5))
    assert found.metadata["note"] == (
        f"parts not read: {endings}, 2 .vsd attachments, 1 .zip attachment, 6 attachments"
    )


def test_a_mail_that_is_only_a_file_is_read():
    found = extract("a.eml", eml(part(pdf("The plan"), 'application/pdf; name="p.pdf"')))
    assert found.text.endswith("### Attachment: p.pdf\n\nThe plan")


def test_a_multipart_without_parts_keeps_its_text():
    assert body_of(eml('Content-Type: multipart/mixed; boundary="none"\n\nThe words.\n')) == "The words."


def test_mails_in_other_encodings_are_found(project: Project, tmp_path):
    folder = tmp_path / "mails"
    folder.mkdir()
    (folder / "sjis.eml").write_bytes(
        eml(part("サーバのアップグレード".encode("cp932"), "text/plain; charset=x-sjis"))
    )
    (folder / "old.eml").write_bytes("From: a@example.org\nSubject: Höhe\n\nGröße\n".encode("cp1252"))
    (folder / "bounce.eml").write_bytes(eml(multipart("mixed", ATTACHED.format(INNER))))
    (folder / "old.txt").write_bytes("Übergröße für Müller".encode("cp1252"))
    (folder / "bad.txt").write_bytes("The ledger — in Basel".encode() + b"\xff")
    project.declare("mails", "files", folder, encoding="windows-1252")
    project.refresh()
    with KnowledgeBase(project.settings) as base:
        for query, path in {
            "アップグレード": "sjis.eml",
            "Größe": "old.eml",
            "Übergröße Müller": "old.txt",
            "disk was full": "bounce.eml",
            "ledger in Basel": "bad.txt",
        }.items():
            assert base.search(query).results[0].citation.path == path
