"""Word documents and presentations as many programs make them: odd parts, charts, numbers."""

from __future__ import annotations

import io
import re
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import pytest

from knowledge_pipeline import KnowledgeBase
from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.extraction.extraction import extract

_OPEN = "http://schemas.openxmlformats.org"
_NAMESPACES = {
    "w": f"{_OPEN}/wordprocessingml/2006/main",
    "p": f"{_OPEN}/presentationml/2006/main",
    "a": f"{_OPEN}/drawingml/2006/main",
    "c": f"{_OPEN}/drawingml/2006/chart",
    "dgm": f"{_OPEN}/drawingml/2006/diagram",
    "r": f"{_OPEN}/officeDocument/2006/relationships",
    "m": f"{_OPEN}/officeDocument/2006/math",
    "mc": f"{_OPEN}/markup-compatibility/2006",
    "wp": f"{_OPEN}/drawingml/2006/wordprocessingDrawing",
    "o": "urn:schemas-microsoft-com:office:office",
    "cx": "http://schemas.microsoft.com/office/drawing/2014/chartex",
    "a14": "http://schemas.microsoft.com/office/drawing/2010/main",
}
_CORE = "http://schemas.openxmlformats.org/package/2006/relationships/metadata/core-properties"

_EXTENSIONS = ("xml", "rels", "png", "html", "txt", "mht", "docx", "rtf")

Relations = dict[str, tuple[str, str]]
"""From the id to the kind and the target; a target with "://" is an address."""


def xml(tag: str, inner: str) -> bytes:
    names = " ".join(f'xmlns:{prefix}="{name}"' for prefix, name in _NAMESPACES.items())
    return f"<{tag} {names}>{inner}</{tag}>".encode()


def relations(targets: Relations) -> bytes:
    told = ""
    for id_, (kind, target) in targets.items():
        kind = kind if ":" in kind else f"{_NAMESPACES['r']}/{kind}"
        mode = "External" if "://" in target else "Internal"
        told += f'<Relationship Id="{id_}" Type="{kind}" Target="{target}" TargetMode="{mode}"/>'
    return f'<Relationships xmlns="{_OPEN}/package/2006/relationships">{told}</Relationships>'.encode()


def types(main: str, kind: str) -> bytes:
    told = "".join(f'<Default Extension="{kind}" ContentType="application/{kind}"/>' for kind in _EXTENSIONS)
    told += (
        f'<Override PartName="{main}" ContentType="application/vnd.openxmlformats-officedocument.{kind}"/>'
    )
    return f'<Types xmlns="{_OPEN}/package/2006/content-types">{told}</Types>'.encode()


def packed(parts: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with ZipFile(out, "w", ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return out.getvalue()


def word_parts(body: str, targets: Relations | None = None, **parts: bytes) -> dict[str, bytes]:
    """The parts of a document; a part `chart1_xml` is `word/chart1.xml`."""
    named = {f"word/{name.replace('_', '.')}": content for name, content in parts.items()}
    linked = {f"r{kind}": (kind, f"{kind}.xml") for kind in ("styles", "numbering") if f"{kind}_xml" in parts}
    return {
        "[Content_Types].xml": types("/word/document.xml", "wordprocessingml.document.main+xml"),
        "_rels/.rels": relations({"r1": ("officeDocument", "word/document.xml")}),
        "word/document.xml": xml("w:document", f"<w:body>{body}</w:body>"),
        "word/_rels/document.xml.rels": relations(linked | (targets or {})),
        **named,
    }


def read(body: str, targets: Relations | None = None, **parts: bytes):
    return extract("a.docx", packed(word_parts(body, targets, **parts)))


def text_of(body: str, targets: Relations | None = None, **parts: bytes) -> str:
    return read(body, targets, **parts).text


def p(inner: str, properties: str = "") -> str:
    inner = inner if inner.startswith("<") else f"<w:r><w:t>{inner}</w:t></w:r>"
    return f"<w:p><w:pPr>{properties}</w:pPr>{inner}</w:p>"


def deck_parts(shapes: str, targets: Relations | None = None, **parts: bytes) -> dict[str, bytes]:
    """The parts of a presentation of one slide; a part `chart1_xml` is `ppt/slides/chart1.xml`."""
    named = {f"ppt/slides/{name.replace('_', '.')}": content for name, content in parts.items()}
    tree = f"<p:cSld><p:spTree>{shapes}</p:spTree></p:cSld>"
    return {
        "[Content_Types].xml": types("/ppt/presentation.xml", "presentationml.presentation.main+xml"),
        "_rels/.rels": relations({"r1": ("officeDocument", "ppt/presentation.xml")}),
        "ppt/presentation.xml": xml(
            "p:presentation", '<p:sldIdLst><p:sldId id="256" r:id="r1"/></p:sldIdLst>'
        ),
        "ppt/_rels/presentation.xml.rels": relations({"r1": ("slide", "slides/slide1.xml")}),
        "ppt/slides/slide1.xml": xml("p:sld", tree),
        "ppt/slides/_rels/slide1.xml.rels": relations(targets or {}),
        **named,
    }


def slide(shapes: str, targets: Relations | None = None, **parts: bytes) -> str:
    return extract("a.pptx", packed(deck_parts(shapes, targets, **parts))).text


def box(paragraphs: str, placeholder: str = "", click: str = "") -> str:
    kind = f"<p:ph {placeholder}/>" if placeholder else ""
    about = (
        f'<p:nvSpPr><p:cNvPr id="2" name="x">{click}</p:cNvPr><p:cNvSpPr/><p:nvPr>{kind}</p:nvPr></p:nvSpPr>'
    )
    return f"<p:sp>{about}<p:txBody><a:bodyPr/>{paragraphs}</p:txBody></p:sp>"


def line(text: str, properties: str = "") -> str:
    return f"<a:p>{run(text, properties)}</a:p>"


def run(text: str, properties: str = "") -> str:
    return f"<a:r>{properties or '<a:rPr/>'}<a:t>{text}</a:t></a:r>"


# One odd part does not lose a file

_STRICT = ("wordprocessingml", "presentationml", "drawingml", "officeDocument")


def strict(content: bytes) -> bytes:
    for name in _STRICT:
        content = content.replace(
            f"{_OPEN}/{name}/2006".encode(), f"http://purl.oclc.org/ooxml/{name}".encode()
        )
    return content


def odd_documents() -> dict[str, dict[str, bytes]]:
    body = p("Still read")
    picture = "<w:p><w:r><w:drawing><a:blip r:embed='rPicture'/></w:drawing></w:r></w:p>"
    template = types("/word/document.xml", "wordprocessingml.template.main+xml")
    plain = word_parts(body)
    return {
        "a target that is NULL": word_parts(body + picture, {"rPicture": ("image", "NULL")}),
        "a missing picture": word_parts(body + picture, {"rPicture": ("image", "media/image1.png")}),
        "a style without type": word_parts(
            body, styles_xml=xml("w:styles", '<w:style w:styleId="A"><w:name w:val="A"/></w:style>')
        ),
        "styles that are no XML": word_parts(body, styles_xml=b"<w:styles>"),
        "the type of a template": {**plain, "[Content_Types].xml": template},
        "Strict names": {name: strict(content) for name, content in plain.items()},
        "no types": {name: content for name, content in plain.items() if "Types" not in name},
        "two sets of properties": {
            **plain,
            "_rels/.rels": relations(
                {
                    "r1": ("officeDocument", "/word/document.xml"),
                    "r2": (_CORE, "a.xml"),
                    "r3": (_CORE, "b.xml"),
                }
            ),
            "b.xml": b"no XML",
        },
    }


@pytest.mark.parametrize("name", odd_documents())
def test_one_odd_part_does_not_lose_a_document(name):
    assert extract("a.docx", packed(odd_documents()[name])).text == "Still read"


def test_a_part_whose_checksum_is_wrong_is_lost_alone():
    payload = packed(
        word_parts(p("Still read"), {"rTheme": ("theme", "theme.xml")}, theme_xml=b"<theme/>" * 99)
    )
    with ZipFile(io.BytesIO(payload)) as archive:
        info = archive.getinfo("word/theme.xml")
    damaged = payload.replace(info.CRC.to_bytes(4, "little"), bytes(4))
    assert extract("a.docx", damaged).text == "Still read"


def test_pages_and_texts_that_a_document_takes_in_are_read_and_other_formats_are_counted():
    chunks = "".join(f'<w:altChunk r:id="r{at}"/>' for at in range(5))
    mail = (
        b"MIME-Version: 1.0\nContent-Type: multipart/related; boundary=b\n\n--b\nContent-Type: text/html\n\n"
    )
    document = read(
        p("Before") + chunks + p("After"),
        {
            f"r{at}": ("aFChunk", f"c{at}.{kind}")
            for at, kind in enumerate(("html", "txt", "mht", "docx", "rtf"))
        },
        c0_html=b"<html><body><h2>Fees</h2><p>Ten francs</p></body></html>",
        c1_txt=b"Plain words",
        c2_mht=mail + b"<p>Packed page</p>\n--b--\n",
        c3_docx=packed(word_parts(p("Inner document"))),
        c4_rtf=b"{\\rtf1 x}",
    )
    assert document.text == (
        "Before\n\n## Fees\n\nTen francs\n\nPlain words\n\nPacked page\n\nInner document\n\nAfter"
    )
    assert document.metadata["note"] == "parts not read: 1 included file"


@pytest.mark.parametrize(
    ("name", "payload", "reason"),
    [
        ("a.docx", packed(deck_parts(box(line("x")))), "it has no word/document.xml|it holds something else"),
        ("a.pptx", packed(word_parts(p("x"))), "it holds something else"),
        ("a.docx", packed({"a.txt": b"x"}), "it has no word/document.xml"),
        (
            "a.docx",
            packed({**word_parts(""), "word/document.xml": b"<w:document>"}),
            "word/document.xml is damaged",
        ),
        ("a.docx", packed(word_parts(p("x")))[:-30], "its archive is cut or damaged"),
    ],
)
def test_the_reason_for_a_broken_file_is_a_plain_one(name, payload, reason):
    with pytest.raises(DocumentSkipped, match=f"^broken {name[2:].upper()} \\((?:{reason})\\)$") as raised:
        extract(name, payload)
    assert not re.search(r"0x|Error|object at", str(raised.value))


# What is in a document is read or counted

_CHART = xml(
    "c:chartSpace",
    "<c:chart><c:title><c:tx><c:rich><a:p><a:r><a:t>Fees by quarter</a:t></a:r></a:p></c:rich>"
    "</c:tx></c:title>"
    "<c:plotArea><c:barChart>"
    + "".join(
        f"<c:ser><c:tx><c:strRef><c:strCache><c:pt idx='0'><c:v>{name}</c:v></c:pt></c:strCache>"
        f"</c:strRef></c:tx>"
        "<c:cat><c:strRef><c:strCache><c:pt idx='0'><c:v>Q1</c:v></c:pt><c:pt idx='1'><c:v>Q2</c:v></c:pt>"
        "</c:strCache></c:strRef></c:cat><c:val><c:numRef><c:numCache>"
        f"<c:formatCode>{code}</c:formatCode>{values}</c:numCache></c:numRef></c:val></c:ser>"
        for name, code, values in (
            (
                "Bern",
                "General",
                "<c:pt idx='0'><c:v>4.3</c:v></c:pt><c:pt idx='1'><c:v>0.34999999999999998</c:v></c:pt>",
            ),
            ("Share", "0%", "<c:pt idx='1'><c:v>0.25</c:v></c:pt>"),
            ("Since", 'd\\ mmm"y"', "<c:pt idx='0'><c:v>46000</c:v></c:pt>"),
        )
    )
    + "</c:barChart><c:valAx><c:title><c:tx><c:rich><a:p><a:r><a:t>CHF</a:t></a:r></a:p></c:rich>"
    "</c:tx></c:title>"
    "</c:valAx></c:plotArea></c:chart>",
)
_CHART_TEXT = (
    "Chart: Fees by quarter\nValues: CHF\n\n| Category | Bern | Share | Since |\n| --- | --- | --- | --- |\n"
    "| Q1 | 4.3 |  | 2025-12-09 |\n| Q2 | 0.35 | 25% |  |"
)
_SMART_ART = xml(
    "dgm:dataModel",
    "<dgm:ptLst>"
    + "".join(
        f'<dgm:pt modelId="{at}"><dgm:t>{"".join(line(text) for text in texts)}</dgm:t></dgm:pt>'
        for at, texts in enumerate((["Plan"], ["Build", "and test"], ["Draft"]))
    )
    + '</dgm:ptLst><dgm:cxnLst><dgm:cxn srcId="0" destId="1" srcOrd="1"/>'
    '<dgm:cxn srcId="0" destId="2" srcOrd="0"/></dgm:cxnLst>',
)
_GRAPHICS = {"rChart": ("chart", "chart1.xml"), "rArt": ("diagramData", "art.xml")}


def drawing(inner: str) -> str:
    return f"<w:p><w:r><w:drawing>{inner}</w:drawing></w:r></w:p>"


def test_charts_and_smart_art_of_a_document_are_told_and_those_without_a_part_counted():
    body = p("See:") + drawing('<c:chart r:id="rChart"/>') + drawing('<dgm:relIds r:dm="rArt"/>')
    document = read(
        body + drawing('<c:chart r:id="rGone"/>'), _GRAPHICS, chart1_xml=_CHART, art_xml=_SMART_ART
    )
    assert document.text == f"See:\n\n{_CHART_TEXT}\n\n- Plan\n  - Draft\n  - Build and test"
    assert document.metadata == {"format": "docx", "note": "parts not read: 1 chart"}


def test_a_newer_chart_is_told_and_not_the_picture_that_older_programs_show():
    chart = xml(
        "cx:chartSpace",
        '<cx:chartData><cx:data id="0"><cx:strDim><cx:lvl><cx:pt idx="0">Start</cx:pt>'
        '<cx:pt idx="1">End</cx:pt>'
        '</cx:lvl></cx:strDim><cx:numDim><cx:lvl><cx:pt idx="0">5</cx:pt><cx:pt idx="1">7.5</cx:pt>'
        "</cx:lvl></cx:numDim>"
        "</cx:data></cx:chartData><cx:chart><cx:title><cx:tx><cx:rich><a:p><a:r><a:t>Cash</a:t></a:r>"
        "</a:p></cx:rich>"
        "</cx:tx></cx:title></cx:chart>",
    )
    body = (
        "<w:p><w:r><mc:AlternateContent><mc:Choice Requires='cx1'><w:drawing><cx:chart r:id='rChart'/>"
        "</w:drawing>"
        "</mc:Choice><mc:Fallback><w:t>This chart is not available</w:t></mc:Fallback>"
        "</mc:AlternateContent></w:r></w:p>"
    )
    assert text_of(body, {"rChart": ("chartEx", "chart1.xml")}, chart1_xml=chart) == (
        "Chart: Cash\n\n| Category | Value |\n| --- | --- |\n| Start | 5 |\n| End | 7.5 |"
    )


def test_of_alternatives_without_text_the_one_for_older_programs_is_read():
    body = (
        "<w:p><mc:AlternateContent><mc:Choice Requires='wpi'><w:r><w:drawing/></w:r></mc:Choice>"
        "<mc:Fallback><w:r><w:t>Signed by hand</w:t></w:r></mc:Fallback></mc:AlternateContent></w:p>"
    )
    assert text_of(body) == "Signed by hand"


def test_signs_of_symbol_fonts_are_unicode_and_unknown_ones_counted():
    def sign(font: str, code: str) -> str:
        return f'<w:r><w:sym w:font="{font}" w:char="{code}"/></w:r>'

    signs = (
        sign("Wingdings", "F0E0") + sign("Symbol", "F061") + sign("Wingdings", "F0FE") + sign("Arial", "2264")
    )
    typed = '<w:r><w:rPr><w:rFonts w:ascii="Symbol" w:hAnsi="Symbol"/></w:rPr><w:t>\uf0b3 5</w:t></w:r>'
    document = read(f"<w:p>{signs}{typed}{sign('Bookshelf', 'F041')}</w:p>")
    assert document.text == "→α☑≤≥ 5"
    assert document.metadata["note"] == "parts not read: 1 symbol"


def test_the_state_of_a_form_is_read():
    def field(data: str, shown: str = "") -> str:
        begin = f'<w:r><w:fldChar w:fldCharType="begin"><w:ffData>{data}</w:ffData></w:fldChar></w:r>'
        return (
            begin
            + (f"<w:r><w:t>{shown}</w:t></w:r>" if shown else "")
            + ('<w:r><w:fldChar w:fldCharType="end"/></w:r>')
        )

    entries = "".join(f'<w:listEntry w:val="{name}"/>' for name in ("Bern", "Basel"))
    body = (
        field('<w:checkBox><w:default w:val="1"/></w:checkBox>')
        + "<w:r><w:t> yes </w:t></w:r>"
        + field('<w:checkBox><w:default w:val="1"/><w:checked w:val="0"/></w:checkBox>')
        + "<w:r><w:t> no, in </w:t></w:r>"
        + field(f'<w:ddList><w:result w:val="1"/>{entries}</w:ddList>')
        + "<w:r><w:t>: </w:t></w:r>"
        + field("<w:textInput/>", "Jane")
    )
    assert text_of(f"<w:p>{body}</w:p>") == "☒ yes ☐ no, in Basel: Jane"


def test_every_way_to_write_a_link_keeps_its_address():
    def field(instruction: str, shown: str) -> str:
        mark = '<w:r><w:fldChar w:fldCharType="{}"/></w:r>'.format
        return (
            f"{mark('begin')}<w:r><w:instrText>{instruction}</w:instrText></w:r><w:r><w:t>{shown}</w:t>"
            f"</w:r>{mark('end')}"
        )

    targets = {"rLink": ("hyperlink", "https://a.example/b")}
    picture = '<wp:docPr descr="{}"><a:hlinkClick r:id="rLink"/></wp:docPr>'.format
    body = (
        p('<w:hyperlink r:id="rLink" w:anchor="part"><w:r><w:t>part</w:t></w:r></w:hyperlink>')
        + p(field("HYPERLINK https://b.example/c ", "bare"))
        + p(field(r'HYPERLINK "https://b.example/d" \l "e" \o "tip"', "anchored"))
        + p(field(r'HYPERLINK \l "_Toc1"', "inner"))
        + drawing(picture("Prices"))
        + drawing(picture(""))
    )
    assert text_of(body, targets).split("\n\n") == [
        "[part](https://a.example/b#part)",
        "[bare](https://b.example/c)",
        "[anchored](https://b.example/d#e)",
        "inner",
        "[image: Prices](https://a.example/b)",
        "[image](https://a.example/b)",
    ]


def test_comments_and_embedded_objects_are_counted():
    ole = '<w:p><w:r><w:object><o:OLEObject r:id="rX"/></w:object></w:r></w:p>'
    document = read(
        p("Text") + ole * 2,
        {"rC": ("comments", "comments.xml")},
        comments_xml=xml("w:comments", "<w:comment/><w:comment/><w:comment/>"),
    )
    assert document.metadata["note"] == "parts not read: 3 comments, 2 embedded objects"


def math(inner: str) -> str:
    return f"<m:oMath>{inner}</m:oMath>"


def mr(text: str) -> str:
    return f"<m:r><m:t>{text}</m:t></m:r>"


_FORMULAS = {
    f"<m:f><m:num>{mr('a+b')}</m:num><m:den>{mr('c')}</m:den></m:f>": "(a+b)/c",
    f"<m:f><m:num>{mr('1')}</m:num><m:den>{mr('2a')}</m:den></m:f>": "1/(2a)",
    f"<m:sSup><m:e>{mr('2')}</m:e><m:sup>{mr('32')}</m:sup></m:sSup>": "2^32",
    f"<m:sSup><m:e>{mr('e')}</m:e><m:sup>{mr('n-1')}</m:sup></m:sSup>": "e^(n-1)",
    f"<m:sSubSup><m:e>{mr('x')}</m:e><m:sub>{mr('i')}</m:sub><m:sup>{mr('2')}</m:sup></m:sSubSup>": "x_i^2",
    f"<m:rad><m:deg/><m:e>{mr('x+1')}</m:e></m:rad>": "√(x+1)",
    f"<m:rad><m:deg>{mr('3')}</m:deg><m:e>{mr('8')}</m:e></m:rad>": "√[3]8",
    f'<m:nary><m:naryPr><m:chr m:val="∑"/></m:naryPr><m:sub>{mr("i=1")}</m:sub><m:sup>{mr("n")}</m:sup>'
    f"<m:e>{mr('i')}</m:e></m:nary>": "∑_(i=1)^n i",
    f'<m:d><m:dPr><m:begChr m:val="["/><m:endChr m:val="]"/></m:dPr><m:e>{mr("a")}</m:e></m:d>': "[a]",
    f"<m:func><m:fName>{mr('sin')}</m:fName><m:e>{mr('x')}</m:e></m:func>": "sin x",
    f"<m:m><m:mr><m:e>{mr('a')}</m:e><m:e>{mr('b')}</m:e></m:mr><m:mr><m:e>{mr('c')}</m:e>"
    f"<m:e>{mr('d')}</m:e></m:mr>"
    "</m:m>": "[a, b; c, d]",
}


@pytest.mark.parametrize(("formula", "text"), _FORMULAS.items(), ids=list(_FORMULAS.values()))
def test_a_formula_keeps_what_its_places_mean(formula, text):
    assert text_of(p(math(formula))) == text
    choice = f"<mc:Choice Requires='a14'><a14:m>{math(formula)}</a14:m></mc:Choice><mc:Fallback/>"
    assert (
        slide(box(f"<a:p><mc:AlternateContent>{choice}</mc:AlternateContent></a:p>"))
        == f"## Slide 1\n\n{text}"
    )


@pytest.mark.parametrize(
    ("before", "raised", "text"),
    [
        ("2", ["3", "2"], "2^32"),
        ("10", ["−6"], "10^−6"),
        ("x", ["n+1"], "x^(n+1)"),
        ("1", ["st"], "1st"),
        ("1", ["e"], "1e"),
        ("Brand", ["TM"], "BrandTM"),
        ("", ["2"], "2"),
    ],
)
def test_raised_numbers_are_no_digits_of_the_number_before(before, raised, text):
    runs = "".join(
        f'<w:r><w:rPr><w:vertAlign w:val="superscript"/></w:rPr><w:t>{part}</w:t></w:r>' for part in raised
    )
    assert text_of(f"<w:p><w:r><w:t>{before}</w:t></w:r>{runs}</w:p>") == text
    runs = "".join(run(part, '<a:rPr baseline="30000"/>') for part in raised)
    runs += run(" lowered", '<a:rPr baseline="-25000"/>')
    assert slide(box(f"<a:p>{run(before)}{runs}</a:p>")) == f"## Slide 1\n\n{text} lowered"


# Numbers and headings


def numbering(*levels: tuple[str, str], extra: str = "", numbers: str = "") -> bytes:
    told = "".join(
        f'<w:lvl w:ilvl="{at}"><w:start w:val="1"/><w:numFmt w:val="{kind}"/>'
        f'<w:lvlText w:val="{text}"/>{extra}</w:lvl>'
        for at, (kind, text) in enumerate(levels)
    )
    number = '<w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num>'
    return xml("w:numbering", f'<w:abstractNum w:abstractNumId="0">{told}</w:abstractNum>{number}{numbers}')


def item(text: str, level: int = 0, number: int = 1, style: str = "") -> str:
    styled = f'<w:pStyle w:val="{style}"/>' if style else ""
    return p(text, f'{styled}<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="{number}"/></w:numPr>')


def test_numbers_of_clauses_are_part_of_their_text():
    clauses = numbering(
        ("decimal", "Article %1"), ("decimal", "%1.%2"), ("lowerLetter", "(%3)"), ("lowerRoman", "%4.")
    )
    body = item("Scope") + item("General", 1) + item("fees", 2) + item("taxes", 2) + item("of Bern", 3)
    body += item("Special", 1) + item("rents", 2) + p("Between.") + item("Term") + item("Start", 1)
    assert text_of(body, numbering_xml=clauses).split("\n\n") == [
        "Article 1 Scope", "1.1 General", "(a) fees", "(b) taxes", "i. of Bern",
        "1.2 Special", "(a) rents", "Between.", "Article 2 Term", "2.1 Start",
    ]  # fmt: skip


def test_a_list_goes_on_counting_where_it_is_interrupted_and_starts_anew_where_it_says_so():
    anew = (
        '<w:num w:numId="2"><w:abstractNumId w:val="0"/><w:lvlOverride w:ilvl="0">'
        '<w:startOverride w:val="5"/>'
        "</w:lvlOverride></w:num>"
    )
    body = (
        item("one")
        + item("two")
        + p("Between")
        + item("three")
        + item("five", number=2)
        + item("six", number=2)
    )
    steps = numbering(("decimal", "%1."), numbers=anew)
    assert text_of(body, numbering_xml=steps) == "1. one\n2. two\n\nBetween\n\n3. three\n5. five\n6. six"


@pytest.mark.parametrize(
    ("kind", "labels"),
    [
        ("upperRoman", "I II III IV V"),
        ("upperLetter", "A B C D E"),
        ("decimalZero", "01 02 03 04 05"),
        ("ordinal", "1st 2nd 3rd 4th 5th"),
        ("cardinalText", "One Two Three Four Five"),
        ("chineseCounting", "一 二 三 四 五"),
        ("decimalEnclosedCircle", "① ② ③ ④ ⑤"),
        ("noSuchFormat", "1 2 3 4 5"),
    ],
)
def test_numbers_are_written_in_their_format(kind, labels):
    body = "".join(item("x") for _ in range(5))
    told = text_of(body, numbering_xml=numbering((kind, "§%1")))
    assert [block.removeprefix("§").removesuffix(" x") for block in told.split("\n\n")] == labels.split()


_STYLES = xml(
    "w:styles",
    '<w:style w:styleId="H1"><w:name w:val="heading 1"/><w:pPr><w:outlineLvl w:val="0"/><w:numPr>'
    '<w:numId w:val="1"/>'
    "</w:numPr></w:pPr></w:style>"
    '<w:style w:styleId="H2"><w:name w:val="heading 2"/><w:pPr><w:numPr><w:ilvl w:val="1"/>'
    '<w:numId w:val="1"/></w:numPr>'
    "</w:pPr></w:style>"
    '<w:style w:styleId="Chapter"><w:name w:val="Kapitel"/><w:basedOn w:val="H1"/></w:style>'
    '<w:style w:styleId="Part"><w:name w:val="Part"/><w:pPr><w:outlineLvl w:val="2"/></w:pPr></w:style>'
    '<w:style w:styleId="Contents"><w:name w:val="TOC Heading"/><w:basedOn w:val="H1"/><w:pPr>'
    '<w:outlineLvl w:val="9"/>'
    '<w:numPr><w:numId w:val="0"/></w:numPr></w:pPr></w:style>'
    '<w:style w:styleId="Loop"><w:name w:val="Loop"/><w:basedOn w:val="Loop"/></w:style>',
)


def styled(text: str, style: str, more: str = "") -> str:
    return p(text, f'<w:pStyle w:val="{style}"/>{more}')


def test_headings_are_those_of_derived_styles_and_outline_levels_with_their_numbers():
    long = "A clause that is long. " * 12
    body = (
        styled("Contents", "Contents")
        + styled("Scope", "H1")
        + styled("Fees", "H2")
        + styled("", "H2")
        + styled("Term", "Chapter")
        + styled("Start", "H2")
        + styled("Annex", "Part")
        + p("By its own level", '<w:outlineLvl w:val="1"/>')
        + p(long, '<w:outlineLvl w:val="1"/>')
        + styled("Body", "Loop")
    )
    document = read(
        body, styles_xml=_STYLES, numbering_xml=numbering(("decimal", "%1."), ("decimal", "%1.%2"))
    )
    assert document.text.split("\n\n") == [
        "Contents", "# 1. Scope", "## 1.1 Fees", "# 2. Term", "## 2.1 Start", "### Annex",
        "## By its own level",
        long.strip(), "Body",
    ]  # fmt: skip
    assert document.title == "1. Scope"


def test_a_heading_in_a_cell_is_a_cell():
    def cell(inner: str) -> str:
        return f"<w:tc>{inner}</w:tc>"

    row = f"<w:tr>{cell(styled('Name', 'Part'))}{cell(p('Fee'))}</w:tr>"
    assert text_of(f"<w:tbl>{row}</w:tbl>", styles_xml=_STYLES) == "| Name | Fee |\n| --- | --- |"


@pytest.mark.parametrize(("title", "shown"), [("Word Document", ""), ("", ""), ("Fees", "Fees"), (None, "")])
def test_a_document_is_called_what_somebody_called_it(title, shown):
    parts = word_parts(p("Text"))
    if title is not None:
        parts["_rels/.rels"] = relations(
            {"r1": ("officeDocument", "word/document.xml"), "r2": (_CORE, "core.xml")}
        )
        parts["core.xml"] = (
            f'<x xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>{title}</dc:title></x>'.encode()
        )
    assert extract("a.docx", packed(parts)).title == shown


# Presentations


def test_a_picture_as_title_and_a_missing_slide_do_not_lose_a_presentation():
    picture = (
        '<p:pic><p:nvPicPr><p:cNvPr id="1" name="x" descr="Our logo"/><p:cNvPicPr/><p:nvPr>'
        '<p:ph type="title"/></p:nvPr>'
        "</p:nvPicPr></p:pic>"
    )
    parts = deck_parts(picture + box(line("Welcome")))
    parts["ppt/presentation.xml"] = xml(
        "p:presentation", '<p:sldIdLst><p:sldId r:id="r1"/><p:sldId r:id="r2"/></p:sldIdLst>'
    )
    parts["ppt/_rels/presentation.xml.rels"] = relations(
        {"r1": ("slide", "slides/slide1.xml"), "r2": ("slide", "slides/slide2.xml")}
    )
    deck = extract("a.pptx", packed(parts))
    assert deck.text == "## Slide 1\n\nPicture: Our logo\n\nWelcome"
    assert deck.metadata == {"format": "pptx", "slides": 2, "note": "parts not read: 1 slide"}


def test_strict_presentations_and_shows_are_read():
    parts = deck_parts(box(line("Shown"), 'type="title"') + box(line("Text")))
    wanted = "## Slide 1: Shown\n\nText"
    assert (
        extract("a.pptx", packed({name: strict(content) for name, content in parts.items()})).text == wanted
    )
    parts["[Content_Types].xml"] = types("/ppt/presentation.xml", "presentationml.slideshow.main+xml")
    assert extract("a.pptx", packed(parts)).text == wanted


def frame(inner: str) -> str:
    return f"<p:graphicFrame><a:graphic><a:graphicData>{inner}</a:graphicData></a:graphic></p:graphicFrame>"


def test_charts_smart_art_and_alternatives_of_a_slide_are_told_and_the_rest_counted():
    choice = f"<mc:Choice Requires='a14'>{box(line('In a choice'))}</mc:Choice>"
    shapes = (
        frame('<c:chart r:id="rChart"/>')
        + frame('<dgm:relIds r:dm="rArt"/>')
        + f"<mc:AlternateContent>{choice}<mc:Fallback>{box(line('Older'))}</mc:Fallback>"
        f"</mc:AlternateContent>" + frame("<p:oleObj/>")
    )
    parts = deck_parts(
        shapes, {**_GRAPHICS, "rC": ("comments", "comments.xml")}, chart1_xml=_CHART, art_xml=_SMART_ART,
        comments_xml=xml("p:cmLst", "<p:cm/><p:cm/>"),
    )  # fmt: skip
    deck = extract("a.pptx", packed(parts))
    assert deck.text == f"## Slide 1\n\n{_CHART_TEXT}\n\n- Plan\n  - Draft\n  - Build and test\n\nIn a choice"
    assert deck.metadata["note"] == "parts not read: 2 comments, 1 embedded object"


def test_links_of_a_slide_keep_their_addresses():
    link = '<a:rPr><a:hlinkClick r:id="rLink"/></a:rPr>'
    shapes = (
        box(f"<a:p>{run('see ')}{run('the ', link)}{run('page', link)}{run('.')}</a:p>")
        + box(line("https://a.example", link))
        + box(line("Button"), click='<a:hlinkClick r:id="rLink"/>')
        + '<p:pic><p:nvPicPr><p:cNvPr id="1" name="x" descr="Map"><a:hlinkClick r:id="rLink"/></p:cNvPr>'
        "<p:cNvPicPr/>"
        "<p:nvPr/></p:nvPicPr></p:pic>" + box(line("inner", '<a:rPr><a:hlinkClick r:id="rSlide"/></a:rPr>'))
    )
    told = slide(shapes, {"rLink": ("hyperlink", "https://a.example/"), "rSlide": ("slide", "slide2.xml")})
    assert told.split("\n\n")[1:] == [
        "see [the page](https://a.example/).",
        "https://a.example",
        "[Button](https://a.example/)",
        "[Picture: Map](https://a.example/)",
        "inner",
    ]


def test_a_link_in_the_title_of_a_slide_is_in_its_heading_and_not_in_the_title():
    link = '<a:rPr><a:hlinkClick r:id="rLink"/></a:rPr>'
    shapes = box(line("Our page", link), 'type="title"')
    deck = extract("a.pptx", packed(deck_parts(shapes, {"rLink": ("hyperlink", "https://a.example/")})))
    assert (deck.text, deck.title) == ("## Slide 1: [Our page](https://a.example/)", "Our page")


def test_slides_with_pictures_alone_are_counted():
    parts = deck_parts("<p:pic/>")
    parts["ppt/slides/slide2.xml"] = xml(
        "p:sld", f"<p:cSld><p:spTree>{box(line('Text'))}</p:spTree></p:cSld>"
    )
    parts["ppt/_rels/presentation.xml.rels"] = relations(
        {"r1": ("slide", "slides/slide1.xml"), "r2": ("slide", "slides/slide2.xml")}
    )
    parts["ppt/presentation.xml"] = xml(
        "p:presentation", '<p:sldIdLst><p:sldId r:id="r1"/><p:sldId r:id="r2"/></p:sldIdLst>'
    )
    deck = extract("a.pptx", packed(parts))
    assert deck.text == "## Slide 2\n\nText"
    assert deck.metadata["note"] == "parts not read: 1 slide with pictures only"


def test_what_was_not_read_is_told_after_a_refresh_and_a_clause_is_found_by_its_number(
    project, tmp_path: Path
):
    folder = tmp_path / "contracts"
    folder.mkdir()
    parts = word_parts(
        item("Termination") + drawing('<c:chart r:id="rGone"/>'),
        numbering_xml=numbering(("decimal", "Article %1")),
    )
    (folder / "lease.docx").write_bytes(packed(parts))
    project.declare("contracts", "files", folder)
    outcome = project.refresh()
    assert "parts not read: 1 chart" in repr(outcome)
    with KnowledgeBase(project.settings) as base:
        assert base.search("Article 1 termination").results[0].content.startswith("Article 1 Termination")
