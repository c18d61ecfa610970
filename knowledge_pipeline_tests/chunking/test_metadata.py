from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from knowledge_pipeline.chunking.registry import chunk_document, extract_links, fingerprint
from knowledge_pipeline.config.sources import MetadataSettings, SourceConfig
from knowledge_pipeline.errors import ConfigError
from knowledge_pipeline.records import Chunk, Document
from knowledge_pipeline_tests.chunking.documents import document, source, tokenize

TEXT = "# Guide\n\nIntro, see [b](b.md).\n\n## Install\n\nRun it.\n"


def chunks_of(of: Document, by: SourceConfig) -> list[Chunk]:
    return chunk_document(of, by, tokenize=tokenize, model_tokens=256)


def test_a_chunk_tells_its_section_level_parent_title_and_links():
    first, second = chunks_of(document(TEXT), source(min_tokens=0))
    assert first.metadata == {
        "source_type": "markdown",
        "file_path": "docs/guide.md",
        "section": "Guide",
        "header_level": 1,
        "title": "Guide",
        "links": ["b.md"],
    }
    assert second.metadata["parent_section"] == "Guide"
    assert second.metadata["header_level"] == 2
    assert "links" not in second.metadata


def test_each_group_of_extractors_can_be_switched_off():
    plain = MetadataSettings(standard=False, documents=False, tags=("mine",))
    assert [chunk.metadata for chunk in chunks_of(document(TEXT), source(metadata=plain))] == [
        {"tags": ["mine"]}
    ]


def test_tags_of_source_and_front_matter_are_joined_without_repeats():
    text = "---\ntags: x, y\nkeywords: [z, x]\n---\n# A\n\ntext\n"
    (chunk,) = chunks_of(document(text), source(metadata=MetadataSettings(tags=("mine", "x"))))
    assert chunk.metadata["tags"] == ["mine", "x", "y", "z"]


def test_a_document_joins_no_namespace_by_its_own_tags():
    (chunk,) = chunks_of(document("---\ntags: [namespace:shop, x]\n---\n# A\n\ntext\n"), source())
    assert chunk.metadata["tags"] == ["x"]


def test_a_chunk_of_a_pdf_tells_the_page_that_it_begins_on():
    pages = ["First page says this. " * 10, "Second page says that. " * 10]
    of = document("".join(pages), "a.pdf", None, metadata={"page_starts": [0, len(pages[0])]})
    chunks = chunks_of(of, source("files", max_tokens=40, overlap_tokens=0))
    assert {chunk.metadata["page"] for chunk in chunks if "First" in chunk.text[:6]} == {1}
    assert chunks[-1].metadata["page"] == 2


def test_links_are_found_once_each_in_every_markup():
    text = (
        "[a](x.md) [a](x.md) <https://e.org/1> https://e.org/2. `t <y.rst>`_\n\n[l]: z.md\n(https://e.org/3)"
    )
    assert extract_links(text) == [
        "x.md",
        "https://e.org/1",
        "https://e.org/2",
        "y.rst",
        "z.md",
        "https://e.org/3",
    ]


@pytest.fixture
def extractors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "my_extractors.py"
    path.write_text(
        "import datetime\n"
        "def words(document, chunk):\n"
        "    return {'words': len(chunk.text.split()), 'day': datetime.date(2024, 1, 31), 'odd': {1}}\n"
        "def broken(document, chunk):\n"
        "    raise KeyError('owner')\n"
        "def wrong(document, chunk):\n"
        "    return 5\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "my_extractors", raising=False)
    return path


def test_a_custom_extractor_adds_json_values(extractors):
    by = source(metadata=MetadataSettings(custom=("my_extractors:words",)))
    (chunk,) = chunks_of(document("# A\n\nsome text\n"), by)
    assert chunk.metadata["words"] == 4
    assert chunk.metadata["day"] == "2024-01-31"
    json.dumps(chunk.metadata, allow_nan=False)


def test_a_custom_extractor_that_fails_is_noted_and_the_chunk_is_kept(extractors):
    by = source(metadata=MetadataSettings(custom=("my_extractors:broken", "my_extractors:wrong")))
    (chunk,) = chunks_of(document("# A\n\nsome text\n"), by)
    assert chunk.metadata["note"] == (
        "the metadata extractor my_extractors:broken failed: KeyError: 'owner'; "
        "the metadata extractor my_extractors:wrong failed: TypeError: "
        "it returned int instead of a mapping or None"
    )


@pytest.mark.parametrize("name", ["no_such_module_here:f", "my_extractors:missing"])
def test_a_custom_extractor_that_does_not_exist_is_an_error_of_the_config(extractors, name):
    by = source(metadata=MetadataSettings(custom=(name,)))
    with pytest.raises(ConfigError, match=r"metadata\.custom"):
        chunks_of(document("# A\n\nsome text\n"), by)


def test_the_fingerprint_changes_with_all_that_can_change_a_chunk(extractors, tmp_path):
    def of(by: SourceConfig, model_tokens: int = 256, tokenizer: str = "t") -> str:
        return fingerprint(by, model_tokens=model_tokens, tokenizer=tokenizer)

    report = tmp_path / "lcov.info"
    report.write_text("SF:a.py\nDA:1,1\n")
    covered = source("code", metadata=MetadataSettings(coverage=report))
    custom = source(metadata=MetadataSettings(custom=("my_extractors:words",)))
    before = [of(covered), of(custom)]
    found = [
        of(source()),
        of(source("files")),
        of(source(max_tokens=99)),
        of(source(), model_tokens=128),
        of(source(), tokenizer="u"),
        of(source(metadata=MetadataSettings(tags=("a",)))),
        *before,
    ]
    assert len(set(found)) == len(found)
    assert of(source()) == found[0]
    report.write_text("SF:a.py\nDA:1,0\n")
    extractors.write_text(extractors.read_text() + "\n# changed\n")
    assert of(covered) != before[0]
    assert of(custom) != before[1]


def test_a_chunk_of_several_sections_lists_all_of_them():
    (chunk,) = chunks_of(document(TEXT), source())
    assert (chunk.metadata["section"], chunk.metadata["sections"]) == ("Guide", ["Guide", "Install"])
