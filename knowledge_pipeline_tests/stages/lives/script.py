"""The life that documents of every source live.

    with MyOrigin() as origin:
        live(Life(origin, root, embedding))  # or `live_briefly`

An `Origin` is a place that documents are read from, as its owner changes it: a folder, a repository, a fake
of a service. The script changes it step by step. After every refresh the tables are those that a full index
of the same state leaves, and what a question finds is what the origin has. A fault of the origin is one
sentence that names it, and takes nothing away.

Nothing here is a fixture: whoever writes a source of their own imports it and calls it with their origin.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from knowledge_pipeline.connectors import http_retry
from knowledge_pipeline.maintenance import purge_documents
from knowledge_pipeline_tests.conftest import tables
from knowledge_pipeline_tests.stages.lives.life import Life
from knowledge_pipeline_tests.stages.lives.origin import FAULTS, Origin, require_complete

__all__ = ["FAULTS", "STEPS", "Life", "Origin", "live", "live_briefly", "require_complete"]


def documents_appear(life: Life) -> None:
    """What is created is found."""
    create_over_time(life, "Night shift", "Harbour rota", "Fog signal", "Supply run")
    life.refresh()
    life.require_found()


def create_over_time(life: Life, *titles: str) -> None:
    """New documents, the last of them so late that a listing of updates since then has none of the others."""
    for title in titles:
        if title == titles[-1]:
            life.origin.let_time_pass()
        life.create(title)


def a_second_refresh_changes_nothing(life: Life) -> None:
    """Tables of a source that did not change stay as they are."""
    before = tables(life.project)
    life.refresh(due=True, compared=False)
    assert tables(life.project) == before


def a_document_is_edited(life: Life) -> None:
    """It is found by its new text, and no longer by its former one."""
    former = life.edit(next(iter(life.texts)))
    life.refresh()
    life.require_found()
    life.require_gone(former)


def a_document_is_renamed(life: Life) -> None:
    """It is there once, by its new name."""
    if life.origin.can("rename"):
        life.rename(list(life.texts)[1], "Morning watch")
        life.refresh(due=True)
        life.require_found()


def a_document_is_removed(life: Life) -> None:
    """It is archived: out of every search that does not ask for it."""
    if life.origin.can("remove"):
        former = life.remove(list(life.texts)[-1])
        life.refresh(due=True)
        life.require_gone(former)
        life.require_found()
        life.require_found(former, archived=True)


def what_is_archived_is_purged(life: Life) -> None:
    """After that the tables are those of a store that never had it."""
    purge_documents(life.project.lake, life.project.settings, "life")
    life.refresh(compared=False)
    life.require_full_index(archived=True)
    life.require_found()


def a_document_leaves_the_filter_and_comes_back(life: Life) -> None:
    """What is ignored, or no longer chosen, is archived; chosen again, it is found again."""
    if not life.origin.can("hide"):
        return
    key = next(iter(life.texts))
    life.configure(**life.origin.hide(key))
    text = life.texts.pop(key)
    life.refresh(due=True)
    life.require_gone(text)
    life.configure()
    life.origin.show(key)
    life.texts[key] = text
    life.refresh(due=True)
    life.require_found()


def a_document_breaks_and_is_repaired(life: Life) -> None:
    """It is skipped with a reason, and the others go on."""
    if not life.origin.can("spoil"):
        return
    key = next(iter(life.texts))
    life.origin.spoil(key)
    former, life.unreadable = life.texts.pop(key), 1
    life.refresh(due=True)
    life.require_gone(former)
    life.require_found()
    life.texts[key], life.unreadable = life.write(), 0
    life.origin.restore(key, life.texts[key])
    life.refresh(due=True)
    life.require_found()


def each_fault_takes_nothing_away(life: Life) -> None:
    """Whatever is wrong with the origin, what was there is found, and the next refresh is whole."""
    for name in FAULTS:
        if life.origin.can(name):
            life.create(f"While {name}")
            endure(life, name)
            life.refresh(due=True, compared=False)
    life.require_full_index()
    life.require_found()


def endure(life: Life, name: str) -> None:
    """Refresh while something is wrong with the origin."""
    expected = {**FAULTS, **life.origin.errors}[name]
    before, live = tables(life.project), life.live_uris()
    with life.origin.faults[name](), quick_retries():
        life.configure()  # some are at another address meanwhile
        if expected is None:
            life.refresh(due=True, compared=False)
            return
        error = life.fail()
    life.configure()
    assert isinstance(error, expected), f"{name}: {error!r}"
    require_sentence(str(error), life.origin.names)
    if name == "partial":  # what was read before it broke off is kept
        assert live <= life.live_uris()
    else:
        assert tables(life.project) == before, name


def everything_vanishes(life: Life) -> None:
    """A listing of nothing is no evidence: it is refused, and nothing is archived."""
    if not life.origin.can("empty"):
        return
    kept = list(life.texts.values())
    for key in list(life.texts):
        life.remove(key)
    before = tables(life.project)
    error = life.fail()
    assert "allow-empty" in str(error), error
    require_sentence(str(error), ["'life'"])
    assert tables(life.project) == before
    life.require_found(*kept)
    life.create("First of all")
    life.refresh(due=True)
    life.require_found()
    life.require_gone(*kept)


STEPS: Sequence[Callable[[Life], None]] = (
    documents_appear,
    a_second_refresh_changes_nothing,
    a_document_is_edited,
    a_document_is_renamed,
    a_document_is_removed,
    what_is_archived_is_purged,
    a_document_leaves_the_filter_and_comes_back,
    a_document_breaks_and_is_repaired,
    each_fault_takes_nothing_away,
    everything_vanishes,
)


def live(life: Life) -> None:
    """Every step, and no secret of the origin in what was written or said."""
    with keep_logs() as logs:
        for step in STEPS:
            step(life)
        life.told += [*logs, repr(life.project.settings)]
    require_no_secret(life)


def live_briefly(life: Life) -> None:
    """The essence of it: some documents change at once, and the origin refuses us."""
    create_over_time(life, "Night shift", "Harbour rota", "Fog signal")
    life.refresh(compared=False)
    first, second, third = life.texts
    former = life.edit(first)
    life.create("Supply run")
    life.refresh(compared=False)  # of a service, by its updates alone
    if life.origin.can("rename"):
        life.rename(second, "Morning watch")
    removed = [life.remove(third)] if life.origin.can("remove") else []
    life.refresh(due=True)
    life.require_found()
    life.require_gone(former, *removed)
    life.require_found(*life.texts.values(), *removed, archived=True)
    endure(life, next(name for name in ("forbidden", "denied", "missing") if life.origin.can(name)))


def require_sentence(message: str, names: Sequence[str]) -> None:
    """An error is one sentence, which names its source."""
    assert "\n" not in message, message
    assert "Traceback" not in message, message
    assert len(message) < 500, message
    assert any(name in message for name in names), (message, names)


def require_no_secret(life: Life) -> None:
    """No secret of the origin is in any file, log or error."""
    files = [path for path in life.project.root.rglob("*") if path.is_file()]
    assert len(files) > 10
    for secret in life.origin.secrets:
        for text in life.told:
            assert secret not in text
        for path in files:
            assert secret.encode() not in path.read_bytes(), path


@contextmanager
def quick_retries() -> Iterator[None]:
    """Pauses that nobody asked for last a hundredth of a second at most."""
    usual, http_retry._BASE_BACKOFF_S = http_retry._BASE_BACKOFF_S, 0.0003  # pyright: ignore[reportPrivateUsage]
    try:
        yield
    finally:
        http_retry._BASE_BACKOFF_S = usual  # pyright: ignore[reportPrivateUsage]


@contextmanager
def keep_logs() -> Iterator[list[str]]:
    """Everything that is logged meanwhile, down to DEBUG; pytest does not format it as well."""
    kept: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            kept.append(self.format(record))

    root, handler = logging.getLogger(), Keep()
    usual, handlers = root.level, list(root.handlers)
    root.handlers[:] = [handler]
    root.setLevel(logging.DEBUG)
    try:
        yield kept
    finally:
        root.handlers[:] = handlers
        root.setLevel(usual)
