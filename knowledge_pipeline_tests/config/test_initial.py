from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from knowledge_pipeline.config import file
from knowledge_pipeline.config.edit import (
    add_source,
    remove_source,
    render_initial_config,
    write_initial_config,
)
from knowledge_pipeline.config.sources import SourceConfig
from knowledge_pipeline.errors import ConfigError


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch):
    for name in ("CONFIG", "STORE", "EMBEDDING_MODE"):
        monkeypatch.delenv(f"KNOWLEDGE_{name}", raising=False)


def sources(path: Path) -> dict[str, SourceConfig]:
    return {source.type: source for source in file.load_settings(path).sources}


@pytest.fixture
def folder(tmp_path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "main.py").write_text("x = 1\n")
    (tmp_path / "README.md").write_text("# Title\n")
    (tmp_path / "api.yml").write_text("# an API\ninfo: {}\nopenapi: 3.1.0\n")
    (tmp_path / "paper.PDF").write_bytes(b"%PDF-1.7")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    return tmp_path


def test_all_that_is_there_is_declared(folder):
    path = folder / "knowledge.yaml"
    write_initial_config(path, folder)
    found = sources(path)
    assert list(found) == ["code", "markdown", "openapi", "git_history", "files"]
    assert {source.connection.path for source in found.values()} == {folder}
    assert found["files"].include == ("*.pdf", "*.docx", "*.pptx", "*.xlsx")


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("a.go", "", "code"),
        ("a.rst", "", "markdown"),
        ("README", "", "markdown"),
        ("a.json", '{\n  "swagger": "2.0"}', "openapi"),
        ("a.json", '{"openapi": "3.0.1"}', "openapi"),
        ("a.json", '{"components": "' + "x" * 100_000 + '", "openapi": "3.0.1"}', "openapi"),
        ("a.docx", "", "files"),
        ("com/acme/vendor/A.java", "", "code"),
    ],
)
def test_one_file_is_enough(tmp_path, name, content, kind):
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / name).write_text(content)
    write_initial_config(tmp_path / "knowledge.yaml", tmp_path)
    assert list(sources(tmp_path / "knowledge.yaml")) == [kind]


@pytest.mark.parametrize(
    "name", ["node_modules/a.js", "vendor/com/acme/A.java", ".hidden/a.py", "a.yaml", "x.bin", "pipe.yaml"]
)
def test_other_peoples_files_and_plain_ones_are_no_source(tmp_path, name):
    place = tmp_path / name
    place.parent.mkdir(parents=True, exist_ok=True)
    if name == "pipe.yaml":
        os.mkfifo(place)
    else:
        place.write_text("kind: openapi\n")
    write_initial_config(tmp_path / "knowledge.yaml", tmp_path)
    assert file.load_settings(tmp_path / "knowledge.yaml").sources == ()


def test_a_repository_by_url_is_read_from_there(tmp_path):
    url = "https://example.com/team/a b.git"
    write_initial_config(tmp_path / "knowledge.yaml", tmp_path, repository=url)
    found = sources(tmp_path / "knowledge.yaml")
    assert list(found) == ["code", "markdown", "openapi", "git_history"]
    assert {source.connection.url for source in found.values()} == {url}


def test_a_file_beside_the_folder_names_it_relatively(folder, tmp_path_factory):
    path = tmp_path_factory.mktemp("elsewhere") / "knowledge.yaml"
    write_initial_config(path, folder)
    assert str(folder) not in path.read_text()
    assert {source.connection.path for source in sources(path).values()} == {folder}


def test_a_name_with_every_odd_character_survives(tmp_path):
    odd = tmp_path / "a: #'\"\\é ${TMP} $x"
    odd.mkdir()
    (odd / "a.py").touch()
    write_initial_config(tmp_path / "knowledge.yaml", odd)
    assert sources(tmp_path / "knowledge.yaml")["code"].connection.path == odd


def test_a_password_in_the_url_is_refused_before_it_is_written(tmp_path):
    path = tmp_path / "knowledge.yaml"
    with pytest.raises(ConfigError, match="found a password or token inside a URL"):
        write_initial_config(path, tmp_path, repository="https://user:" + "hunter" + "2@example.com/a.git")
    assert not path.exists()


def test_an_existing_file_is_not_overwritten(folder):
    path = folder / "knowledge.yaml"
    path.write_text("# mine\n")
    with pytest.raises(ConfigError, match="exists already"):
        write_initial_config(path, folder)
    assert path.read_text() == "# mine\n"


@pytest.mark.parametrize("missing", ["nope", "README.md"])
def test_what_is_no_folder_is_said(folder, missing):
    with pytest.raises(ConfigError, match="is not a folder"):
        render_initial_config(folder / missing)


def test_a_first_file_can_be_edited(folder):
    path = folder / "knowledge.yaml"
    write_initial_config(path, folder)
    first = path.read_text()
    add_source(path, {"id": "new", "type": "files", "connection": {"type": "local", "path": "."}})
    assert "\n\n  - id: new\n" in path.read_text()
    remove_source(path, "new")
    assert path.read_text() == first


def test_a_first_file_of_an_empty_folder_can_be_edited(tmp_path):
    path = tmp_path / "knowledge.yaml"
    write_initial_config(path, tmp_path)
    add_source(path, {"id": "new", "type": "files", "connection": {"type": "local", "path": "."}})
    assert [source.id for source in file.load_settings(path).sources] == ["new"]
