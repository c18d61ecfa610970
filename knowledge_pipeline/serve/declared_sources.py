"""The sources of knowledge.yaml as they are declared now, and who of a server's callers manages which.

A caller who sees everything manages all of them. Anybody else manages those of their own tenant, and
can only have them refreshed: whoever declares a source names files, addresses and secrets of the server.
"""

from __future__ import annotations

from pathlib import Path

from knowledge_pipeline.config import file
from knowledge_pipeline.config.settings import SourceConfig
from knowledge_pipeline.errors import ConfigError, Forbidden, NotFound
from knowledge_pipeline.query.access import Access


class DeclaredSources:
    """The sources of one file, read again when it changes. Threads may share it."""

    def __init__(self, config_path: Path | None) -> None:
        self._config_path = config_path
        self._cached: tuple[tuple[int, int], tuple[SourceConfig, ...]] | None = None

    @property
    def path(self) -> Path:
        """The file. Raises `ConfigError` where the server has none."""
        if self._config_path is None:
            raise ConfigError("this server was started without a knowledge.yaml: it declares no sources")
        return self._config_path

    def sources(self) -> tuple[SourceConfig, ...]:
        """All of them, secrets aside.

        Raises:
            ConfigError: there is no file, or it is wrong.
        """
        try:
            stat = self.path.stat()
        except OSError:
            raise ConfigError("the server's knowledge.yaml cannot be read") from None
        mark = stat.st_mtime_ns, stat.st_size
        if self._cached is None or self._cached[0] != mark:
            self._cached = mark, file.load_settings(self.path, allow_unset=True).sources
        return self._cached[1]

    def list_managed(self, access: Access) -> tuple[SourceConfig, ...]:
        """Those that a caller may have refreshed; raises as `sources` does."""
        return tuple(
            each for each in self.sources() if access.everything or each.access.tenant == access.tenant
        )

    def find_managed(self, access: Access, name: str) -> tuple[SourceConfig, ...]:
        """The one of an id, else all of a type, of those that a caller manages.

        Raises:
            NotFound: there is none.
            ConfigError: see `sources`.
        """
        managed = self.list_managed(access)
        found = [each for each in managed if each.id == name]
        found = found or [each for each in managed if each.type == name]
        if not found:
            raise NotFound(f"there is no source, and no type with a source, called {name[:200]!r}")
        return tuple(found)


def require_manage_all(access: Access) -> None:
    """Raise `Forbidden` unless a caller may declare and remove sources."""
    if not access.everything:
        raise Forbidden("sources are declared and removed with a token that sees everything: `--everything`")
