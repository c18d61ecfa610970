"""A project as the resolution of one file sees it: records each question about other files with its answer.

A file must be resolved again only if its own facts changed, or the answer to one of its
questions did: verifying traces, as in Mokhov, Mitchell and Peyton Jones, "Build Systems à la
Carte", ICFP 2018, section 4.2.2.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable, Mapping
from functools import cached_property
from weakref import WeakKeyDictionary

from cachetools import LRUCache

from knowledge_pipeline.code_graph.facts import FileFacts
from knowledge_pipeline.code_graph.file_index import FileIndex
from knowledge_pipeline.code_graph.file_interface import build_interface
from knowledge_pipeline.code_graph.index_builder import build_index
from knowledge_pipeline.code_graph.languages.base import Language
from knowledge_pipeline.code_graph.languages.registry import get_language
from knowledge_pipeline.code_graph.lookup_digests import (
    AnswerDigests,
    decode_hashes,
    digest_answers,
    digest_interface,
    digest_lookups,
    encode_hashes,
    record_lookups,
)
from knowledge_pipeline.code_graph.lookup_log import CYCLES, WHOLE_FILE, Asked, LookupLog
from knowledge_pipeline.code_graph.project_layout import Layout, Project

_MAX_CACHED_FILES = 2_000

Trace = dict[str, str]
"""Question by question, a digest of its answer. A question's parts are joined by tabs:
"modules, LANGUAGE, PATH, NAME", "siblings, LANGUAGE, PATH, NAME", "defining, NAME", "name, LANGUAGE, PATH"
for the full name of the file itself.

"interface, PATH" stands for all look-ups in another file. Its answer has three words: a digest of all that
can be looked up in that file (see `interface_digest`), a digest of the answers, and the keys. The answers
are compared only where the first digest has changed.

`CYCLES_ENTRY` and `USES` are no questions about others. The first has the hashes of the file's own questions
that depend on themselves, the second says which use asked what (see `use_lookups`)."""

CYCLES_ENTRY = "cycles"
USES = "uses"
OWN_ENTRIES = frozenset({CYCLES_ENTRY, USES})


class _File:
    """A file as itself and as others see it."""

    def __init__(self, facts: FileFacts) -> None:
        self._facts = facts

    @cached_property
    def own_index(self) -> FileIndex:
        return build_index(self._facts, get_language(self._facts.language))

    @cached_property
    def index(self) -> FileIndex:
        return build_interface(self._facts)

    @cached_property
    def answer_digests(self) -> AnswerDigests:
        return digest_answers(self.index)

    @cached_property
    def interface_digest(self) -> str:
        return digest_interface(self.answer_digests)


class ProjectIndex:
    """A project with all that is derived from it, shared by all files that are resolved."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.layout = Layout(project)
        self._files: dict[str, _File] = {}
        self._digests: Trace = {}
        self._answers: dict[str, tuple[str, ...]] = {}

    def own_index(self, path: str) -> FileIndex:
        """All facts of a file, arranged."""
        return _open_file(self.project.facts(path)).own_index

    def interface_index(self, path: str) -> FileIndex:
        """What others see of a file, arranged."""
        return self._foreign_file(path).index

    def answer_question(self, question: str) -> tuple[str, ...]:
        """The paths that answer a question."""
        if question not in self._answers:
            self._answers[question] = self._compute_answer(*question.split("\t"))
        return self._answers[question]

    def digest_answer(self, question: str) -> str:
        """A digest of a question's answer; not of what was asked of another file."""
        if question not in self._digests:
            kind, _, rest = question.partition("\t")
            if kind == "name":
                language, path = rest.split("\t")
                known = path in self.layout.paths
                answer = get_language(language).full_name(path, "", self.layout) if known else ""
            else:
                lines = "\n".join(self.answer_question(question)).encode(errors="replace")
                answer = hashlib.blake2b(lines, digest_size=8).hexdigest()
            self._digests[question] = answer
        return self._digests[question]

    def build_trace(self, asked: Iterable[Asked]) -> Trace:
        """The trace of a file for which all this was asked."""
        trace, lookups = Trace(), dict[str, list[int]]()
        for each in asked:
            if isinstance(each, tuple):
                lookups.setdefault(each[0], []).append(each[1])
            else:
                trace[each] = self.digest_answer(each)
        if cycles := lookups.pop(CYCLES, None):
            trace[CYCLES_ENTRY] = encode_hashes(cycles)
        for path, hashes in lookups.items():
            trace[f"interface\t{path}"] = self.trace_entry(path, encode_hashes(hashes))
        return trace

    def trace_entry(self, path: str, encoded_keys: str) -> str:
        """The entry of a trace for another file in which some keys were looked up."""
        other = self._foreign_file(path)
        return f"{other.interface_digest} {digest_lookups(other.answer_digests, encoded_keys)} {encoded_keys}"

    def renew_entry(self, question: str, answer: str, interfaces: Mapping[str, str]) -> str | None:
        """The entry that a trace would have now; None where the answer is another."""
        kind, _, path = question.partition("\t")
        if kind != "interface":
            return answer if self.digest_answer(question) == answer else None
        interface, answered, marks = answer.split(" ")
        if interfaces.get(path) == interface:
            return answer
        now = self.trace_entry(path, marks) if path in interfaces else ""
        return now if now.split(" ")[1:2] == [answered] else None

    def find_changed(
        self, trace: Trace, interfaces: Mapping[str, str], earlier_facts: Mapping[str, FileFacts]
    ) -> set[Asked]:
        """What has another answer now of all that a trace says was asked; see `resolution.Earlier`."""
        changed: set[Asked] = set()
        for question, answer in trace.items():
            if question in OWN_ENTRIES or self.renew_entry(question, answer, interfaces) is not None:
                continue
            kind, _, path = question.partition("\t")
            if kind == "interface":
                interface, _, marks = answer.split(" ")
                hashes = (WHOLE_FILE, *decode_hashes(marks))
                changed.update((path, each) for each in hashes)
                before = _open_file(earlier_facts[path]) if path in earlier_facts else None
                if before is not None and before.interface_digest == interface and path in interfaces:
                    now = self._foreign_file(path).answer_digests
                    same = {each for each in hashes if before.answer_digests.get(each) == now.get(each)}
                    if WHOLE_FILE in same:
                        changed.difference_update((path, each) for each in same)
            else:
                changed.add(question)
        return changed

    def _foreign_file(self, path: str) -> _File:
        """Another file; the last two thousand are cached."""
        found = self._files.pop(path, None)
        if found is None:
            found = _open_file(self.project.facts(path))
            if len(self._files) >= _MAX_CACHED_FILES:
                del self._files[next(iter(self._files))]
        self._files[path] = found
        return found

    def _compute_answer(self, kind: str, *rest: str) -> tuple[str, ...]:
        if kind == "defining":
            return tuple(sorted(self.project.files_defining(rest[0])))
        language, path, name = get_language(rest[0]), rest[1], rest[2]
        if kind == "modules":
            return language.find_modules(name, path, self.layout)
        return language.find_siblings(name, path, self.layout)


class TracedView:
    """The project from one file: what it looks up in others goes into its trace."""

    def __init__(self, project_index: ProjectIndex, path: str) -> None:
        self.project_index = project_index
        self.path = path
        self.log = LookupLog()
        self._files = {path: (project_index.own_index(path), 0)}  # with the bit of the file

    def index(self, path: str) -> FileIndex:
        """The index of a file: of the own one with all facts, of others with what they show."""
        found = self._files.get(path)
        if found is None:
            index = record_lookups(self.project_index.interface_index(path), self.log)
            found = self._files[path] = index, self.log.get_bit((path, WHOLE_FILE))
        self.log.mask |= found[1]
        return found[0]

    def find_modules(self, language: Language, path: str, name: str) -> tuple[str, ...]:
        """The files that a module's name means, as it is written in a file."""
        return self._answer(f"modules\t{language.name}\t{path}\t{name}")

    def find_siblings(self, language: Language, path: str, name: str) -> tuple[str, ...]:
        """Files that may define a name which a file sees without import."""
        return self._answer(f"siblings\t{language.name}\t{path}\t{name}")

    def files_defining(self, name: str) -> tuple[str, ...]:
        """Files with a definition of a simple name."""
        return self._answer(f"defining\t{name}")

    def full_name(self, name: str) -> str:
        """The full name of a definition of the file; it depends on the folders around it."""
        language = self._files[self.path][0].language
        self.log.mask |= self.log.get_bit(f"name\t{language.name}\t{self.path}")
        return language.full_name(self.path, name, self.project_index.layout)

    def _answer(self, question: str) -> tuple[str, ...]:
        self.log.mask |= self.log.get_bit(question)
        return self.project_index.answer_question(question)


_recent_files: LRUCache[int, tuple[FileFacts, _File]] = LRUCache(256)
"""By the identity of its facts, which are kept: files that are asked by one refresh after the other."""
_recent_files_lock = threading.Lock()


def interface_digest(facts: FileFacts) -> str:
    """A digest of all that other files can look up in one. Lines do not count."""
    return _open_file(facts).interface_digest


def _open_file(facts: FileFacts) -> _File:
    with _recent_files_lock:
        known = _recent_files.get(id(facts))
    if known is None:
        known = facts, _File(facts)
        with _recent_files_lock:
            _recent_files[id(facts)] = known
    return known[1]


_PROJECT_INDEXES: WeakKeyDictionary[Project, ProjectIndex] = WeakKeyDictionary()


def project_index_of(project: Project) -> ProjectIndex:
    """The index of a project, the same one for as long as the project lives."""
    if project not in _PROJECT_INDEXES:
        _PROJECT_INDEXES[project] = ProjectIndex(project)
    return _PROJECT_INDEXES[project]
