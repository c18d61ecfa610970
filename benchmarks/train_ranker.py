"""Trains the ranker's weights on development sets, and says what they give on repositories left out.

    python -m benchmarks.train_ranker --sets FOLDER --mirrors FOLDER [--store FOLDER] [--write] [--ablation]

The folder of sets has `mixed-dev`, `repositories-dev`, `sweqa-dev`, and sets in BEIR layout; the organisation
of `evaluation/organisation` is asked as well. Questions on repositories are asked twice: of type `code` of
the folder that they are about, and of the whole repository with its history, nothing filtered. Mirrors are
as in `benchmarks.repositories`; a repository without one is left out, with a message. What was found for
each question is kept in the store, so that a second run trains at once; delete `*.candidates` there after a
change of cutting, embedding or retrieval. `--write` writes the weights into the package; then run
`benchmarks.train_confidence`.

Questions whose candidates are of one family of sources train the weights for one family, all others those
for several. The loss of a question is that of a softmax over its candidates: for each target the probability
that one of the chunks that hit it is drawn, to the power of `ALPHA` (below 1, so that a question that is
answered already counts more than one that cannot be; 0 would be the logarithm). Scores are calibrated
afterwards, by logistic regression of whether one of the first ten results hits a target. All of it is
deterministic.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import pickle
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks import mixed, organisation_set, repositories, retrieval
from benchmarks.mixed_measure import Place, Question, Target, compute_ndcg, judge_success
from knowledge_pipeline.config.file import load_settings
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.contract.filters import SearchType
from knowledge_pipeline.embedding.word_vectors import WordVectors
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.features import (
    FEATURES,
    TEXT_FEATURES,
    TRAINED_FAMILIES,
    UNCOMPARED,
    compute_features,
    compute_text_features,
)
from knowledge_pipeline.query.hits import Hit, IndexedChunk, to_outlines
from knowledge_pipeline.query.plan import ParsedQuery, SearchQuestion
from knowledge_pipeline.query.rank import FORM, MIN_READ, MODEL_PATH
from knowledge_pipeline.query.search import Engine
from knowledge_pipeline.stages import pipeline
from knowledge_pipeline.store.lake import Lake

NAMES = (*FEATURES, *TEXT_FEATURES)
WHOLE, WHOLE_CODE = ", whole repository", ", whole repository, type code"  # after the name of a set
SEVERAL_FAMILIES = {"mixed-dev": 0.5, "organisation": 0.15, f"repositories-dev{WHOLE}": 0.05}
ONE_FAMILY = {
    **{"repositories-dev": 0.6, "sweqa-dev": 0.05, "codebase-dev": 0.08},
    **{"cosqa-dev": 0.07, "cranfield-dev": 0.05},
}
MODELS = {"one_family": ONE_FAMILY, "several_families": SEVERAL_FAMILIES}
"""Sets that train each model, with the importance of a set, whatever its number of questions."""

TIED = {"path": "symbol", "generated": "test"}
"""Few questions name a file, and few files of these sets are generated: such a weight is that of another."""

ALPHA = 0.15
DECAY = 0.001  # of the squares of weights
STEPS, RATE = 300, 0.05  # of Adam, Kingma & Ba 2015, https://arxiv.org/abs/1412.6980
FURTHER_CHUNKS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.8)
"""What a further chunk of a document may lose, of which one is chosen. With 1.5 repositories-dev gains .005
as returned, and the golden questions, whose answers are definitions, lose .018."""

CALIBRATING = ("mixed-dev", "organisation", "repositories-dev", "sweqa-dev")
"""Sets whose scores are calibrated: of the others one document answers, and many more may."""

CALIBRATED = 10  # results of each question


@dataclass(frozen=True)
class Example:
    """One question with its candidates."""

    set: str
    group: str  # a repository, or a set of documents: what is left out at once
    question: Question
    features: np.ndarray  # float32, shape (candidates, NAMES)
    documents: np.ndarray  # the number of each candidate's
    hashes: Sequence[str]  # of contents: of equal ones the first is shown
    places: Sequence[Place]

    @property
    def has_several_families(self) -> bool:
        """Whether the candidates are of more than one family of sources."""
        columns = [NAMES.index(family) for family in TRAINED_FAMILIES]
        return int(self.features[:, columns].any(axis=0).sum()) > 1

    @cached_property
    def hits(self) -> np.ndarray:
        """Which candidate hits which target: bool, shape (candidates, targets)."""
        targets = self.question.targets
        hits = [[target.is_hit_by(place) for target in targets] for place in self.places]
        return np.array(hits, bool).reshape(len(self.places), len(targets))


ToPlace = Callable[[IndexedChunk], Place]


def collect_examples(options: argparse.Namespace) -> list[Example]:
    """The questions of all sets, indexed and asked where the store does not have them yet."""
    examples: list[Example] = []
    for path in sorted((options.sets / "mixed-dev").glob("*.jsonl")):
        examples += _keep(options, f"mixed-dev@{path.stem}", lambda path=path: _ask_mixed(options, path))
    examples += _keep(options, "organisation", lambda: _ask_organisation(options))
    for name in ("repositories-dev", "sweqa-dev"):
        for key, rows in _read_repositories(options.sets / name).items():
            stem = f"{name}@{key[0].replace('/', '+')}"
            examples += _keep(options, stem, lambda *args: _ask_repository(options, *args), name, key, rows)
            whole = f"{name}{WHOLE}@{key[0].replace('/', '+')}"
            examples += _keep(options, whole, lambda *args: _ask_checkout(options, *args), name, key, rows)
    for folder in sorted(path.parent for path in options.sets.glob("*/corpus.jsonl")):
        examples += _keep(options, folder.name, lambda folder=folder: _ask_documents(options, folder))
    return examples


def _keep(
    options: argparse.Namespace, name: str, collect: Callable[..., list[Example]], *arguments: Any
) -> list[Example]:
    """What was collected before, in a file that only this script reads."""
    path = options.store / f"{name}.candidates"
    if not path.exists():
        try:
            examples = collect(*arguments)
        except FileNotFoundError as error:
            Console(stderr=True).print(f"left out: {error}")
            return []
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pickle.dumps(examples))
        Console(stderr=True).print(f"{name}: {len(examples)} questions")
    return pickle.loads(path.read_bytes())


def _ask_mixed(options: argparse.Namespace, path: Path) -> list[Example]:
    repository, commit = mixed.read_origin(path)
    checkout = options.store / "mixed-dev" / path.stem
    mixed.check_out(repositories.find_mirror(options.mirrors, repository), commit, checkout)
    mixed.index_checkout(checkout)
    settings = load_settings(checkout / "knowledge.yaml")
    return _ask(settings, "semantic", "mixed-dev", repository, mixed.read_questions(path), _to_place)


def _to_place(chunk: IndexedChunk) -> Place:
    if chunk.source_type == "git_history":
        return Place(mixed.shorten_commit(chunk.path))
    return Place(chunk.path, chunk.start_line, chunk.end_line)


def _ask_organisation(options: argparse.Namespace) -> list[Example]:
    organisation = organisation_set.index(options.mirrors, options.store / "organisation")

    def to_place(chunk: IndexedChunk) -> Place:
        if chunk.source == "history":
            return Place(chunk.uri)
        name = organisation.names.get((chunk.source, chunk.uri))
        return Place(name) if name else Place(chunk.path, chunk.start_line, chunk.end_line)

    group = organisation_set.REPOSITORY
    return _ask(organisation.settings, "semantic", "organisation", group, organisation.questions, to_place)


def _read_repositories(folder: Path) -> dict[tuple[str, str, str], list[dict[str, Any]]]:
    rows: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for row in map(json.loads, (folder / "questions.jsonl").read_text().splitlines()):
        rows.setdefault((row["repository"], row["commit"], row.get("folder") or ""), []).append(row)
    return rows


def _ask_repository(
    options: argparse.Namespace, name: str, key: tuple[str, str, str], rows: Sequence[Mapping[str, Any]]
) -> list[Example]:
    repository, commit, folder = key
    place = options.store / name / repository.replace("/", "+")
    mirror = repositories.find_mirror(options.mirrors, repository)
    repositories.write_files(mirror, commit, folder, place / "files")
    settings = repositories.index_repository(place, None)
    paths = {path.relative_to(place / "files").as_posix() for path in (place / "files").rglob("*")}
    questions = [_read_question(row, paths) for row in rows]
    return _ask(settings, "code", name, repository, questions, _to_place)


def _ask_checkout(
    options: argparse.Namespace, name: str, key: tuple[str, str, str], rows: Sequence[Mapping[str, Any]]
) -> list[Example]:
    """The same questions, of the whole repository with its history and nothing filtered."""
    repository, commit, _ = key
    checkout = options.store / f"{name}{WHOLE}" / repository.replace("/", "+")
    mixed.check_out(repositories.find_mirror(options.mirrors, repository), commit, checkout)
    paths = {path.relative_to(checkout).as_posix() for path in checkout.rglob("*")}
    mixed.index_checkout(checkout)
    settings = load_settings(checkout / "knowledge.yaml")
    questions = [_read_question(row, paths) for row in rows]
    return [
        example
        for type_, ending in (("semantic", WHOLE), ("code", WHOLE_CODE))
        for example in _ask(settings, type_, name + ending, repository, questions, _to_place)
    ]


def _read_question(row: Mapping[str, Any], paths: Collection[str]) -> Question:
    """A question whose targets may name a file by the end of its path."""
    places = [*row.get("relevant", ()), *row.get("secondary", ()), *row.get("spans", ())]
    targets: dict[Target, None] = {}
    for each in places:
        place = {"path": each} if isinstance(each, str) else each
        path = next((own for own in sorted(paths) if own.endswith(f"/{place['path']}")), place["path"])
        path = place["path"] if place["path"] in paths else path
        first, last = place.get("start_line", place.get("start", 1)), place.get("end_line", place.get("end"))
        targets[Target(Place(path, first, last), 1)] = None
    text = row.get("query") or row["question"]
    return Question(text, "code", text, tuple(targets))


def _ask_documents(options: argparse.Namespace, folder: Path) -> list[Example]:
    one = retrieval.Set(folder, options.store / folder.name)
    settings = retrieval.indexed(one)
    pipeline.refresh_release(Lake(settings.store), settings)
    questions = [
        Question(
            each.text,
            folder.name,
            each.text,
            tuple(Target(Place(answer.path), int(answer.relevance)) for answer in each.answers),
        )
        for each in one.questions()
    ]
    return _ask(settings, "semantic", folder.name, folder.name, questions, _to_place)


def _ask(
    settings: Settings,
    type_: SearchType,
    set_: str,
    group: str,
    questions: Sequence[Question],
    to_place: ToPlace,
) -> list[Example]:
    words = WordVectors()
    with closing(Engine(settings, Lake(settings.store))) as engine:
        found = _collect_hits(engine, (each.text for each in questions), type_)
    examples: list[Example] = []
    for question, (hits, query) in zip(questions, found, strict=True):
        chunks = [hit.chunk for hit in hits]
        features = np.hstack(
            [_read_features(hits, query), compute_text_features(chunks, query, words)]
        ).astype(np.float32)
        documents = np.unique([f"{each.source}:{each.path}" for each in chunks], return_inverse=True)[1]
        hashes = [each.content_hash for each in chunks]
        places = list(map(to_place, chunks))
        examples.append(Example(set_, group, question, features, documents, hashes, places))
    return examples


def _collect_hits(
    engine: Engine, questions: Iterable[str], type_: SearchType
) -> list[tuple[list[Hit[IndexedChunk]], ParsedQuery]]:
    """The fused hits of each question, before they are ranked."""

    async def collect() -> list[tuple[list[Hit[IndexedChunk]], ParsedQuery]]:
        access = Access.operator()
        return [await engine.find_unranked(SearchQuestion(text, type_), access) for text in questions]

    return asyncio.run(collect())


def _read_features(hits: Sequence[Hit[IndexedChunk]], query: Any) -> np.ndarray:
    parts = [hit.explanation for hit in hits]
    fused = np.array([each.fused for each in parts])
    similarities = np.array([each.vector_score for each in parts], np.float64)
    return compute_features(to_outlines(hit.chunk for hit in hits), fused, similarities, query)


class Batch:
    """The questions that learn, as flat arrays."""

    def __init__(self, examples: Iterable[Example], importance: Mapping[str, float]) -> None:
        """Of the sets that have an importance."""
        own = (each for each in examples if each.set in importance)
        listed = [(each, hits) for each in own if (hits := each.hits).any()]
        sizes = [len(hits) for _, hits in listed]
        counts = Counter(each.set for each, _ in listed)
        weights = np.array([importance[each.set] / counts[each.set] for each, _ in listed])
        self.features = np.concatenate([each.features for each, _ in listed])
        self.starts = np.cumsum([0, *sizes[:-1]])
        self.questions = np.repeat(np.arange(len(listed)), sizes)
        self.importance = (weights / weights.sum())[self.questions]
        candidates, targets, grades, owners = list[int](), list[int](), list[float](), list[int]()
        for number, ((each, hits), start) in enumerate(zip(listed, self.starts, strict=True)):
            own = np.flatnonzero(hits.any(axis=0))
            total = sum(each.question.targets[at].grade for at in own)
            for at in own:
                hit_by = np.flatnonzero(hits[:, at])
                candidates.extend((start + hit_by).tolist())
                targets.extend([len(grades)] * len(hit_by))
                grades.append(each.question.targets[at].grade / total)
                owners.append(number)
        self.candidates, self.targets = np.array(candidates), np.array(targets)
        self.grades, self.owners = np.array(grades), np.array(owners)

    def measure_family_nearness(self) -> dict[str, float]:
        """What the candidates of each family have at the mean: what one that was not compared counts as."""
        values = self.features[:, NAMES.index("family_nearness")]
        of_families = {family: self.features[:, NAMES.index(family)] == 1.0 for family in TRAINED_FAMILIES}
        return {
            family: float(values[own].mean()) if own.any() else 0.0 for family, own in of_families.items()
        }

    def compute_gradient(self, weights: np.ndarray) -> np.ndarray:
        """Of the loss by each weight."""
        scores = self.features @ weights.astype(np.float32)
        odds = np.exp(scores - np.maximum.reduceat(scores, self.starts)[self.questions])
        drawn = odds / np.add.reduceat(odds, self.starts)[self.questions]
        of_hits = drawn[self.candidates]
        of_targets = np.bincount(self.targets, of_hits, len(self.grades)) + 1e-12
        pull = self.grades * of_targets**ALPHA
        wanted = np.bincount(
            self.candidates, of_hits * (pull / of_targets)[self.targets], len(self.questions)
        )
        pulls = np.bincount(self.owners, pull, len(self.starts))[self.questions]
        return self.features.T @ (self.importance * (drawn * pulls - wanted)).astype(np.float32)


def train(
    examples: Iterable[Example], importance: Mapping[str, float], names: Sequence[str] = NAMES
) -> dict[str, float]:
    """The weights of some features that make the loss lowest, by Adam from 0."""
    batch, chosen = Batch(examples, importance), np.isin(NAMES, names)
    weights, mean, square = np.zeros((3, len(NAMES)))
    for step in range(1, STEPS + 1):
        gradient = (DECAY * weights + batch.compute_gradient(weights)) * chosen
        mean, square = 0.9 * mean + 0.1 * gradient, 0.99 * square + 0.01 * gradient**2
        rate = RATE if step < 0.7 * STEPS else 0.3 * RATE
        weights -= rate * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.99**step)) + 1e-8)
    trained = {name: round(float(weight), 2) for name, weight in zip(NAMES, weights, strict=True)}
    trained |= {name: trained[other] for name, other in TIED.items()}
    nearness = batch.measure_family_nearness()
    return trained | {
        f"{UNCOMPARED}_{family}": round(trained["family_nearness"] * nearness[family], 2)
        for family in nearness
    }


def rank(example: Example, weights: Mapping[str, float], further_chunk: float) -> list[tuple[int, float]]:
    """Candidates and their log-odds, best first, as the product ranks them; of equal contents the first."""
    vector = np.array([weights.get(name, 0.0) for name in NAMES])
    count = len(FEATURES)
    before = example.features[:, :count] @ vector[:count]
    totals = before + example.features[:, count:] @ vector[count:]
    order = np.argsort(-before, kind="stable")
    read, unread = order[:MIN_READ], order[MIN_READ:]
    totals[unread] = before[unread]
    seen: dict[int, int] = {}
    for at in np.argsort(-totals, kind="stable").tolist():
        better = seen.get(int(example.documents[at]), 0)
        seen[int(example.documents[at])] = better + 1
        totals[at] -= further_chunk * better
    if len(unread):
        totals[unread] -= max(0.0, totals[unread].max() - totals[read].min())
    ranked: dict[str, tuple[int, float]] = {}
    for at in np.argsort(-totals, kind="stable").tolist():
        ranked.setdefault(example.hashes[at], (at, float(totals[at])))
    return list(ranked.values())


MEASURES = ("nDCG@10", "over documents", "s@1", "s@3")


def judge(example: Example, weights: Mapping[str, float], further_chunk: float) -> tuple[float, ...]:
    """`MEASURES` of one question."""
    targets = example.question.targets
    places = [example.places[at] for at, _ in rank(example, weights, further_chunk)]
    documents = [Place(name) for name in dict.fromkeys(place.document for place in places)]
    wholes: dict[str, int] = {}
    for target in targets:
        wholes[target.place.document] = max(wholes.get(target.place.document, 0), target.grade)
    success = judge_success(targets, places)
    in_documents = [Target(Place(name), grade) for name, grade in wholes.items()]
    return (
        compute_ndcg(targets, places),
        compute_ndcg(in_documents, documents),
        float(success.at_1),
        float(success.at_3),
    )


def judge_all(
    examples: Iterable[Example], weights: Mapping[str, float], further_chunk: float
) -> dict[str, list[tuple[float, ...]]]:
    """`MEASURES` of each answerable question, by set, and by kind for mixed content."""
    judged: dict[str, list[tuple[float, ...]]] = {}
    for example in examples:
        if example.question.targets:
            values = judge(example, weights, further_chunk)
            judged.setdefault(example.set, []).append(values)
            if example.set == "mixed-dev":
                judged.setdefault(f"mixed-dev, {example.question.kind}", []).append(values)
    return judged


def leave_out(
    examples: Sequence[Example], importance: Mapping[str, float], further_chunk: float
) -> dict[str, list[tuple[float, ...]]]:
    """Each repository's questions as judged with weights that were trained on all other repositories."""
    judged: dict[str, list[tuple[float, ...]]] = {}
    for group in sorted({each.group for each in examples}):
        weights = train((each for each in examples if each.group != group), importance)
        own = [each for each in examples if each.group == group]
        for name, values in judge_all(own, weights, further_chunk).items():
            judged.setdefault(name, []).extend(values)
    return judged


def calibrate(examples: Iterable[Example], weights: Mapping[str, float]) -> tuple[float, float]:
    """The scale and the base that make probabilities of the log-odds, by Newton's method.

    Of each of the first results of a question, one that nothing answers among them: whether it hits a target.
    What a further chunk of a document loses is for diversity, and says nothing of whether it answers.
    """
    pairs: list[tuple[float, bool]] = []
    for example in examples:
        hits = example.hits.any(axis=1) if example.question.targets else np.zeros(len(example.places), bool)
        pairs += [(total, bool(hits[at])) for at, total in rank(example, weights, 0.0)[:CALIBRATED]]
    inputs = np.array([[total, 1.0] for total, _ in pairs])
    outcomes = np.array([hit for _, hit in pairs], float)
    found = np.zeros(2)
    for _ in range(50):
        probabilities = 1 / (1 + np.exp(-inputs @ found))
        spread = probabilities * (1 - probabilities)
        hessian = inputs.T @ (inputs * spread[:, None]) + 1e-6 * np.eye(2)
        found += np.linalg.solve(hessian, inputs.T @ (outcomes - probabilities))
    return float(found[0]), float(found[1])


def choose_further_chunk(
    examples: Sequence[Example], importance: Mapping[str, float], weights: Mapping[str, float]
) -> float:
    """What a further chunk of a document loses, by the mean nDCG@10 of the sets."""

    def evaluate(value: float) -> float:
        judged = judge_all(examples, weights, value)
        return sum(
            float(np.mean([row[0] for row in judged[name]])) * share
            for name, share in importance.items()
            if name in judged
        )

    return max(FURTHER_CHUNKS, key=evaluate)


def show(columns: Mapping[str, Mapping[str, Sequence[tuple[float, ...]]]]) -> None:
    """Print the means of each set."""
    table = Table("", "questions", *(f"{name}: {', '.join(MEASURES)}" for name in columns))
    for name in next(iter(columns.values())):
        means = [
            " ".join(f"{mean:.3f}" for mean in np.mean(column[name], axis=0)) for column in columns.values()
        ]
        table.add_row(name, str(len(next(iter(columns.values()))[name])), *means)
    Console(width=150).print(table)


def main() -> None:
    """Train, print, and write the weights if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sets", type=Path, required=True, help="folder of evaluation sets")
    parser.add_argument("--mirrors", type=Path, required=True, help="folder of git repositories")
    parser.add_argument("--store", type=Path, default=Path(".knowledge/ranker"))
    parser.add_argument("--write", action="store_true", help="write the weights into the package")
    parser.add_argument("--ablation", action="store_true", help="train without each feature, too")
    options = parser.parse_args()
    if not (options.sets / "mixed-dev").is_dir():
        parser.error(f"there is no mixed-dev in {options.sets}: name the folder of the sets")
    examples = collect_examples(options)
    groups = Counter(each.group for each in examples)
    content: dict[str, Any] = {
        "form": FORM,
        "trained": datetime.now(UTC).date().isoformat(),
        "sets": dict(sorted(groups.items())),
        "confidence": json.loads(MODEL_PATH.read_text())["confidence"],
    }
    for name, importance in MODELS.items():
        own = [each for each in examples if each.has_several_families == (name == "several_families")]
        Console().print(name)
        content[name] = train_model(own, importance, ablation=options.ablation)
    text = json.dumps(content, indent=2) + "\n"
    Console().print(text, highlight=False)
    if options.write:
        MODEL_PATH.write_text(text)


def train_model(
    examples: Sequence[Example], importance: Mapping[str, float], *, ablation: bool
) -> dict[str, Any]:
    """One model as `ranker.json` has it; prints what it gives, with and without each repository."""
    weights = train(examples, importance)
    further_chunk = choose_further_chunk(examples, importance, weights)
    columns = {"trained on all": judge_all(examples, weights, further_chunk)}
    columns["left out"] = leave_out(examples, importance, further_chunk)
    show(columns)
    for name in NAMES if ablation else ():
        if "_" not in name or name in ("file_name", "family_nearness", *TEXT_FEATURES):
            without = train(examples, importance, [other for other in NAMES if other != name])
            show({f"without {name}": judge_all(examples, without, further_chunk)})
    scale, base = calibrate([each for each in examples if each.set in CALIBRATING], weights)
    scaled = {name: round(weight * scale, 3) for name, weight in weights.items()}
    return {
        "weights": {name: weight for name, weight in scaled.items() if weight},
        "further_chunk": round(further_chunk * scale, 3),
        "base": round(base, 3),
    }


if __name__ == "__main__":
    main()
