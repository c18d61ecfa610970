"""Exit codes, errors, interruption, start-up: the command as a program."""

from __future__ import annotations

import json
import os
import pty
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import knowledge_pipeline
from knowledge_pipeline.cli import exit_codes
from knowledge_pipeline.cli.session import WrongUsage
from knowledge_pipeline.errors import Busy, ConfigError, InvalidQuery, NotFound, SourceRefused, StoreError
from knowledge_pipeline_tests.cli.conftest import Run, list_imports
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer

HEAVY = {
    *("torch", "sentence_transformers", "transformers", "lancedb", "lance", "pyarrow", "pandas", "numpy"),
    *("dagster", "duckdb", "rich", "tree_sitter", "httpx2", "ruamel.yaml"),
}


def test_programs_that_tests_start_run_the_package_under_test(tmp_path: Path):
    """Another checkout's program writes other fingerprints, which a refresh by this one replaces."""
    command = [sys.executable, "-c", "import knowledge_pipeline; print(knowledge_pipeline.__file__)"]
    done = subprocess.run(command, cwd=tmp_path, env=dict(os.environ), check=True, capture_output=True)
    assert os.fsdecode(done.stdout).strip() == knowledge_pipeline.__file__


def test_help_imports_nothing_heavy():
    shown = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "knowledge_pipeline.cli", "search", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    imported = list_imports(shown.stderr)
    assert "knowledge_pipeline.cli.filter_options" in imported
    assert HEAVY & imported == set()


def test_the_list_of_commands_imports_none_of_them():
    program = (
        "import sys\nfrom typer.testing import CliRunner\nfrom knowledge_pipeline.cli.app import app\n"
        "CliRunner().invoke(app, [sys.argv[1]])\n"
        "commands = 'context graph quality refresh releases search serve sources sql'.split()\n"
        "commands += 'status store watch'.split()\n"
        "print([name for name in commands if f'knowledge_pipeline.cli.{name}' in sys.modules])"
    )
    names = [
        subprocess.run(
            [sys.executable, "-c", program, option], capture_output=True, text=True, check=True
        ).stdout
        for option in ("--help", "status")
    ]
    assert names == ["[]\n", "['status']\n"]


def test_the_version_is_printed(run: Run):
    assert run("--version").out.startswith("knowledge 0.")


def test_without_a_command_the_help_is_shown_and_that_is_wrong_usage(run: Run):
    assert "Commands:" in run(code=2).err
    assert "remove" in run("sources", code=2).err


def test_an_unknown_command_or_option_is_told_in_one_line(run: Run):
    unknown = run("serch", "x", code=2).err
    assert unknown.startswith("error: No such command 'serch'") and unknown.count("\n") == 1
    assert run("status", "--jsn", code=2).err.count("\n") == 1
    assert run("serch", "--json", code=2).error["exit_code"] == 2


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError(""), 2),
        (WrongUsage(""), 2),
        (InvalidQuery(""), 2),
        (NotFound(""), 3),
        (Busy(""), 4),
        (SourceRefused(""), 1),
        (StoreError(""), 1),
        (OSError(), 1),
        (ZeroDivisionError(), 1),
    ],
)
def test_every_kind_of_error_has_its_code(error: Exception, code: int):
    assert exit_codes.exit_code_of(error) == code


def test_of_several_failures_a_permanent_one_decides():
    assert exit_codes.exit_code_of_failures([]) == 0
    assert exit_codes.exit_code_of_failures([Busy("")]) == 4
    assert exit_codes.exit_code_of_failures([Busy(""), SourceRefused("")]) == 1


def test_an_unforeseen_error_is_one_line_and_its_traceback_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    error = ZeroDivisionError("by \x1b[2Jzero")
    assert exit_codes.report_error(error, []) == 1
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and r"ZeroDivisionError: by \x1b[2Jzero" in told
    (kept,) = tmp_path.rglob("last-error.txt")
    assert str(kept) in told and "ZeroDivisionError" in kept.read_text()
    assert kept.stat().st_mode & 0o077 == 0
    exit_codes.report_error(error, ["--debug"])
    assert "this may be a bug" not in capsys.readouterr().err


def test_an_error_of_the_disk_names_the_file(capsys: pytest.CaptureFixture[str]):
    exit_codes.report_error(PermissionError(13, "Permission denied", "tables/x"), ["--json"])
    assert json.loads(capsys.readouterr().err)["error"].startswith("tables/x: Permission denied: check")


def test_flags_behind_two_dashes_are_no_flags():
    assert exit_codes.parse_flags(["search", "--", "--json"]) == {"search"}


def test_a_wrong_file_is_told_with_its_lines(home: Path, run: Run):
    (home / "knowledge.yaml").write_text("version: 1\nsorces: []\n")
    assert "knowledge.yaml:2: " in run("status", code=2).err
    assert "knowledge.yaml:2: " in run("status", "--json", code=2).error["error"]


@pytest.mark.slow
def test_an_interrupted_index_says_so_and_goes_on_next_time(
    home: Path, repository: Path, run_program: Run, embedding_server: OpenAIServer
):
    config = home / "knowledge.yaml"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(240)
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        patient = f"{url}\n  timeout_s: 600"
        config.write_text(config.read_text().replace(embedding_server.url, patient))
        program = subprocess.Popen(
            [sys.executable, "-m", "knowledge_pipeline.cli", "index", "--repo", str(repository)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with silent.accept()[0] as request:
            assert request.recv(4) == b"POST"
            program.send_signal(signal.SIGINT)
            _, told = program.communicate(timeout=120)  # the endpoint would have been waited for for longer
    assert program.returncode == 130
    assert told.splitlines()[-1].startswith("error: interrupted: what was finished is kept")
    assert "Traceback" not in told
    config.write_text(config.read_text().replace(patient, embedding_server.url))
    assert run_program("refresh", "--json").json["failures"] == []


@pytest.mark.slow
def test_a_closed_pipe_ends_the_program_quietly(indexed: Path):
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "knowledge_pipeline.cli", "search", "session"],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(writer)
    assert "Traceback" not in done.stderr and "Exception" not in done.stderr


def on_a_terminal(*arguments: str, typed: bytes = b"") -> str:
    """What a person sees on a terminal of 100 columns; `typed` is sent at once."""
    main, terminal = pty.openpty()
    program = subprocess.Popen(
        [sys.executable, "-m", "knowledge_pipeline.cli", *arguments],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "100"},
    )
    os.close(terminal)
    os.write(main, typed)
    seen = b""
    while True:
        try:
            part = os.read(main, 65536)
        except OSError:  # Linux says so when the other side is closed
            break
        seen += part
        if not part:
            break
    os.close(main)
    program.wait(240)
    return seen.decode()


@pytest.mark.slow
def test_on_a_terminal_there_are_bars_colours_and_questions(indexed: Path, shop: Path):
    (shop / "docs" / "new.md").write_text("# New\n\nEscape \x1b[2J and [red]markup[/red] :smile:\n")
    seen = on_a_terminal("refresh")
    assert "starting" in seen and "Release 2 is live" in seen
    seen = on_a_terminal("search", "escape markup", "--limit", "1")
    assert "\x1b[1;36m1. docs/new.md" in seen
    assert "\x1b[2J" not in seen and r"\x1b[2J" in seen and "[red]markup[/red]" in seen and ":smile:" in seen
    seen = on_a_terminal("purge", "--source", "shop-docs", typed=b"n\n")
    assert "[y/N]" in seen and "Nothing was done" in seen
    seen = on_a_terminal("purge", "--source", "shop-docs", typed=b"y\n")
    assert "Erased 2 documents of shop-docs" in seen


def test_on_a_terminal_an_address_is_asked_for(home: Path, repository: Path):
    seen = on_a_terminal("sources", "add", "code", typed=f"{repository}\n".encode())
    assert "Folder, or address of a git repository" in seen and "Added shop-code" in seen
