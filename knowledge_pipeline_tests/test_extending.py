"""The package of the pages on extending, installed from them as a person would have it, and run."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from knowledge_pipeline.chunking.registry import chunk_document
from knowledge_pipeline.config.sources import SourceConfig
from knowledge_pipeline.connectors.attachments import open_attachment_reader
from knowledge_pipeline.connectors.jira.tickets import JiraTickets
from knowledge_pipeline.connectors.registry import open_source
from knowledge_pipeline.errors import ConfigError, SourceRefused
from knowledge_pipeline.extending import (
    ChunkingSettings,
    ChunkSpan,
    Document,
    DocumentSkipped,
    Finding,
    Item,
    MeasuredDocument,
    Source,
    TokenLimits,
)
from knowledge_pipeline.extraction.worker import ExtractionWorker
from knowledge_pipeline.plugins import load_plugin
from knowledge_pipeline.sanitizing.sanitize import SanitizerFailed, fingerprint, sanitize
from knowledge_pipeline.testing import check_chunker, check_extractor, check_sanitizer
from knowledge_pipeline_tests.connections import EmptySource
from knowledge_pipeline_tests.connectors.files.test_extraction import pdf
from knowledge_pipeline_tests.fakes.jira.server import JiraServer

PAGES = [Path(__file__).parents[1] / "docs" / name for name in ("extending.md", "extending-sources.md")]
BLOCK = re.compile(r"```\w+\n(?:#|--) (\S+)\n(.*?)```", re.DOTALL)
GROUP = re.compile(r'\[project\.entry-points\."([\w.]+)"\]\n((?:\w+ = .*\n)+)')


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The page's files in a folder that Python finds packages in, with what an installer writes."""
    folder = tmp_path_factory.mktemp("site")
    files = dict(BLOCK.findall("\n".join(page.read_text(encoding="utf-8") for page in PAGES)))
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "acme_knowledge" / "__init__.py").touch()
    groups = GROUP.findall(files["pyproject.toml"])
    assert len(groups) == 5
    points = "\n".join(f"[{group}]\n{lines.replace(chr(34), '')}" for group, lines in groups)
    info = folder / "acme_knowledge-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-knowledge\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(points)
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))
    for name in [name for name in sys.modules if name.startswith("acme_knowledge")]:
        del sys.modules[name]


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join((str(folder), str(Path(__file__).parents[1])))
    environment = {**os.environ, "PYTHONPATH": path, "KNOWLEDGE_CONFIG": "", "KNOWLEDGE_STORE": ""}
    return subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )


@pytest.mark.slow
def test_the_tests_of_the_page_pass(installed: Path):
    ran = run(installed, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_acme.py")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "3 passed" in ran.stdout


@pytest.mark.slow
def test_the_package_of_the_page_is_refreshed_and_searched(installed: Path):
    items = [
        {"title": "Doors", "body": "Show ACME-1234 at the north door."},
        {"title": "Tea", "body": "At four."},
    ]
    feeds = installed / "feeds"
    feeds.mkdir()
    (feeds / "office.json").write_text(json.dumps({"title": "Office", "section": "news", "items": items}))
    (feeds / "sport.json").write_text(json.dumps({"title": "Sport", "section": "sport", "items": items}))

    def knowledge(*arguments: str) -> Any:
        ran = run(installed, "-m", "knowledge_pipeline.cli", *arguments, "--json")
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return json.loads(ran.stdout)

    knowledge("sources", "test", "news")
    knowledge("refresh")
    found = knowledge("search", "door", "--source-type", "custom", "--label", "news")["results"]
    by_title = {each["citation"]["lines"]: each for each in found}
    assert len(by_title) == 2, "a chunk for each item, of the feed of the section alone"
    door = next(each for each in found if "door" in each["content"])
    assert door["content"] == "## Doors\n\nShow [REDACTED:badge] at the north door."
    assert door["metadata"]["reading_minutes"] == 1
    assert knowledge("sql", "long_reads")["rows"][0]["source"] == "news"
    assert "nothing" not in json.dumps(knowledge("status"))
    code = (
        "from knowledge_pipeline.definitions import defs; g = defs.resolve_asset_graph();"
        "print(sorted(k.to_user_string() for k in g.get_all_asset_keys()))"
    )
    shown = run(installed, "-c", code)
    assert "custom/index" in shown.stdout, shown.stderr
    assert "marts/long_reads" in shown.stdout


def test_the_file_extractor_of_the_page_reads_files_and_attachments(installed: Path, tmp_path: Path):
    for name, text in {"a.vcf": "FN:Ada Lovelace", "b.vcf": "", "c.txt": "Fees"}.items():
        (tmp_path / name).write_text(text or "TEL:1")
    told = {"id": "a", "type": "files", "connection": {"type": "local", "path": str(tmp_path)}}
    told |= {"include": ["*.vcf", "*.txt"], "files": {"extractor": "acme_contacts"}}
    with open_source(SourceConfig.model_validate(told), cache=tmp_path) as source:
        first, broken, text = source.discover()
        assert [source.fetch(each).text for each in (first, text)] == ["- Ada Lovelace", "Fees"]
        with pytest.raises(DocumentSkipped, match="a card without a name"):
            source.fetch(broken)
    worker = ExtractionWorker(extractor="os:getcwd")
    with closing(worker), pytest.raises(DocumentSkipped, match="os:getcwd failed: TypeError"):
        worker("a.txt", b"text")
    with pytest.raises(ConfigError, match=r"has a file extractor 'none'.*correct files\.extractor"):
        open_source(SourceConfig.model_validate(told | {"files": {"extractor": "none"}}), cache=tmp_path)
    jira = {"id": "b", "type": "jira", "connection": {"type": "jira", "url": "https://jira.example.org"}}
    with pytest.raises(ValidationError, match="set attachments too"):
        SourceConfig.model_validate(jira | {"files": {"extractor": "acme_contacts"}})
    tickets = SourceConfig.model_validate(
        jira | {"files": {"extractor": "acme_contacts"}, "attachments": {"include": ["*.vcf"]}}
    )
    with JiraServer(cloud=True) as server, open_attachment_reader(tickets) as reader:
        assert reader is not None
        uri = server.create("Fees", "Who knows?")
        server.attach(uri, "ada.vcf", b"FN:Ada Lovelace")
        server.attach(uri, "left.txt", b"out")
        api = JiraTickets(server.connection())
        [(_, ticket)] = api.fetch_many(list(api.discover()))
        assert isinstance(ticket, Document)
        [(item, attachment)] = reader.list_items(ticket)
        assert reader.read(api, item, attachment).text == "- Ada Lovelace"
        api.close()


def test_pictures_are_read_by_the_page_where_tesseract_is_installed(installed: Path):
    pytest.importorskip("pytesseract")
    image, draw = pytest.importorskip("PIL.Image"), pytest.importorskip("PIL.ImageDraw")
    if shutil.which("tesseract") is None:
        pytest.skip("tesseract is not installed")
    from acme_knowledge.scans import read_scan  # pyright: ignore[reportMissingImports]

    picture, out = image.new("RGB", (400, 100), "white"), io.BytesIO()
    draw.Draw(picture).text((20, 20), "FEES", fill="black", font_size=50)
    picture.save(out, "PNG")
    assert "FEES" in read_scan("a.png", out.getvalue())
    assert read_scan("a.txt", b"") is None


def test_layouts_are_read_by_the_page_where_docling_is_installed(installed: Path):
    pytest.importorskip("docling")
    from acme_knowledge.layouts import read_layout  # pyright: ignore[reportMissingImports]

    assert "Fees" in read_layout("a.pdf", pdf("Fees are waived."))


def test_names_are_found_by_the_page_where_presidio_is_installed(installed: Path):
    pytest.importorskip("presidio_analyzer")
    pytest.importorskip("en_core_web_lg")
    from acme_knowledge.people import find_people  # pyright: ignore[reportMissingImports]

    check_sanitizer(find_people, ["My name is Ada Lovelace."], hidden=["Lovelace"])


def custom(**connection: Any) -> SourceConfig:
    return SourceConfig.model_validate(
        {"id": "a", "type": "custom", "connection": {"type": "custom", **connection}}
    )


class BrokenSource(EmptySource):
    def __init__(self, settings: Any) -> None:
        raise KeyError("host")


class NoSource:
    settings_model = EmptySource.settings_model

    def __init__(self, settings: Any) -> None: ...


class FaultySource(EmptySource):
    """Lists and gives what no source may."""

    items: tuple[Any, ...] = (Item("a", "1"),)
    document: Any = Document("a", "text")

    def discover(self) -> Iterator[Item]:
        yield from self.items

    def fetch(self, item: Item) -> Document:
        return self.document


HERE = "knowledge_pipeline_tests.test_extending"


def test_what_is_wrong_with_a_package_is_one_sentence_that_names_it(installed: Path, tmp_path):
    refused = {
        "acme_feed": r"no installed package has a source 'acme_feed' \(found: acme_feeds\): correct connec",
        "nowhere.x:Y": r"the source 'nowhere\.x:Y' cannot be imported \(ModuleNotFoundError",
        f"{HERE}:Nothing": "has no class 'Nothing': correct connection.use",
        f"{HERE}:BrokenSource": r"cannot be opened \(KeyError: 'host'\): correct connection\.settings",
        f"{HERE}:NoSource": r"is no knowledge_pipeline\.extending\.Source",
        f"{HERE}:run": "has no settings_model",
    }
    for name, message in refused.items():
        with pytest.raises(ConfigError, match=message):
            open_source(custom(use=name), cache=tmp_path)
    secret = {"path": 3, "secton": "s3cret"}
    with pytest.raises(
        ConfigError, match=r"'acme_feeds' of acme-knowledge 1\.0 refuses its settings"
    ) as wrong:
        open_source(custom(use="acme_feeds", settings=secret), cache=tmp_path)
    assert "connection.settings.secton: Extra inputs are not permitted" in str(wrong.value)
    assert "s3cret" not in str(wrong.value) + repr(custom(use="acme_feeds", settings=secret))


def test_a_source_that_gives_what_it_may_not_is_refused(tmp_path, monkeypatch):
    def read(**faults: Any) -> list[Document]:
        for name, value in faults.items():
            monkeypatch.setattr(FaultySource, name, value)
        with open_source(custom(use=f"{HERE}:FaultySource"), cache=tmp_path) as opened:
            return [opened.fetch(item) for item in opened.discover()]

    assert read() == [Document("a", "text")]
    one = (Item("a", "1"),)
    faults: list[tuple[dict[str, Any], str]] = [
        ({"items": ("a",)}, "discover of the source .* failed .*no Item"),
        ({"items": (*one, *one)}, "it listed 'a' twice"),
        ({"items": one, "document": "text"}, "no Document with the uri 'a'"),
        ({"items": one, "document": Document("b", "text")}, "no Document with the uri 'a'"),
        ({"items": one, "document": Document("a", None)}, "text of 'a' is NoneType, not text"),  # type: ignore[arg-type]
        ({"items": one, "document": Document("a", "x", metadata={"page": "x"})}, "page, which is reserved"),
    ]
    small = {"max_bytes": 3, **custom(use=f"{HERE}:FaultySource").model_dump(exclude={"max_bytes"})}
    monkeypatch.setattr(FaultySource, "items", one)
    monkeypatch.setattr(FaultySource, "document", Document("a", "text"))
    opened = open_source(SourceConfig.model_validate(small), cache=tmp_path)
    with opened, pytest.raises(DocumentSkipped, match=r"larger than 3 bytes \(4\)"):
        opened.fetch(one[0])
    for fault, message in faults:
        with pytest.raises(SourceRefused, match=message):
            read(**fault)


def cut_badly(measured: Any, chunking: Any, limits: Any) -> Iterator[ChunkSpan]:
    yield ChunkSpan(0, 10_000)


def lose_the_end(measured: Any, chunking: Any, limits: Any) -> Iterator[ChunkSpan]:
    yield ChunkSpan(0, 3)


def find_too_much(text: str) -> Iterator[Finding]:
    yield Finding(0, len(text) + 1, "all")


def fail(*_: Any) -> Any:
    raise RuntimeError("out of order")


def test_a_chunker_that_fails_loses_no_document():
    for name, reason in (
        ("cut_badly", r"\[0, 10000\) is no span of 12 characters"),
        ("fail", "out of order"),
    ):
        source = SourceConfig.model_validate(
            {
                **{"id": "a", "type": "custom", "connection": {"type": "custom", "use": "x"}},
                "chunking": {"custom": f"{HERE}:{name}"},
            }
        )
        chunks = chunk_document(
            Document("a", "Some of this"), source, tokenize=lambda text: [0], model_tokens=99
        )
        assert [chunk.text for chunk in chunks] == ["Some of this"]
        assert re.search(reason, chunks[0].metadata["note"])
    with pytest.raises(ValueError, match="custom and strategy both say"):
        custom(use="x").model_validate(
            custom(use="x").model_dump() | {"chunking": {"custom": "x", "strategy": "sentence"}}
        )


def test_a_sanitizer_that_fails_lets_no_text_through(installed: Path):
    settings = custom(use="x").sanitize
    for name in ("find_too_much", "fail"):
        broken = settings.model_copy(update={"custom": (f"{HERE}:{name}",)})
        with pytest.raises(SanitizerFailed, match=f"the sanitizer {HERE}:{name} "):
            sanitize("a text", broken)
    own = settings.model_copy(update={"custom": ("acme_badges",)})
    assert sanitize("ask ACME-1234", own).text == "ask [REDACTED:badge]"
    assert "acme-knowledge 1.0" in fingerprint(own) != fingerprint(settings)


def test_the_kit_finds_what_is_wrong(installed: Path):
    documents = [Document("a", "Some of this")]
    badges = load_plugin("sanitizer", "acme_badges", key="").value
    with pytest.raises(AssertionError, match="is no span of 12 characters"):
        check_chunker(cut_badly, documents)
    with pytest.raises(AssertionError, match="are in no chunk, the first at 3"):
        check_chunker(lose_the_end, documents)
    with pytest.raises(AssertionError, match="it gives list for 'a'"):
        check_extractor(lambda document, chunk: [], documents)  # type: ignore[arg-type, return-value]
    with pytest.raises(AssertionError, match="'Bob' stays"):
        check_sanitizer(badges, ["Bob has ACME-1234"], hidden=["Bob"])


def test_an_entry_point_is_a_name_beside_module_and_function():
    with pytest.raises(ConfigError, match="no installed package has a metadata extractor 'x'"):
        load_plugin("extractor", "x", key="metadata.custom")
    assert issubclass(EmptySource, Source)
    assert issubclass(DocumentSkipped, Exception)


def test_a_chunker_is_checked_with_the_settings_that_are_asked_for():
    seen: set[int | None] = set()

    def chunk_whole(
        measured: MeasuredDocument, settings: ChunkingSettings, limits: TokenLimits
    ) -> Iterator[ChunkSpan]:
        seen.add(settings.max_tokens)
        yield ChunkSpan(0, len(measured.document.text))

    document = Document(uri="note", text="two words", path="note")
    check_chunker(chunk_whole, [document], chunking=ChunkingSettings(max_tokens=40))
    assert seen == {40}
