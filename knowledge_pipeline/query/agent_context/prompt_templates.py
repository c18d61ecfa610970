"""Renders prompts with Jinja2 in a sandbox. Quoted content is only ever a value, never a template.

A template is a file, or a name: of a template in the folder `context.templates`, else in this package.
A template can run forever, so a service takes only names from its callers.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from knowledge_pipeline.errors import ConfigError, InvalidQuery

if TYPE_CHECKING:
    from jinja2 import Environment, Template

SUFFIX = ".j2"
MAX_PIECES = 1_000_000  # of text that a template may produce, so that its loops end

_PACKAGE_TEMPLATES = Path(__file__).parent / "templates"
_NAME = re.compile(r"\w[\w.-]*")
_FENCE = re.compile(r"`{3,}")
_LANGUAGE = re.compile(r"[\w+#-]{1,20}")


def load_template(template: str | Path, folder: Path | None) -> PromptTemplate:
    """Load a template by name, with or without `.j2`, or by path; the folder is `context.templates`.

    Raises:
        InvalidQuery: there is no such template, or it is wrong.
        ConfigError: the folder does not exist.
    """
    from jinja2 import TemplateError, TemplateNotFound

    if folder is not None and not folder.is_dir():
        raise ConfigError(f"the folder {folder} does not exist: correct context.templates")
    folders = tuple(filter(None, (folder, _PACKAGE_TEMPLATES)))
    if isinstance(template, Path):
        name, folders = template.name, (template.expanduser().absolute().parent, *folders)
    else:
        name = template if template.endswith(SUFFIX) else f"{template}{SUFFIX}"
    if not isinstance(template, Path) and not _NAME.fullmatch(name):
        raise InvalidQuery(f"found the template {template!r}; allowed: {_list_template_names(folders)}")
    try:
        return PromptTemplate(name, _build_environment(folders).get_template(name))
    except TemplateNotFound as error:
        if error.name != name:
            raise InvalidQuery(_describe_error(name, error)) from error
        place = "no such file" if isinstance(template, Path) else f"known are {_list_template_names(folders)}"
        raise InvalidQuery(f"there is no template {str(template)!r}: {place}") from error
    except (TemplateError, OSError, UnicodeDecodeError) as error:
        raise InvalidQuery(_describe_error(name, error)) from error


def list_template_names(folder: Path | None) -> list[str]:
    """The names that `load_template` knows; the folder is `context.templates`."""
    return _list_names(tuple(filter(None, (folder, _PACKAGE_TEMPLATES))))


def render_query(text: str, place: str, values: Mapping[str, Any]) -> str:
    """Render a template that is written in `knowledge.yaml`; `place` says where, for its errors.

    Raises:
        ConfigError: the template is wrong.
    """
    from jinja2 import TemplateError

    try:
        template = _build_environment((_PACKAGE_TEMPLATES,)).from_string(text)
        return " ".join(PromptTemplate(place, template).render(values).split())
    except (TemplateError, InvalidQuery) as error:
        raise ConfigError(f"{place} is wrong: {to_one_line(error)}") from error


class PromptTemplate:
    """A loaded template."""

    def __init__(self, name: str, template: Template) -> None:
        self.name = name
        self._template = template

    @property
    def is_built_in(self) -> bool:
        """Whether it is of this package: another says itself what a small budget shows."""
        return Path(self._template.filename or "").parent == _PACKAGE_TEMPLATES

    def render(self, values: Mapping[str, Any]) -> str:
        """Render the template with some values.

        Raises:
            InvalidQuery: the template is wrong: it uses an unknown name, or produces too much text.
        """
        pieces: list[str] = []
        try:
            for piece in self._template.generate(**values):
                pieces.append(piece)
                if len(pieces) > MAX_PIECES:
                    raise OverflowError(f"it makes more than {MAX_PIECES:,} pieces of text")
        except Exception as error:  # a template can raise anything: it divides, indexes, calls
            raise InvalidQuery(_describe_error(self.name, error)) from error
        return "".join(pieces)


@lru_cache(maxsize=16)
def _build_environment(folders: tuple[Path, ...]) -> Environment:
    from jinja2 import FileSystemLoader, StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(
        loader=FileSystemLoader(folders),
        autoescape=False,  # a prompt is text, not HTML
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"fenced": fence_text, "one_line": to_one_line}
    return environment


def fence_text(text: str, language: str | None = None) -> str:
    """The text as a Markdown code block, with a fence longer than any in the text."""
    longest = max(map(len, _FENCE.findall(text)), default=2)
    fence = "`" * (longest + 1)
    named = language if language and _LANGUAGE.fullmatch(language) else ""
    return f"{fence}{named}\n{text}\n{fence}"


def to_one_line(text: Any) -> str:
    """The text on one line, without control characters: a title or path cannot open a section of its own."""
    return " ".join("".join(char if char.isprintable() else " " for char in str(text)).split())


def _list_template_names(folders: tuple[Path, ...]) -> str:
    return ", ".join(_list_names(folders))


def _list_names(folders: tuple[Path, ...]) -> list[str]:
    names = {path.stem for folder in folders for path in folder.glob(f"*{SUFFIX}")}
    return sorted(names - {"base", "passages"})


def _describe_error(name: str, error: Exception) -> str:
    """One sentence: `the template my.j2, line 3, is wrong: 'tsk' is undefined`."""
    line = getattr(error, "lineno", None)
    if line is None:
        frames = traceback.extract_tb(error.__traceback__)
        line = next((frame.lineno for frame in reversed(frames) if Path(frame.filename).name == name), None)
    where = f", line {line}," if line else ""
    reason = getattr(error, "message", None) or str(error) or type(error).__name__
    return f"the template {name}{where} is wrong: {to_one_line(reason).rstrip('.')}"
