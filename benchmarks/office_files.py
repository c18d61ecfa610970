"""How long a first index of office files takes, and how much of the processor their parsers use.

    python -m benchmarks.office_files [--files 1000] [--corpus FOLDER] [--keep FOLDER] [--words]

The files are made: as many DOCX, PPTX, XLSX and PDF, with the prose of Python's own documentation, tables,
lists, notes, formats of numbers and charts; they say the same wherever this Python is. `--corpus` takes the
files of a folder instead. `--words` ends where words find them: embedding takes most of the rest. It imports
nothing beside the package, so that an earlier version can be measured:

    PYTHONPATH=EARLIER python -P benchmarks/office_files.py
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections import Counter
from io import BytesIO
from pathlib import Path
from pydoc_data.topics import topics
from random import Random

import docx
import pptx
import xlsxwriter
from pypdf import PdfWriter
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.extraction.extraction import extract
from knowledge_pipeline.stages import pipeline
from knowledge_pipeline.store.lake import Lake

_LINES = [
    line.strip() for topic in sorted(topics) for line in topics[topic].splitlines() if len(line.split()) > 5
]
_PARAGRAPHS = 30
_SLIDES = 12
_ROWS = 400
_PAGES = 8
_FORMATS = ("#,##0.00", "0.0%", "yyyy-mm-dd", "[$CHF] #,##0.00")


def make_docx(random: Random) -> bytes:
    """A document with headings, a list and a table."""
    document, packed = docx.Document(), BytesIO()
    for at in range(_PARAGRAPHS):
        if at % 6 == 0:
            document.add_heading(random.choice(_LINES)[:60], 1 + at % 2)
        document.add_paragraph(" ".join(random.choices(_LINES, k=5)))
        document.add_paragraph(random.choice(_LINES), style="List Bullet")
    table = document.add_table(12, 4)
    for row in table.rows:
        for cell in row.cells:
            cell.text = random.choice(_LINES)[:25]
    document.save(packed)
    return packed.getvalue()


def make_pptx(random: Random) -> bytes:
    """A presentation with lists and the speaker's notes."""
    deck, packed = pptx.Presentation(), BytesIO()
    for _ in range(_SLIDES):
        slide = deck.slides.add_slide(deck.slide_layouts[1])
        slide.shapes.title.text = random.choice(_LINES)[:60]
        slide.placeholders[1].text = "\n".join(random.choices(_LINES, k=5))
        slide.notes_slide.notes_text_frame.text = " ".join(random.choices(_LINES, k=3))
    deck.save(packed)
    return packed.getvalue()


def make_xlsx(random: Random) -> bytes:
    """A workbook of two sheets with texts, numbers in their formats, and a chart."""
    packed = BytesIO()
    with xlsxwriter.Workbook(packed, {"in_memory": True}) as book:
        styles = [book.add_format({"num_format": code}) for code in _FORMATS]
        for name in ("Sales", "Costs"):
            sheet = book.add_worksheet(name)
            sheet.write_row(0, 0, ["What", "Count", "Rate", "Sum", "Share", "Day", "Fee"])
            for row in range(1, _ROWS):
                sheet.write(row, 0, random.choice(_LINES)[:20])
                sheet.write(row, 1, random.randrange(1000))
                sheet.write(row, 2, random.random())
                for at, style in enumerate(styles):
                    sheet.write(
                        row, 3 + at, (random.random() * 9000, random.random(), 46_000 + row, row)[at], style
                    )
            chart = book.add_chart({"type": "line"})
            chart.add_series({"categories": [name, 1, 0, 20, 0], "values": [name, 1, 3, 20, 3]})
            chart.set_title({"name": random.choice(_LINES)[:40]})
            sheet.insert_chart("J2", chart)
    return packed.getvalue()


def make_pdf(random: Random) -> bytes:
    """Pages of some forty lines."""
    writer, packed = PdfWriter(), BytesIO()
    names = {"/Type": "/Font", "/Subtype": "/Type1", "/BaseFont": "/Helvetica"}
    font = DictionaryObject({NameObject(key): NameObject(value) for key, value in names.items()})
    fonts = DictionaryObject({NameObject("/F"): font})
    for _ in range(_PAGES):
        page, content = writer.add_blank_page(595, 842), DecodedStreamObject()
        lines = (line.encode("ascii", "ignore") for line in random.choices(_LINES, k=40))
        shown = b"".join(b"(" + line.translate(None, b"()\\") + b") Tj T*\n" for line in lines)
        content.set_data(b"BT /F 10 Tf 14 TL 40 800 Td\n" + shown + b"ET")
        page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
        page[NameObject("/Contents")] = writer._add_object(content)
    writer.write(packed)
    return packed.getvalue()


_MAKERS = {"docx": make_docx, "pptx": make_pptx, "xlsx": make_xlsx, "pdf": make_pdf}


def make_corpus(folder: Path, count: int) -> None:
    """So many files, the kinds in turn; those that are there already are kept."""
    folder.mkdir(parents=True, exist_ok=True)
    for at in range(count):
        kind = list(_MAKERS)[at % len(_MAKERS)]
        path = folder / f"{at:05}.{kind}"
        if not path.exists():
            path.write_bytes(_MAKERS[kind](Random(at)))


def measure_parsers(folder: Path) -> dict[str, dict[str, float]]:
    """By extension: files, those that are skipped, and milliseconds of the processor a file."""
    files, skipped, seconds = Counter[str](), Counter[str](), Counter[str]()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        kind, payload = path.suffix.lower().lstrip("."), path.read_bytes()
        started = time.process_time()
        try:
            extract(path.name, payload)
        except DocumentSkipped:
            skipped[kind] += 1
        files[kind] += 1
        seconds[kind] += time.process_time() - started  # type: ignore[assignment]
    return {
        kind: {
            "files": count,
            "skipped": skipped[kind],
            "ms_a_file": round(1000 * seconds[kind] / count, 2),
        }
        for kind, count in sorted(files.items())
    }


def measure_first_index(folder: Path, store: Path, words: bool) -> dict[str, float]:
    """Seconds until all is released, or its words, and of each stage; the snapshot is what parses.

    Those of the processor count children too, which a busy machine makes no longer.
    """
    source = {"id": "office", "type": "files", "connection": {"type": "local", "path": str(folder)}}
    settings = Settings.model_validate({"store": store, "sources": [source]})
    started, worked = time.perf_counter(), sum(os.times()[:4])
    outcome = pipeline.refresh(Lake(store), settings, settings.sources, words_only=words)
    seconds, processor = time.perf_counter() - started, sum(os.times()[:4]) - worked
    for error in outcome.failures.values():
        raise error
    return {
        "whole": round(seconds, 2),
        "processor": round(processor, 2),
        **{stats.stage: round(stats.seconds, 2) for stats in outcome.stats},
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--files", type=int, default=1000)
    parser.add_argument("--corpus", type=Path, help="files of this folder, in place of made ones")
    parser.add_argument("--keep", type=Path, help="keeps the made files here, for another run")
    parser.add_argument("--words", action="store_true", help="no vectors")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        corpus = options.corpus or options.keep or Path(work) / "files"
        if options.corpus is None:
            make_corpus(corpus, options.files)
        figures = {
            "parsers": measure_parsers(corpus),
            "seconds": measure_first_index(corpus, Path(work) / "store", options.words),
        }
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
