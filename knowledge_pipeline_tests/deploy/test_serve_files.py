"""The files of deploy/serve/ start what there is."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from knowledge_pipeline.cli.app import app
from knowledge_pipeline_tests.fakes.storage import ROOT

SERVE = ROOT / "deploy" / "serve"
UNIT = SERVE / "knowledge-serve.service"


def commands() -> dict[str, list[str]]:
    """What each file starts."""
    unit = re.search(r"^ExecStart=(.+)$", UNIT.read_text(), re.MULTILINE)
    image = re.search(r"^CMD (\[.+\])$", (SERVE / "Dockerfile").read_text(), re.MULTILINE)
    assert unit
    assert image
    return {"unit": shlex.split(unit[1]), "image": json.loads(image[1])}


@pytest.mark.parametrize("file", ["unit", "image"])
def test_the_command_is_one_that_the_program_has(file: str, tmp_path: Path) -> None:
    program, *arguments = commands()[file]
    assert Path(program).name == "knowledge"
    path = tmp_path / "knowledge.yaml"
    path.write_text("version: 1\nserve: {port: -1}\nsources: []\n")
    placed = [str(path) if argument.endswith("knowledge.yaml") else argument for argument in arguments]
    refused = CliRunner().invoke(app, placed, prog_name="knowledge")
    assert refused.exit_code == 2
    assert "serve.port" in refused.stderr  # it came as far as reading the settings


def test_the_image_has_the_extras_that_it_installs_and_copies_what_there_is() -> None:
    text = (SERVE / "Dockerfile").read_text()
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    installed = re.search(r"^ARG EXTRAS=([\w,]+)$", text, re.MULTILINE)
    assert installed and '-e ".[${EXTRAS}]"' in text
    assert set(installed[1].split(",")) <= set(extras)
    copied = [name for line in re.findall(r"^COPY (.+)$", text, re.MULTILINE) for name in line.split()[:-1]]
    assert [name for name in copied if not (ROOT / name).exists()] == []


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed")
def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    unit = tmp_path / UNIT.name
    program = tmp_path / "knowledge"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit.write_text(UNIT.read_text().replace("/opt/knowledge/.venv/bin/knowledge", str(program)))
    found = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True)
    assert (found.returncode, found.stderr) == (0, "")
