"""A project as resolving one file sees it: every question about other files is noted with its answer.

A file must be resolved again only if its own facts changed, or the answer to one of its
questions did: verifying traces, as in Mokhov, Mitchell and Peyton Jones, "Build Systems à la
Carte", ICFP 2018, section 4.2.2.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from weakref import WeakKeyDictionary

from knowledge_pipeline.graph.index import FileIndex
from knowledge_pipeline.graph.interface import interface
from knowledge_pipeline.graph.languages.base import Language
from knowledge_pipeline.graph.languages.registry import language_of
from knowledge_pipeline.graph.layout import Layout, Project

_KEPT_FILES = 2_000

Trace = dict[str, str]
"""Question by question, a digest of its answer. A question's parts are joined by tabs:
"interface, PATH", "modules, LANGUAGE, PATH, NAME", "siblings, LANGUAGE, PATH, NAME",
"defining, NAME", "name, LANGUAGE, PATH" for the full name of the file itself."""


class World:
    """A project, with what has been worked out of it: shared by all files that are resolved."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.layout = Layout(project)
        self._files: dict[str, FileIndex] = {}
        self._digests: Trace = {}
        self._answers: dict[str, tuple[str, ...]] = {}

    def index(self, path: str) -> FileIndex:
        """A file's facts, arranged; the last two thousand are kept."""
        found = self._files.pop(path, None)
        if found is None:
            facts = self.project.facts(path)
            found = FileIndex(facts, language_of(facts.language))
            if len(self._files) >= _KEPT_FILES:
                del self._files[next(iter(self._files))]
        self._files[path] = found
        return found

    def answer(self, question: str) -> tuple[str, ...]:
        """The paths that answer a question."""
        if question not in self._answers:
            self._answers[question] = self._answer(*question.split("\t"))
        return self._answers[question]

    def digest(self, question: str) -> str:
        """A digest of a question's answer; "" for a file that is no more."""
        if question not in self._digests:
            self._digests[question] = self._digest(question)
        return self._digests[question]

    def _digest(self, question: str) -> str:
        kind, _, path = question.partition("\t")
        if kind == "name":
            return self._named(*path.split("\t"))
        if kind != "interface":
            return _digest(self.answer(question))
        return interface(self.project.facts(path)) if path in self.layout.paths else ""

    def _named(self, language: str, path: str) -> str:
        return language_of(language).full_name(path, "", self.layout) if path in self.layout.paths else ""

    def _answer(self, kind: str, *rest: str) -> tuple[str, ...]:
        if kind == "defining":
            return tuple(sorted(self.project.defining(rest[0])))
        language, path, name = language_of(rest[0]), rest[1], rest[2]
        if kind == "modules":
            return language.modules(name, path, self.layout)
        return language.siblings(name, path, self.layout)


class View:
    """The world from one file: what it reads of others goes into its trace."""

    def __init__(self, world: World, path: str) -> None:
        self.world = world
        self.path = path
        self.trace: Trace = {}

    def index(self, path: str) -> FileIndex:
        """A file's facts."""
        if path != self.path:
            self._note(f"interface\t{path}")
        return self.world.index(path)

    def modules(self, language: Language, path: str, name: str) -> tuple[str, ...]:
        """The files that a module's name means, as it is written in a file."""
        return self._asked(f"modules\t{language.name}\t{path}\t{name}")

    def siblings(self, language: Language, path: str, name: str) -> tuple[str, ...]:
        """Files that may define a name which a file sees without import."""
        return self._asked(f"siblings\t{language.name}\t{path}\t{name}")

    def defining(self, name: str) -> tuple[str, ...]:
        """Files with a definition of a simple name."""
        return self._asked(f"defining\t{name}")

    def full_name(self, name: str) -> str:
        """The full name of a definition of the file; it depends on the folders around it."""
        language = self.world.index(self.path).language
        self._note(f"name\t{language.name}\t{self.path}")
        return language.full_name(self.path, name, self.world.layout)

    def _asked(self, question: str) -> tuple[str, ...]:
        self._note(question)
        return self.world.answer(question)

    def _note(self, question: str) -> None:
        if question not in self.trace:
            self.trace[question] = self.world.digest(question)


_WORLDS: WeakKeyDictionary[Project, World] = WeakKeyDictionary()


def world_of(project: Project) -> World:
    """The world of a project: the same one for as long as the project lives."""
    if project not in _WORLDS:
        _WORLDS[project] = World(project)
    return _WORLDS[project]


def _digest(parts: Iterable[str]) -> str:
    return hashlib.blake2b("\n".join(parts).encode(errors="replace"), digest_size=8).hexdigest()
