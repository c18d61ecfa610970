"""The sources of knowledge.yaml as they are declared now: who may see which, and who manages which.

A row says who may see it as the configuration was when the row was written. Where the configuration is
stricter now, it decides, before any refresh and after a rollback; where it is wider, the row does.

A caller who sees everything manages all sources. A tenant's caller manages those of the tenant, and
can only have them refreshed: whoever declares a source names files, addresses and secrets of the server.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

from knowledge_pipeline.config import file
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.config.sources import AccessSettings, SourceConfig
from knowledge_pipeline.errors import ConfigError, Forbidden, NotFound
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.store.listings import fetch_listings

_log = logging.getLogger(__name__)


class DeclaredSources:
    """The sources of one file, read again when it changes. Threads may share it.

    Args:
        config_path: the knowledge.yaml; None: there is none, and nothing changes.
        declared: its sources when it was last read.
    """

    def __init__(self, config_path: Path | None, declared: tuple[SourceConfig, ...] = ()) -> None:
        self._config_path = config_path
        self._declared = declared
        self._loaded: Settings | None = None
        self._warned_of = ""

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
        known, path = self._loaded, self.path
        if known:
            fetch_listings(known, in_background=True)
        stamp = file.read_stamp(path, known or Settings())
        if not stamp:
            raise ConfigError("the server's knowledge.yaml cannot be read")
        if known is None or known.stamp != stamp:
            self._loaded = file.load_settings(path, allow_unset=True)
            self._declared = self._loaded.sources
        return self._declared

    def narrow(self, access: Access) -> Access:
        """The access without the sources that are declared to be seen by others alone.

        While the file is wrong, what it said last counts, and the log tells.
        """
        if access.everything:
            return access
        known = self.list_known()
        withheld = frozenset(each.id for each in known if not _is_for(each.access, access))
        by_audience = frozenset(
            each.id
            for each in known
            if each.access.visibility == "from_source"
            and access.principals.isdisjoint(each.access.principals)
        )
        return replace(access, withheld_sources=withheld, audience_sources=by_audience - withheld)

    def list_known(self) -> tuple[SourceConfig, ...]:
        """As `sources`; while the file is wrong, what it said last, and the log tells."""
        if self._config_path is None:
            return self._declared
        try:
            return self.sources()
        except ConfigError as error:
            if self._warned_of != str(error):
                self._warned_of = str(error)
                _log.warning("access is decided by the configuration as it was last read: %s", error)
            return self._declared

    def list_managed(self, access: Access) -> tuple[SourceConfig, ...]:
        """Those that a caller may have refreshed; raises as `sources` does."""
        if access.everything:
            return self.sources()
        return tuple(each for each in self.sources() if access.tenant and each.access.tenant == access.tenant)

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


def sees_whole_source(declared: AccessSettings, access: Access) -> bool:
    """Whether a caller may know what concerns all documents of a source."""
    by_document = declared.visibility == "from_source" and access.principals.isdisjoint(declared.principals)
    return access.everything or (_is_for(declared, access) and not by_document)


def _is_for(declared: AccessSettings, access: Access) -> bool:
    """Whether a source is declared for a caller; the same rule as `build_visibility_filter` for rows."""
    if declared.visibility == "public":
        return True
    is_of_tenant = access.tenant is not None and access.tenant == declared.tenant
    return is_of_tenant and (
        declared.visibility in ("tenant", "from_source")  # of the latter, each document has its audience
        or not access.principals.isdisjoint(declared.principals)
    )
