"""Slack exports as origins: after every change somebody puts a new export at the same path."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

from knowledge_pipeline.errors import KnowledgeError, SourceRefused
from knowledge_pipeline_tests.fakes.slack.site import SlackSite, write_export, zipped
from knowledge_pipeline_tests.stages.lives.files import elsewhere
from knowledge_pipeline_tests.stages.lives.origin import Fault, Origin

_ON_THIS_MACHINE = dict.fromkeys(
    ("denied", "forbidden", "unavailable", "unreachable", "busy"), "it is on this machine"
)


class SlackExportOrigin(Origin):
    """A workspace, each thread on a day of its own; `is_zip`: as it was downloaded, else unpacked."""

    cannot: ClassVar[Mapping[str, str]] = {**_ON_THIS_MACHINE, "hide": "a thread stays in its channel"}
    errors: ClassVar[Mapping[str, type[KnowledgeError] | None]] = {
        "partial": SourceRefused
    }  # the file has to be downloaded again

    def __init__(self, root: Path, *, is_zip: bool) -> None:
        self._folder, self._is_zip = root / "export", is_zip
        self._site = SlackSite()
        self._site.now = datetime.now(UTC) - timedelta(days=40)
        self._broken: set[str] = set()  # the days of threads that cannot be read
        self._write()

    @property
    def path(self) -> Path:
        """The zip file or folder."""
        return self._folder.with_suffix(".zip") if self._is_zip else self._folder

    def declare(self) -> dict[str, Any]:
        return {"type": "slack", "connection": {"type": "slack_export", "path": str(self.path)}}

    @property
    def names(self) -> Sequence[str]:
        return [str(self.path)]

    @property
    def faults(self) -> Mapping[str, Fault]:
        return {"missing": lambda: elsewhere(self.path), "partial": self._truncate}

    def create(self, title: str, text: str) -> str:
        assert self._site.now is not None
        self._site.now += timedelta(days=1)
        key = self._site.create(title, text)
        self._write()
        return key

    def edit(self, key: str, text: str) -> None:
        self._site.edit(key, text)
        self._write()

    def rename(self, key: str, title: str) -> str:
        _, channel, ts = key.split("/")
        text = self._site.rooms[channel].messages[ts]["text"].partition("\n")[2]
        self._site.rewrite(ts, f"{title}\n{text}", channel)
        self._write()
        return key

    def remove(self, key: str) -> None:
        self._site.delete(key)
        self._write()

    def spoil(self, key: str) -> None:
        self._broken.add(key)
        self._write()

    def restore(self, key: str, text: str) -> None:
        self._broken.remove(key)
        self.edit(key, text)

    def _write(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        write_export(self._site, self._folder)
        for key in self._broken:
            day = datetime.fromtimestamp(float(key.split("/")[2]), UTC).date()
            (self._folder / "general" / f"{day}.json").write_text("[{")
        if self._is_zip:
            zipped(self._folder)

    @contextmanager
    def _truncate(self) -> Iterator[None]:
        """Half of the zip file, or of the list of channels, has arrived."""
        path = self.path if self._is_zip else self._folder / "channels.json"
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2])
        yield
        path.write_bytes(whole)
