"""Which Python `make` takes, and that the versions agree. The Pythons are scripts that say a version."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SUPPORTED = [name.rpartition(" ")[2] for name in PROJECT["classifiers"] if " :: Python :: 3." in name]

_SCRIPT = """#!/bin/sh
case "$1 $2" in
    "-c "*version_info*) echo {version} ;;
    "-c "*ensurepip*) exit {lacks_venv} ;;
    "-m venv") for folder; do :; done
        if [ "$3" = --clear ]; then rm -r "$folder"; fi
        mkdir -p "$folder/bin" && cp "$0" "$folder/bin/python" && touch "$folder/pyvenv.cfg" ;;
    "-m pip") exit 0 ;;
esac
"""
_SHIM = "#!/bin/sh\necho 'pyenv: python: command not found' >&2\nexit 127\n"


class Machine:
    """Folders on the path, with Pythons in them, and a folder for pyenv."""

    def __init__(self, root: Path) -> None:
        self.root, self.venv = root, root / "venv"
        for folder in ("shims", "bin", "tools"):
            self.add(folder)
        for tool in ("dirname", "sed", "grep", "tail", "tr", "cp", "mkdir", "rm", "touch"):
            (root / "tools" / tool).symlink_to(shutil.which(tool) or f"/usr/bin/{tool}")

    def add(self, folder: str, *names: str, text: str = _SHIM) -> None:
        (self.root / folder).mkdir(parents=True, exist_ok=True)
        for name in names:
            (self.root / folder / name).write_text(text)
            (self.root / folder / name).chmod(0o755)

    def add_python(self, version: str, name: str, folder: str = "bin", *, has_venv: bool = True) -> None:
        self.add(folder, name, text=_SCRIPT.format(version=version, lacks_venv=0 if has_venv else 1))

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        folders = [str(self.root / each) for each in ("shims", "bin", "tools")]
        environment = {"PATH": os.pathsep.join(folders), "PYENV_ROOT": str(self.root / "pyenv")}
        return subprocess.run(
            ["/bin/sh", str(ROOT / ".ci" / "python"), *arguments],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def make_venv(self, *named: str) -> str:
        """Make the environment; returns what is said about it."""
        made = self.run("venv", str(self.venv), *named)
        assert made.returncode == 0, made.stderr
        return made.stderr

    @property
    def venv_version(self) -> str:
        script = (self.venv / "bin" / "python").read_text()
        return re.findall(r"echo (3\.\d+)", script)[0]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_python3_is_taken_where_it_is_supported(machine: Machine) -> None:
    machine.add_python("3.11", "python3")
    machine.add_python("3.13", "python3.13")
    assert machine.make_venv() == ""
    assert machine.venv_version == "3.11"


@pytest.mark.parametrize("version", ["3.10", "3.14", "2.7"])
def test_where_python3_is_not_supported_the_newest_that_runs_is_taken_and_named(
    machine: Machine, version: str
) -> None:
    machine.add_python(version, "python3")
    machine.add("shims", "python3.11", "python3.12", "python3.13")  # of pyenv, and not active
    machine.add_python("3.11", "python3.11")
    machine.add_python("3.12", "python3.12")
    machine.add_python("3.13", "python3.13", has_venv=False)
    said = machine.make_venv()
    assert said == (
        f"Python 3.11, 3.12 or 3.13 is supported, and python3 is Python {version}: "
        f"taking {machine.root}/bin/python3.12\n"
    )
    assert machine.venv_version == "3.12"


def test_a_python_of_pyenv_is_found_where_its_shim_does_not_run(machine: Machine) -> None:
    machine.add("shims", "python3", "python3.13")
    machine.add_python("3.13", "python", "pyenv/versions/3.13.0/bin")
    assert "there is no python3 that runs: taking" in machine.make_venv()
    assert machine.venv_version == "3.13"


@pytest.mark.parametrize(
    ("prepare", "found"),
    [
        (lambda machine: None, "there is no python3 that runs"),
        (lambda machine: machine.add_python("3.10", "python3"), "python3 is Python 3.10"),
        (
            lambda machine: machine.add_python("3.12", "python3", has_venv=False),
            "python3 is Python 3.12 without venv",
        ),
    ],
)
def test_a_machine_without_a_supported_python_is_told_what_to_install(
    machine: Machine, prepare: Callable[[Machine], None], found: str
) -> None:
    prepare(machine)
    made = machine.run("venv", str(machine.venv))
    assert made.returncode == 1 and not machine.venv.exists()
    assert made.stderr == (
        "Install Python 3.11, 3.12 or 3.13 with venv (on Debian and Ubuntu, for example, the packages "
        f"python3.13 and python3.13-venv), or name one by PYTHON=PATH: {found}.\n"
    )


def test_a_python_that_is_named_must_be_supported(machine: Machine) -> None:
    machine.add_python("3.11", "python3")
    machine.add_python("3.14", "python3.14")
    for name, found in (("bin/python3.14", "is Python 3.14"), ("bin/none", "does not run")):
        made = machine.run("venv", str(machine.venv), str(machine.root / name))
        assert made.returncode == 1 and not machine.venv.exists()
        assert made.stderr == (
            f"Name a supported Python, 3.11, 3.12 or 3.13: PYTHON={machine.root / name} {found}.\n"
        )


def test_an_environment_stays_while_its_python_is_supported_and_is_made_anew_else(machine: Machine) -> None:
    machine.add_python("3.11", "python3")
    machine.make_venv()
    (machine.venv / "installed").touch()
    machine.add_python("3.12", "python3")
    machine.make_venv()
    assert machine.venv_version == "3.11" and (machine.venv / "installed").exists()
    machine.make_venv(str(machine.root / "bin" / "python3"))  # named: PYTHON=
    assert machine.venv_version == "3.12" and not (machine.venv / "installed").exists()
    (machine.venv / "bin" / "python").unlink()  # the system's Python was upgraded
    machine.make_venv()
    assert machine.venv_version == "3.12"


def test_each_version_is_listed_once_and_oldest_first(machine: Machine) -> None:
    machine.add_python("3.13", "python3")
    machine.add_python("3.13", "python3.13")
    machine.add_python("3.11", "python3.11")
    machine.add_python("3.10", "python3.10")
    assert machine.run("list").stdout.split() == [
        f"{machine.root}/bin/python3.11",
        f"{machine.root}/bin/python3",
    ]


def test_the_readme_and_the_requirement_name_the_supported_versions() -> None:
    minors = [int(version.partition(".")[2]) for version in SUPPORTED]
    assert minors == list(range(minors[0], minors[-1] + 1))
    assert PROJECT["requires-python"] == f">=3.{minors[0]},<3.{minors[-1] + 1}"
    assert f"Python {', '.join(SUPPORTED[:-1])} or {SUPPORTED[-1]}" in (ROOT / "README.md").read_text("utf-8")
