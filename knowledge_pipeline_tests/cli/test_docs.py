"""docs/cli.md is true, and every command has help, an example, and its place there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import cogapp
import pytest
import typer

from knowledge_pipeline.cli.app import SUMMARIES, app
from knowledge_pipeline.contract.filters import SearchType, SourceType, TaskKind
from knowledge_pipeline_tests.cli.conftest import Run

DOCS = Path(__file__).parents[2] / "docs" / "cli.md"


def commands() -> Iterator[tuple[str, ...]]:
    top = typer.main.get_command(app)
    for name, command in top.commands.items():
        yield (name,)
        for inner in getattr(command, "commands", ()):
            yield (name, inner)


def command_of(path: tuple[str, ...]):
    command = typer.main.get_command(app)
    for name in path:
        command = command.commands[name]
    return command


def test_the_help_in_the_docs_is_the_program_s_own():
    assert cogapp.Cog().main(["cog", "--check", str(DOCS)]) == 0


@pytest.mark.parametrize("path", list(commands()), ids=" ".join)
def test_every_command_has_help_an_example_and_its_place_in_the_docs(path: tuple[str, ...]):
    command = command_of(path)
    assert command.help
    assert f"show_help({', '.join(f'{name!r}' for name in path)})".replace("'", '"') in DOCS.read_text()
    if not hasattr(command, "commands"):
        assert f"knowledge {' '.join(path)}" in command.epilog


@pytest.mark.parametrize("name", SUMMARIES)
def test_the_list_of_commands_has_the_first_line_of_each_one_s_help(name: str):
    assert command_of((name,)).help.partition("\n")[0] == SUMMARIES[name]


@pytest.mark.parametrize("path", list(commands()), ids=" ".join)
def test_every_option_is_explained(path: tuple[str, ...]):
    assert [
        parameter.name for parameter in command_of(path).params if not getattr(parameter, "help", "x")
    ] == []


def test_the_commands_are_these():
    assert [" ".join(path) for path in commands()] == [
        *("init", "index", "refresh", "reindex", "push", "watch"),
        *("search", "similar", "get", "related", "debug"),
        "context",
        *(
            "eval",
            "tune",
            "feedback",
            "doctor",
            "status",
            "export",
            "releases",
            "rollback",
            "purge",
            "maintain",
            "verify",
            "migrate",
            "publish",
            "sql",
        ),
        *("costs", "costs report"),
        "serve",
        *("mcp", "mcp install"),
        "graph",
        *("graph usages", "graph references", "graph calls", "graph hierarchy"),
        *("graph dependencies", "graph impact", "graph related"),
        *("graph route", "graph topic", "graph table", "graph variable", "graph flag"),
        *("sources", "sources list", "sources add", "sources remove", "sources test", "sources discover"),
        *("hooks", "hooks install", "hooks remove", "hooks run"),
        *("token", "token create", "token list", "token revoke"),
    ]


@pytest.mark.parametrize(
    ("path", "choices"),
    [(("search",), SearchType), (("debug",), SearchType), (("context",), TaskKind)],
)
def test_the_choices_are_those_of_the_contract(path: tuple[str, ...], choices: object, run: Run):
    assert f"<{'|'.join(get_args(choices))}>" in "".join(run(*path, "--help").out.split())


def test_the_types_of_sources_are_those_of_the_contract(run: Run):
    assert ", ".join(get_args(SourceType)) in " ".join(run("sources", "add", "--help").out.split())
    refused = run("sources", "add", "nope", code=2).err
    assert all(f"'{kind}'" in refused for kind in get_args(SourceType))
