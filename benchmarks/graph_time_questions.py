"""How long each kind of question to the code graph takes, of typical targets and of the worst there are."""

from __future__ import annotations

import random
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from knowledge_pipeline import KnowledgeBase
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.contract.responses import GraphResponse
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.store.filters import eq, one_of
from knowledge_pipeline.store.lake import Lake

_WORST = 15  # of each kind of extreme targets
_SEED = 3

Ask = Callable[..., GraphResponse]


@dataclass(frozen=True, slots=True)
class Asked:
    """All askings of one kind of question of one group of targets by one caller; milliseconds."""

    who: str
    group: str
    question: str
    times: tuple[float, ...]  # by the clock, sorted
    processor: float  # of all threads, the median
    nodes: float  # of an answer, on average

    @property
    def p50(self) -> float:
        """The median."""
        return statistics.median(self.times)

    @property
    def p95(self) -> float:
        """Of 20 askings, 19 took no longer."""
        return p95(self.times)


def p95(times: tuple[float, ...]) -> float:
    """The time that 95 in 100 do not exceed."""
    return times[min(len(times) - 1, int(len(times) * 0.95))]


def list_questions(base: KnowledgeBase) -> dict[str, Ask]:
    """Every kind of question, with the depths that are asked."""
    graph = base.graph
    return {
        "usages": graph.find_usages,
        "references": graph.find_references,
        "calls, depth 1": graph.get_call_graph,
        "calls, depth 3": lambda target, **who: graph.get_call_graph(target, depth=3, **who),
        "hierarchy, depth 3": lambda target, **who: graph.get_class_hierarchy(target, depth=3, **who),
        "dependencies": graph.get_dependencies,
        "impact, depth 3": lambda target, **who: graph.analyze_dependencies(target, depth=3, **who),
        "related": graph.find_related_code,
    }


def time_questions(lake: Lake, typical: int, people: Mapping[str, Access]) -> Iterator[Asked]:
    """Ask everything.

    Args:
        lake: has a release with a code graph.
        typical: how many targets are drawn of each kind.
        people: who asks.
    """
    groups = choose_targets(lake, typical)
    with KnowledgeBase.open(
        Settings.model_validate({"store": lake.root, "logs": {"queries": False}})
    ) as base:
        for who, access in people.items():
            for group, chosen in groups.items():
                for question, ask in list_questions(base).items():
                    ask(chosen[0], access=access)
                    answers = [_time_question(ask, target, access) for target in chosen]
                    clock, processor, nodes = zip(*answers, strict=True)
                    yield Asked(
                        who, group, question, tuple(sorted(clock)),
                        statistics.median(processor), statistics.mean(nodes),
                    )  # fmt: skip


def _time_question(ask: Ask, target: str, access: Access) -> tuple[float, float, int]:
    started, worked = time.perf_counter(), time.process_time()
    answer = ask(target, access=access)
    spent = (time.perf_counter() - started) * 1000, (time.process_time() - worked) * 1000
    return *spent, len(answer.nodes)


def choose_targets(lake: Lake, typical: int) -> dict[str, list[str]]:
    """Targets drawn at random, and those of which there is most."""
    rows = (
        lake.graph_table("symbols")
        .read_rows(["node", "path", "kind", "name"], ~eq("kind", "alias"))
        .to_pylist()
    )
    kinds = {"functions": ("function", "method"), "classes": ("class",), "files": ("file",)}
    of_kind = {group: [row for row in rows if row["kind"] in names] for group, names in kinds.items()}
    chosen = random.Random(_SEED)
    found = {
        group: [_target(row) for row in chosen.sample(those, min(typical, len(those)))]
        for group, those in of_kind.items()
    }
    by_node = {row["node"]: row for row in rows}
    members = Counter((row["path"], row["name"].rpartition(".")[0]) for row in rows)
    biggest = sorted(of_kind["classes"], key=lambda row: -members[row["path"], row["name"]])
    folders = Counter(
        folder.as_posix() for row in of_kind["files"] for folder in PurePosixPath(row["path"]).parents
    )
    folders.pop(".", None)
    return {
        **found,
        "most called functions": _most(lake, by_node, ("calls",)),
        "base classes with most heirs": _most(lake, by_node, ("extends", "implements")),
        "classes with most members": [_target(row) for row in biggest[:_WORST]],
        "files that most depend on": _most(lake, by_node, ("depends",)),
        "largest folders": [folder for folder, _ in folders.most_common(_WORST)],
    }


def _most(lake: Lake, by_node: Mapping[str, dict[str, Any]], kinds: tuple[str, ...]) -> list[str]:
    ends = lake.graph_table("edges").read_rows(["target_id"], one_of("kind", kinds))["target_id"].to_pylist()
    counted = Counter(end for end in ends if end in by_node)
    return [_target(by_node[node]) for node, _ in counted.most_common(_WORST)]


def _target(row: Mapping[str, Any]) -> str:
    return f"{row['path']}:{row['name']}" if row["name"] else row["path"]
