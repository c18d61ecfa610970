"""Members of classes, by what classes extend."""

from __future__ import annotations

from typing import TYPE_CHECKING

from knowledge_pipeline.code_graph.access_paths import last_of
from knowledge_pipeline.code_graph.entities import Found, Instance, Known, Outside, Place, add
from knowledge_pipeline.code_graph.file_index import TYPE_KINDS, FileIndex
from knowledge_pipeline.code_graph.method_resolution_order import Line, linearized

if TYPE_CHECKING:
    from knowledge_pipeline.code_graph.evaluate import Evaluator

INHERITED = 0.8  # what a base outside of the source may have
EXTENDING = 0.9  # what is called as a member of the type that it is declared to extend
_MAX_EXTENDING = 20  # files
_MAX_LINE = 30  # generations of classes


class Members:
    """Looks members up for an evaluator."""

    def __init__(self, evaluator: Evaluator) -> None:
        self.evaluator = evaluator
        self.view = evaluator.view
        self._lines: dict[tuple[str, str], Line] = {}
        self._generation = 0

    def lineage(self, path: str, name: str) -> Line:
        """A class and what it extends, nearest first; as text what is outside of the source."""
        key = (path, name)
        if key in self._lines or self._generation >= _MAX_LINE:
            return self._lines.get(key, [key])
        self._lines[key] = [key]  # what a class reaches of itself, should it extend itself
        self._generation += 1
        line, is_whole = self.evaluator.questions.whole(lambda: linearized(key, self._bases, self.lineage))
        self._generation -= 1
        if is_whole:
            self._lines[key] = line
        else:
            del self._lines[key]
        return line

    def member(self, line: Line, name: str, of: tuple[str, str]) -> Found:
        """A member of the first class of a lineage that defines it, and what nearer ones put into it."""
        found: Found = {}
        for each in line:
            if isinstance(each, str):
                return found or {Outside(f"{each}.{name}"): INHERITED}
            add(found, self.own_member(*each, name, of))
            if any(isinstance(entity, Known) and last_of(entity.name) == name for entity in found):
                break
        return found

    def is_below(self, method: Known, receivers: Found) -> bool:
        """Whether a method's class extends one of some classes, or instances of them."""
        line = self.lineage(method.path, method.name.rpartition(".")[0])
        wanted = ((each.path, each.name) for each in receivers if isinstance(each, Instance | Known))
        return any(each in line for each in wanted)

    def of_instance(self, path: str, name: str, member: str) -> Found | None:
        """A member of an instance of a class; None where it has none."""
        key = (path, f"@in {name}", member)
        here = (path, name)
        return self.evaluator.ask(key, lambda: self.member(self.lineage(*here), member, here)) or None

    def own_member(self, path: str, owner: str, name: str, of: tuple[str, str] | None) -> Found:
        """A member that a class defines, or is given, itself; in all files of its package if it may."""
        index = self.view.index(path)
        found = self._member_here(index, owner, name, of)
        if not found and index.language.scattered:
            for file in self.view.siblings(index.language, index.language.holds(index.facts), name):
                if file != path and self._is_meant(file, owner, (path, owner)):
                    add(found, self._member_here(self.view.index(file), owner, name, of))
        return found

    def _is_meant(self, file: str, name: str, wanted: tuple[str, str]) -> bool:
        """Whether a name means a type in another file, too; taken for granted where a package has one."""
        if not self.view.index(file).language.named_alike:
            return True
        found = self.evaluator.value(file, "", name)
        return any(isinstance(each, Known) and (each.path, each.name) == wanted for each in found)

    def _member_here(self, index: FileIndex, owner: str, name: str, of: tuple[str, str] | None) -> Found:
        """A member of a type as one file says."""
        path = index.facts.path
        qualified = f"{owner}.{name}"
        found: Found = {Known(path, qualified, of): 1.0} if qualified in index.kinds else {}
        add(found, self.evaluator.bound(index, owner, name))
        if (owner, name) in index.beneath:
            found[Place(path, owner, name)] = 1.0
        return found

    def extension(self, of: Instance | Outside, name: str) -> Found:
        """A function that is called as a member of a type, by the name of its receiver's type."""
        if not self.evaluator.language.extensions or name.startswith("@"):
            return {}
        line: Line = [of.name] if isinstance(of, Outside) else self.lineage(of.path, of.name)
        names = {last_of(each if isinstance(each, str) else each[1]) for each in line}
        return {
            Known(index.facts.path, each): EXTENDING
            for index in map(self.view.index, self.view.defining(name)[:_MAX_EXTENDING])
            for each in index.named(name)
            for binding in index.bound(each, "@receiver")
            if last_of(binding.value) in names
        }

    def _types(self, known: Known) -> Line:
        """The type that a definition is, or those that it is another name for."""
        kind = self.view.index(known.path).kinds.get(known.name)
        if kind == "type":
            meant = self.evaluator.result(known)
            return [(each.path, each.name) for each in meant if isinstance(each, Known | Instance)]
        return [(known.path, known.name)] if kind in TYPE_KINDS else []

    def _bases(self, key: tuple[str, str]) -> Line:
        """What a class says that it extends."""
        index = self.view.index(key[0])
        scope = key[1].rpartition(".")[0]
        bases: Line = []
        for written in index.bases.get(key[1], ()):
            for entity in self.evaluator.value(key[0], scope, written):
                if isinstance(entity, Known):
                    bases += [each for each in self._types(entity) if each != key]
                elif isinstance(entity, Outside):
                    bases.append(entity.name)
        return bases
