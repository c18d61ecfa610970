"""Every word that a Word document shows comes out, in order, once; what was deleted or hidden does not."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from functools import cache
from zipfile import ZIP_DEFLATED, ZipFile

import docx
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_pipeline.chunking.registry import extract_links
from knowledge_pipeline.extraction.extraction import extract
from knowledge_pipeline_tests.thoroughness import examples

_NAMESPACES = " ".join(
    f'xmlns:{prefix}="{name}"'
    for prefix, name in {
        "w": "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
        "r": "http://schemas.openxmlformats.org/officeDocument/2006/relationships",
        "m": "http://schemas.openxmlformats.org/officeDocument/2006/math",
        "mc": "http://schemas.openxmlformats.org/markup-compatibility/2006",
    }.items()
)
_RELATION = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_ADDRESSES = (
    "https://a.example/x_(y)?q=1&amp;r=2",
    "http://b.example/",
    "mailto:ann@example.org",
    "c d.docx",
)


@dataclass(frozen=True)
class Part:
    """A piece of `word/document.xml`, what a reader sees of it, and the addresses of its links."""

    xml: str
    seen: str
    links: tuple[str, ...] = ()


@cache
def _empty() -> dict[str, bytes]:
    out = io.BytesIO()
    docx.Document().save(out)
    with ZipFile(out) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def word(body: str, notes: str = "") -> bytes:
    """A document with that body; hyperlink `rLink0` leads to the first of the addresses, and so on."""
    parts = dict(_empty())
    parts["word/document.xml"] = f"<w:document {_NAMESPACES}><w:body>{body}</w:body></w:document>".encode()
    relations = "".join(
        f'<Relationship Id="rLink{at}" Type="{_RELATION}/hyperlink" Target="{url}" TargetMode="External"/>'
        for at, url in enumerate(_ADDRESSES)
    )
    if notes:
        parts["word/footnotes.xml"] = f"<w:footnotes {_NAMESPACES}>{notes}</w:footnotes>".encode()
        relations += f'<Relationship Id="rNotes" Type="{_RELATION}/footnotes" Target="footnotes.xml"/>'
    name = "word/_rels/document.xml.rels"
    parts[name] = parts[name].replace(b"</Relationships>", f"{relations}</Relationships>".encode())
    out = io.BytesIO()
    with ZipFile(out, "w", ZIP_DEFLATED) as archive:
        for name, payload in parts.items():
            archive.writestr(name, payload)
    return out.getvalue()


def joined(parts: list[Part]) -> Part:
    return Part(
        "".join(part.xml for part in parts),
        "".join(part.seen for part in parts),
        tuple(link for part in parts for link in part.links),
    )


def run(inner: str, seen: str, properties: str = "") -> Part:
    return Part(f"<w:r>{f'<w:rPr>{properties}</w:rPr>' if properties else ''}{inner}</w:r>", seen)


def written(text: str, properties: str = "") -> Part:
    escaped = text.replace("&", "&amp;").replace("<", "&lt;")
    return run(f'<w:t xml:space="preserve">{escaped}</w:t>', text, properties)


def field(instruction: str, inner: Part) -> str:
    """A complex field: its instruction, then the text that it gave."""
    mark = '<w:r><w:fldChar w:fldCharType="{}"/></w:r>'.format
    told = f'<w:r><w:instrText xml:space="preserve">{instruction}</w:instrText></w:r>'
    return mark("begin") + told + mark("separate") + inner.xml + mark("end")


_WORDS = st.text("abcdefghij", min_size=1, max_size=6)
_TEXT = st.sampled_from(["é", " & ", " <b>", " | ", " ", "漢"]) | _WORDS
_PROPERTIES = st.sampled_from(["", "<w:b/>", '<w:vanish w:val="0"/>', '<w:rFonts w:ascii="zzz"/>'])
_RUN = st.builds(written, _TEXT, _PROPERTIES)
_BREAKS = st.sampled_from(
    [run("<w:tab/>", " "), run("<w:br/>", "\n"), run("<w:cr/>", "\n"), run("<w:sym/>", "")]
)
_UNSEEN = st.sampled_from(
    [
        run("<w:t>zzz</w:t>", "", "<w:vanish/>"),
        Part('<w:del w:id="1"><w:r><w:delText>zzz</w:delText></w:r></w:del>', ""),
        Part('<w:moveFrom w:id="1"><w:r><w:t>zzz</w:t></w:r></w:moveFrom>', ""),
        Part('<w:bookmarkStart w:id="1" w:name="zzz"/><!-- zzz --><w:bookmarkEnd w:id="1"/>', ""),
        Part("<w:r><w:instrText>zzz</w:instrText></w:r>", ""),
        Part('<w:r><w:fldChar w:fldCharType="end"/></w:r>', ""),
    ]
)
_RUNS = st.lists(_RUN | _RUN | _BREAKS | _UNSEEN, min_size=1, max_size=4).map(joined)
_FRAMES = st.sampled_from(
    [
        '<w:ins w:id="1" w:author="zzz">{}</w:ins>',
        '<w:moveTo w:id="1">{}</w:moveTo>',
        "<w:smartTag>{}</w:smartTag>",
        "<w:sdt><w:sdtPr><w:alias w:val='zzz'/></w:sdtPr><w:sdtContent>{}</w:sdtContent></w:sdt>",
        '<w:fldSimple w:instr=" AUTHOR zzz ">{}</w:fldSimple>',
        '<w:bdo w:val="rtl">{}</w:bdo>',
        "<mc:AlternateContent><mc:Choice Requires='w'>{}</mc:Choice>"
        "<mc:Fallback><w:r><w:t>zzz</w:t></w:r></mc:Fallback></mc:AlternateContent>",
    ]
)
_FRAMED = st.tuples(_FRAMES, _RUNS).map(lambda drawn: Part(drawn[0].format(drawn[1].xml), drawn[1].seen))
_MATH = _WORDS.map(lambda letters: Part(f"<m:oMath><m:r><m:t>{letters}</m:t></m:r></m:oMath>", letters))


def _link(at: int, inner: Part, kind: str) -> Part:
    url = _ADDRESSES[at]
    xml = {
        "relation": f'<w:hyperlink r:id="rLink{at}">{inner.xml}</w:hyperlink>',
        "complex": field(f' HYPERLINK "{url}" \\o "zzz" ', inner),
        "simple": f"<w:fldSimple w:instr='HYPERLINK \"{url}\"'>{inner.xml}</w:fldSimple>",
        "anchor": f'<w:hyperlink w:anchor="zzz">{inner.xml}</w:hyperlink>',
    }[kind]
    told = url.replace("&amp;", "&").replace(" ", "%20")
    seen = re.search(r"\w", inner.seen) is not None and kind != "anchor"
    return Part(xml, inner.seen, (told,) if seen else ())


_KINDS = st.sampled_from(["relation", "complex", "simple", "anchor"])
_LINKS = st.builds(_link, st.integers(0, len(_ADDRESSES) - 1), st.lists(_RUN, min_size=1).map(joined), _KINDS)
_LINE = st.lists(_RUNS | _FRAMED | _MATH | _LINKS, min_size=1, max_size=4).map(joined)
_STYLES = st.sampled_from(["", "Heading1", "Title", "ListBullet", "ListNumber2", "NoSuchStyle"])


def _paragraph(line: Part, style: str) -> Part:
    properties = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return Part(f"<w:p>{properties}{line.xml}</w:p>", f"\n{line.seen}\n", line.links)


_PARAGRAPH = st.builds(_paragraph, _LINE, _STYLES)


def _boxed(line: Part, inner: Part) -> Part:
    """A paragraph on which a text box hangs; it is told after it, and once, though it is written twice."""
    content = f"<w:txbxContent>{inner.xml}</w:txbxContent>"
    box = (
        f"<w:r><mc:AlternateContent><mc:Choice Requires='wps'><w:drawing>{content}</w:drawing></mc:Choice>"
        f"<mc:Fallback><w:pict>{content}</w:pict></mc:Fallback></mc:AlternateContent></w:r>"
    )
    return Part(f"<w:p>{box}{line.xml}</w:p>", f"\n{line.seen}\n{inner.seen}\n", line.links + inner.links)


def _around(blocks):
    content = st.lists(blocks, min_size=1, max_size=3).map(joined)
    control = content.map(
        lambda part: Part(f"<w:sdt><w:sdtContent>{part.xml}</w:sdtContent></w:sdt>", part.seen, part.links)
    )
    spans = st.sampled_from(
        ["", '<w:gridSpan w:val="2"/>', '<w:gridSpan w:val="²"/>', '<w:gridSpan w:val="99999999"/>']
    )
    cells = st.builds(
        lambda part, span: Part(f"<w:tc><w:tcPr>{span}</w:tcPr>{part.xml}</w:tc>", part.seen, part.links),
        content,
        spans,
    )
    rows = st.lists(cells, min_size=1, max_size=3).map(
        lambda cells: Part(f"<w:tr>{joined(cells).xml}</w:tr>", joined(cells).seen, joined(cells).links)
    )
    gone = st.just(
        Part(
            "<w:tr><w:trPr><w:del w:id='1'/></w:trPr><w:tc><w:p><w:r><w:t>zzz</w:t></w:r></w:p></w:tc>"
            "</w:tr>",
            "",
        )
    )
    tables = st.lists(rows | rows | gone, min_size=1, max_size=3).map(
        lambda rows: Part(f"<w:tbl>{joined(rows).xml}</w:tbl>", joined(rows).seen, joined(rows).links)
    )
    return control | tables | st.builds(_boxed, _LINE, content)


_DOCUMENT = st.lists(st.recursive(_PARAGRAPH, _around, max_leaves=8), min_size=1, max_size=4).map(joined)


def words_of(text: str) -> list[str]:
    """Words of letters, without the addresses of links."""
    return re.findall(r"[^\W\d_]+", re.sub(r"\]\((?:<[^<>\n]*>|[^()\n]*)\)|\[", "", text))


def check(document: Part) -> None:
    last = '<w:p><w:r><w:t xml:space="preserve">last </w:t></w:r></w:p>'
    text = extract("a.docx", word(document.xml + last)).text
    assert words_of(text) == [*words_of(document.seen), "last"]
    assert not re.search(r"</?w:|&[a-z]+;", text)
    assert set(document.links) <= set(extract_links(text))


@settings(max_examples=examples(120, few=4), deadline=None)
@given(_DOCUMENT)
def test_a_word_document_says_all_its_words_in_order_and_nothing_else(document):
    check(document)


def test_notes_stand_at_the_end_in_the_order_in_which_they_are_named():
    note = '<w:footnote w:id="{}"><w:p><w:r><w:t>{}</w:t></w:r></w:p></w:footnote>'.format
    body = '<w:p><w:r><w:t>Fast</w:t><w:footnoteReference w:id="3"/><w:t>, safe</w:t></w:r>'
    body += '<w:r><w:footnoteReference w:id="2"/></w:r></w:p>'
    text = extract(
        "a.docx", word(body, note(2, "As far as known.") + note(3, "In 2 s.") + note(4, "Unused."))
    ).text
    assert text == "Fast[^3], safe[^2]\n\n[^3]: In 2 s.\n\n[^2]: As far as known."


def test_a_link_over_runs_is_one_link_and_a_field_over_paragraphs_keeps_its_text():
    begin = '<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText>TOC</w:instrText></w:r>'
    end = '<w:r><w:fldChar w:fldCharType="end"/></w:r>'
    linked = f'<w:hyperlink r:id="rLink1">{written("the ").xml}{written("page", "<w:b/>").xml}</w:hyperlink>'
    body = f"<w:p>{begin}{written('One').xml}</w:p><w:p>{linked}{end}{written('.').xml}</w:p>"
    assert extract("a.docx", word(body)).text == "One\n\n[the page](http://b.example/)."


def test_a_table_with_tables_in_it_is_laid_out_paragraph_by_paragraph():
    def cell(inner: str) -> str:
        return f"<w:tc>{inner}</w:tc>"

    def say(text: str) -> str:
        return f"<w:p>{written(text).xml}</w:p>"

    inner = f"<w:tbl><w:tr>{cell(say('a'))}{cell(say('b'))}</w:tr></w:tbl>"
    outer = f"<w:tbl><w:tr>{cell(say('left'))}{cell(say('right') + inner)}</w:tr></w:tbl>"
    text = extract("a.docx", word(outer)).text
    assert text == "left\n\nright\n\n| a | b |\n| --- | --- |"


def test_a_cell_merged_with_those_below_is_told_in_each_row():
    def cell(text: str, merged: str = "") -> str:
        return f"<w:tc><w:tcPr>{merged}</w:tcPr><w:p>{written(text).xml}</w:p></w:tc>"

    first = cell("tall", '<w:vMerge w:val="restart"/>') + cell("a")
    second = cell("", "<w:vMerge/>") + cell("b")
    text = extract("a.docx", word(f"<w:tbl><w:tr>{first}</w:tr><w:tr>{second}</w:tr></w:tbl>")).text
    assert text.splitlines() == ["| tall | a |", "| --- | --- |", "| tall | b |"]
