"""The pages of the documentation: their links lead somewhere, and none but a reference is long."""

from __future__ import annotations

import re
import shlex
import textwrap
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from knowledge_pipeline.cli.app import app

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md", "deploy/**/*.md")
    for path in ROOT.glob(pattern)
    if not any(part.startswith(".") for part in path.relative_to(ROOT).parts)
    and path.name != "CHANGELOG.md"  # a version's entry names the pages of its time
)
REFERENCES = {"cli.md", "configuration.md", "http.md", "specification.md", "sql.md"}
LINK = re.compile(r"\]\(([^()\s]+(?:\([^()\s]*\))?)\)")
CODE = re.compile(r"^ *```.*?^ *```|<!--.*?-->|`[^`\n]+`", re.MULTILINE | re.DOTALL)


@cache
def list_anchors(page: Path) -> frozenset[str]:
    """The anchors that GitHub gives to the headings of a page."""
    seen: Counter[str] = Counter()
    anchors: set[str] = set()
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for heading in re.findall(r"^#+ (.+?)\s*$", text, re.MULTILINE):
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        anchor = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
        anchors.add(f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor)
        seen[anchor] += 1
    return frozenset(anchors)


def list_broken_links(page: Path) -> list[str]:
    """The links of a page to files and headings that do not exist."""
    broken: list[str] = []
    for target in LINK.findall(CODE.sub("", page.read_text(encoding="utf-8"))):
        path, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in list_anchors(file)):
            broken.append(target)
    return broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(page: Path) -> None:
    assert list_broken_links(page) == []


def test_a_broken_link_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# One\n\n[a](#one) [b](#two) [c](gone.md) [d](page.md#one) `[e](gone.md)` [f](https://a.example)\n"
    )
    assert list_broken_links(page) == ["#two", "gone.md"]


def test_every_page_is_linked_from_the_readme_or_another_page() -> None:
    linked = {
        (page.parent / target.partition("#")[0]).resolve()
        for page in PAGES
        for target in LINK.findall(page.read_text(encoding="utf-8"))
        if target.partition("#")[0]
    }
    assert [str(page) for page in PAGES if "docs" in page.parts and page not in linked] == []


def test_no_page_but_a_reference_is_long() -> None:
    lengths = {
        page.name: len(page.read_text(encoding="utf-8").splitlines()) for page in ROOT.glob("docs/**/*.md")
    }
    assert {name: lines for name, lines in lengths.items() if lines > 300 and name not in REFERENCES} == {}
    assert lengths["benchmarks.md"] <= 250


def test_the_architecture_shows_every_layer() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = " ".join(project["tool"]["importlinter"]["contracts"][0]["layers"])
    names = {
        name.replace(".", "/") for name in re.findall(r"knowledge_pipeline\.((?:extensions\.)?\w+)", layers)
    }
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert sorted(name for name in names if f"`{name}` " not in page) == []
    documented = set(re.findall(r"`([\w/]+)` [\d,]+", page))
    assert sorted(documented - names) == []


COMMAND = re.compile(r"^(?:\$ )?(?:\S+/)?knowledge ((?:[^\\\n]|\\\n|\\.)+)", re.MULTILINE)


def iter_commands(text: str) -> Iterator[str]:
    """What follows `knowledge` in blocks of commands and in inline code."""
    text = re.sub("<!--.*?-->", "", text, flags=re.DOTALL)
    blocks = re.findall(r"^ *```(?:console|bash|sh)?\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL)
    inline = re.findall(
        r"`(knowledge [^`\n]+)`", re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)
    )
    for code in (*map(textwrap.dedent, blocks), *inline):
        yield from (command.replace("\\\n", " ") for command in COMMAND.findall(code))


def find_mistake(words: Iterator[str]) -> str | None:
    """The first command or option that does not exist."""
    command = typer.main.get_command(app)
    options = {"--help": False, **list_options(command)}
    for word in words:
        commands: dict[str, Any] = getattr(command, "commands", {})
        if word in ("|", ">", "&&", ";", "&", "--"):
            return None
        if re.match("--?[a-z]", word):
            name, _, value = word.partition("=")
            if name not in options:
                return word
            if options[name] and not value:
                next(words, None)
        elif commands:
            if word not in commands:
                return word
            command = commands[word]
            options |= list_options(command)
    return None


def list_options(command: Any) -> dict[str, bool]:
    """The options of a command, and whether each takes a value."""
    return {
        name: not getattr(parameter, "is_flag", False)
        for parameter in command.params
        for name in (*parameter.opts, *parameter.secondary_opts)
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_and_their_options_exist(page: Path) -> None:
    mistakes: list[str] = []
    for command in iter_commands(page.read_text(encoding="utf-8")):
        try:
            words = shlex.split(command, comments=True)
        except ValueError:
            words = command.split()
        if mistake := find_mistake(iter(words)):
            mistakes.append(f"{mistake}: knowledge {command}")
    assert mistakes == []


def test_a_wrong_command_and_a_wrong_option_are_seen() -> None:
    inline = "`knowledge serch x` `knowledge search --limits 3` `knowledge search -- --x`"
    commands = f"{inline}\n```\n$ knowledge mcp instal\n```\n"
    mistakes = [find_mistake(iter(shlex.split(command))) for command in iter_commands(commands)]
    assert mistakes == ["instal", "serch", "--limits", None]


def test_benchmarks_that_pages_name_exist() -> None:
    names = {
        name
        for page in PAGES
        for name in re.findall(r"\bpython -m benchmarks\.(\w+)", page.read_text("utf-8"))
    }
    assert len(names) > 20
    assert sorted(name for name in names if not (ROOT / "benchmarks" / f"{name}.py").is_file()) == []
