"""How soon revoked access is gone: from the moment that somebody may not see, to the first answer without it.

Each way of revoking is tried with the circumstances that could undo it: a source that is down, a release
that a check refuses, a rollback to a release of before.
"""

from __future__ import annotations

import json
import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.figures import describe_machine
from knowledge_pipeline.config import file
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.errors import ReleaseRefused
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.serve.tokens import TokenStore
from knowledge_pipeline.stages import pipeline
from knowledge_pipeline.stages.context import RefreshContext
from knowledge_pipeline.stages.pipeline import roll_back_release
from knowledge_pipeline.store.filters import eq, one_of
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.release import find_live_release
from knowledge_pipeline_tests.serve.isolation import Doors, Watch, secrets_of
from knowledge_pipeline_tests.serve.isolation_attempts import Attempt, Intruder, Secret
from knowledge_pipeline_tests.serve.repository_world import RepositoryProject
from knowledge_pipeline_tests.serve.running import Running
from knowledge_pipeline_tests.serve.world import SOURCES, World

_DOORS = ("http", "mcp", "page", "python")
_REVOKED = next(source for source in SOURCES if source.id == "shop-docs")
_PRIVATE = {"visibility": "private", "tenant": "acme", "principals": ["ann"]}
_PATIENCE_S = 60.0


@dataclass(frozen=True)
class Revocation:
    """One way to take away what a caller sees, and to give it back."""

    name: str
    grant: Callable[[], object]
    revoke: Callable[[], object]  # they may not see from when it returns


class Measurement:
    """Revokes what one caller sees of a secret, and asks until it is gone."""

    def __init__(self, doors: Doors, secret: Secret) -> None:
        self._doors, self._secret = doors, secret
        self._watch = Watch({secret.source.id: secret}, [secret.source])

    def measure(self, revocation: Revocation, count: int) -> dict[str, list[float]]:
        """Seconds until it is gone, by interface, so many times."""
        revocation.grant()
        attempts = self._find_answers()
        took: dict[str, list[float]] = {door: [] for door in _DOORS}
        for door, attempt in attempts.items():
            for _ in range(count):
                revocation.grant()
                self._ask_until(attempt, seen=True)
                revocation.revoke()
                took[door].append(self._ask_until(attempt, seen=False))
                assert not self._is_seen(attempt), "it is back"
        return took

    def _ask_until(self, attempt: Attempt, *, seen: bool) -> float:
        """Seconds from now until an answer has it, or has it no more."""
        start = time.perf_counter()
        while self._is_seen(attempt) != seen:
            assert time.perf_counter() < start + _PATIENCE_S, (attempt, seen)
        return time.perf_counter() - start

    def _is_seen(self, attempt: Attempt) -> bool:
        return self._watch.found(attempt, self._doors.send(attempt).text) is not None

    def _find_answers(self) -> dict[str, Attempt]:
        """An attempt by each interface that shows it, as long as it is granted."""
        found: dict[str, Attempt] = {}
        for attempt in Intruder(1, [self._secret]).attempts(300, _DOORS):
            if attempt.door not in found and self._is_seen(attempt):
                found[attempt.door] = attempt
        assert found.keys() == set(_DOORS), found
        return found


def print_revocations(world: World, project: RepositoryProject, folder: Path, count: int) -> None:
    """Revoke in each way, as often as `count` says at each interface."""
    table = Table(title=f"Seconds from revoked to gone, median and most of {count}, {describe_machine()}")
    table.add_column("revoked")
    for door in _DOORS:
        table.add_column(door, justify="right")
    with ExitStack() as servers:
        for measurement, revocations in (
            _open_declared(servers, world, folder / "declared"),
            _open_repository(servers, project),
        ):
            for revocation in revocations:
                took = measurement.measure(revocation, count).values()
                cells = [f"{statistics.median(each):.2f}, {max(each):.2f}" for each in took]
                table.add_row(revocation.name, *cells)
    Console(width=130).print(table)


def _open_declared(servers: ExitStack, world: World, root: Path) -> tuple[Measurement, Iterator[Revocation]]:
    shutil.copytree(world.root, root)
    config, secret = root / "knowledge.yaml", secrets_of(world)[_REVOKED.id]
    server = servers.enter_context(Running(file.load_settings(config), config=config))
    doors = Doors(server, world.tokens["public"], Access.public())
    return Measurement(doors, secret), _list_declared(config)


def _list_declared(config: Path) -> Iterator[Revocation]:
    """A public source that is made private in knowledge.yaml."""
    public = config.read_text()
    declared = json.loads(public)
    next(each for each in declared["sources"] if each["id"] == _REVOKED.id)["access"] = _PRIVATE
    lake, source_folder = Lake(file.load_settings(config).store), config.parent / _REVOKED.id

    def declare(text: str) -> Settings:
        config.write_text(text)
        return file.load_settings(config)

    def release(text: str) -> int:
        settings = declare(text)
        _refresh(lake, settings, _REVOKED.id)
        return find_live_release(lake).release

    def revoke_and_refuse() -> None:
        _refuse_release(lake, declare(json.dumps(declared)), _REVOKED.id)

    def revoke_and_roll_back() -> None:
        before = find_live_release(lake).release
        release(json.dumps(declared))
        roll_back_release(lake, file.load_settings(config), before, pin=False)

    source_folder.rename(config.parent / "away")
    yield Revocation(
        "in knowledge.yaml, the source is down",
        lambda: declare(public),
        lambda: declare(json.dumps(declared)),
    )
    (config.parent / "away").rename(source_folder)
    grant = lambda: release(public)  # noqa: E731
    yield Revocation("in knowledge.yaml, the release is refused", grant, revoke_and_refuse)
    yield Revocation("in knowledge.yaml, then rolled back", grant, revoke_and_roll_back)


def _open_repository(
    servers: ExitStack, project: RepositoryProject
) -> tuple[Measurement, Iterator[Revocation]]:
    _, ada = TokenStore(project.lake).create("ada", tenant="acme", principals=["ada@example.org"])
    server = servers.enter_context(Running(project.settings, config=project.config))
    doors = Doors(server, ada, Access("acme", frozenset({"ada@example.org"})))
    return Measurement(doors, project.secret()), _list_of_source(project)


def _list_of_source(project: RepositoryProject) -> Iterator[Revocation]:
    """A collaborator of a private repository who is removed at its host; the source is then refreshed."""
    lake = project.lake

    def grant() -> None:
        project.declare(("code",))
        project.host.admit("ada")
        project.refresh()

    def revoke() -> None:
        project.host.admit("ben")
        project.refresh()

    def revoke_and_refuse() -> None:
        project.host.admit("ben")
        _refuse_release(lake, project.settings, project.settings.sources[0].id)

    def revoke_and_roll_back() -> None:
        before = find_live_release(lake).release
        project.repository.write({"shop/more.py": f"COUNT = {before}\n"})
        project.repository.commit("More")
        revoke()
        roll_back_release(lake, project.settings, before, pin=False)

    yield Revocation("at the source", grant, revoke)
    yield Revocation("at the source, the release is refused", grant, revoke_and_refuse)
    yield Revocation("at the source, then rolled back", grant, revoke_and_roll_back)
    private = {"visibility": "private", "principals": ["auditor"]}
    yield Revocation(
        "at the source, which is down: made private in knowledge.yaml",
        grant,
        lambda: project.declare(("code",), **private),
    )


def _refresh(lake: Lake, settings: Settings, source: str) -> None:
    outcome = pipeline.refresh(lake, settings, settings.select_sources([source]))
    assert not outcome.failures, outcome.failures


def _refuse_release(lake: Lake, settings: Settings, source: str) -> None:
    """Refresh a source without releasing it, and have a damaged index refused."""
    [found] = settings.select_sources([source])
    run = pipeline.SourceRefresh(RefreshContext(lake, settings, found))
    list(run.cut_and_index_words())
    list(run.finish())
    [(space, dimensions)] = lake.list_spaces().items()
    table = lake.index(space, dimensions)
    table.delete_where(one_of("id", table.read_rows(["id"], eq("source", source)).to_pydict()["id"][:1]))
    try:
        pipeline.refresh_release(lake, settings)
    except ReleaseRefused:
        return
    raise AssertionError("the damaged index was released")
