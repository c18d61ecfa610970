"""A project as resolving one file sees it: every question about other files is noted with its answer.

A file must be resolved again only if its own facts changed, or the answer to one of its
questions did: verifying traces, as in Mokhov, Mitchell and Peyton Jones, "Build Systems à la
Carte", ICFP 2018, section 4.2.2.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import cached_property
from weakref import WeakKeyDictionary

from knowledge_pipeline.code_graph.file_index import FileIndex
from knowledge_pipeline.code_graph.file_interface import shown
from knowledge_pipeline.code_graph.index_builder import arranged
from knowledge_pipeline.code_graph.languages.base import Language
from knowledge_pipeline.code_graph.languages.registry import language_of
from knowledge_pipeline.code_graph.lookup_digests import Asked, Told, answers, marks_of, noting, told, whole
from knowledge_pipeline.code_graph.project_layout import Layout, Project

_KEPT_FILES = 2_000

Trace = dict[str, str]
"""Question by question, a digest of its answer. A question's parts are joined by tabs:
"modules, LANGUAGE, PATH, NAME", "siblings, LANGUAGE, PATH, NAME", "defining, NAME", "name, LANGUAGE, PATH"
for the full name of the file itself.

"interface, PATH" stands for all that was asked of another file. Its answer has three words: a digest of
all that can be asked of that file (see `interface`), a digest of the answers to what was, and what that
was. Where the first is as it was, so is the second, which is compared only where the first is not."""


class _Other:
    """A file as others see it."""

    def __init__(self, index: FileIndex) -> None:
        self.index = index

    @cached_property
    def told(self) -> Told:
        return told(self.index)

    @cached_property
    def interface(self) -> str:
        return whole(self.told)


class World:
    """A project, with what has been worked out of it: shared by all files that are resolved."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.layout = Layout(project)
        self._files: dict[str, _Other] = {}
        self._digests: Trace = {}
        self._answers: dict[str, tuple[str, ...]] = {}

    def own(self, path: str) -> FileIndex:
        """All facts of a file, arranged."""
        facts = self.project.facts(path)
        return arranged(facts, language_of(facts.language))

    def index(self, path: str) -> FileIndex:
        """What others see of a file, arranged."""
        return self._other(path).index

    def answer(self, question: str) -> tuple[str, ...]:
        """The paths that answer a question."""
        if question not in self._answers:
            self._answers[question] = self._answer(*question.split("\t"))
        return self._answers[question]

    def digest(self, question: str) -> str:
        """A digest of a question's answer; not of what was asked of another file."""
        if question not in self._digests:
            kind, _, rest = question.partition("\t")
            named = kind == "name"
            self._digests[question] = (
                self._named(*rest.split("\t")) if named else _digest(self.answer(question))
            )
        return self._digests[question]

    def asked(self, path: str, marks: str) -> str:
        """What a trace says of another file, of which so much was asked."""
        other = self._other(path)
        return f"{other.interface} {answers(other.told, marks)} {marks}"

    def renewed(self, question: str, answer: str, interfaces: Mapping[str, str]) -> str | None:
        """What a trace would say now; None where that is another answer."""
        kind, _, path = question.partition("\t")
        if kind != "interface":
            return answer if self.digest(question) == answer else None
        interface, answered, marks = answer.split(" ")
        if interfaces.get(path) == interface:
            return answer
        now = self.asked(path, marks) if path in interfaces else ""
        return now if now.split(" ")[1:2] == [answered] else None

    def _other(self, path: str) -> _Other:
        """The last two thousand are kept."""
        found = self._files.pop(path, None)
        if found is None:
            found = _Other(shown(self.project.facts(path)))
            if len(self._files) >= _KEPT_FILES:
                del self._files[next(iter(self._files))]
        self._files[path] = found
        return found

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
    """The world from one file: what it asks of others goes into its trace."""

    def __init__(self, world: World, path: str) -> None:
        self.world = world
        self.path = path
        self._files = {path: world.own(path)}
        self._asked: dict[str, Asked] = {}
        self._noted: Trace = {}

    def index(self, path: str) -> FileIndex:
        """A file's facts: all of the own one, of others what they show."""
        found = self._files.get(path)
        if found is None:
            asked = self._asked[path] = set()
            found = self._files[path] = noting(self.world.index(path), asked)
        return found

    def modules(self, language: Language, path: str, name: str) -> tuple[str, ...]:
        """The files that a module's name means, as it is written in a file."""
        return self._answer(f"modules\t{language.name}\t{path}\t{name}")

    def siblings(self, language: Language, path: str, name: str) -> tuple[str, ...]:
        """Files that may define a name which a file sees without import."""
        return self._answer(f"siblings\t{language.name}\t{path}\t{name}")

    def defining(self, name: str) -> tuple[str, ...]:
        """Files with a definition of a simple name."""
        return self._answer(f"defining\t{name}")

    def full_name(self, name: str) -> str:
        """The full name of a definition of the file; it depends on the folders around it."""
        language = self._files[self.path].language
        self._note(f"name\t{language.name}\t{self.path}")
        return language.full_name(self.path, name, self.world.layout)

    def trace(self) -> Trace:
        """All that was asked until now."""
        of_files = {
            f"interface\t{path}": self.world.asked(path, marks_of(asked))
            for path, asked in self._asked.items()
        }
        return self._noted | of_files

    def _answer(self, question: str) -> tuple[str, ...]:
        self._note(question)
        return self.world.answer(question)

    def _note(self, question: str) -> None:
        if question not in self._noted:
            self._noted[question] = self.world.digest(question)


_WORLDS: WeakKeyDictionary[Project, World] = WeakKeyDictionary()


def world_of(project: Project) -> World:
    """The world of a project: the same one for as long as the project lives."""
    if project not in _WORLDS:
        _WORLDS[project] = World(project)
    return _WORLDS[project]


def _digest(parts: Iterable[str]) -> str:
    return hashlib.blake2b("\n".join(parts).encode(errors="replace"), digest_size=8).hexdigest()
