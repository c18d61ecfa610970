"""Which lines tests ran, read from a Cobertura `coverage.xml` or an lcov file."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from knowledge_pipeline.errors import ConfigError

_LineHit = tuple[str, int, bool]  # file, line, whether a test ran it


class CoverageReport:
    """Which lines the tests ran, by file."""

    def __init__(self, hits: Iterable[_LineHit]) -> None:
        lines: dict[str, dict[int, bool]] = {}
        for path, line, is_run in hits:
            of_file = lines.setdefault(_normalize_path(path), {})
            of_file[line] = of_file.get(line, False) or is_run
        self._lines = {path: sorted(runs.items()) for path, runs in lines.items()}
        self._by_name: dict[str, list[str]] = {}
        for path in self._lines:
            self._by_name.setdefault(path.rpartition("/")[2], []).append(path)

    @classmethod
    def read(cls, path: Path) -> CoverageReport:
        """Read a report in either format.

        Raises:
            ConfigError: the file cannot be read, or is neither format.
        """
        try:
            content = path.read_bytes()
        except OSError as error:
            raise ConfigError(
                f"the coverage report {path} cannot be read ({error.strerror}): correct metadata.coverage"
            ) from error
        if content.lstrip()[:1] == b"<":
            return cls(_parse_cobertura(content, path))
        if any(line.startswith(b"SF:") for line in content.splitlines()):
            return cls(_parse_lcov(content.decode("utf-8", "replace").splitlines()))
        raise ConfigError(
            f"the coverage report {path} is neither Cobertura XML nor lcov: correct metadata.coverage"
        )

    def share_of_lines(self, path: str, start_line: int, end_line: int) -> float | None:
        """Share of the measured lines within the given ones, both inclusive, that the tests ran.

        `path` may be longer or shorter than the report's by leading folders, as long as
        only one file of the report matches. None: no line there was measured.
        """
        lines = self._lines.get(self._find_reported_path(_normalize_path(path)) or "", [])
        measured = lines[bisect_left(lines, (start_line,)) : bisect_right(lines, (end_line, True))]
        return round(sum(is_run for _, is_run in measured) / len(measured), 4) if measured else None

    def _find_reported_path(self, path: str) -> str | None:
        if path in self._lines:
            return path
        same_name = self._by_name.get(path.rpartition("/")[2], [])
        similar = [
            reported
            for reported in same_name
            if reported.endswith(f"/{path}") or path.endswith(f"/{reported}")
        ]
        return similar[0] if len(similar) == 1 else None


def _normalize_path(path: str) -> str:
    return path.replace("\\", "/").removeprefix("./")


def _parse_cobertura(content: bytes, path: Path) -> Iterator[_LineHit]:
    etree: Any = import_module("lxml.etree")  # has no types
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    try:
        root = etree.fromstring(content, parser)
    except etree.XMLSyntaxError as error:
        raise ConfigError(
            f"the coverage report {path} is broken XML ({error.msg}): correct metadata.coverage"
        ) from error
    for of_file in root.iter("class"):
        filename = of_file.get("filename", "")
        for line in of_file.iter("line"):
            number, hits = line.get("number", ""), line.get("hits", "")
            if filename and number.isdecimal():
                yield filename, int(number), hits not in ("", "0")


def _parse_lcov(lines: Iterable[str]) -> Iterator[_LineHit]:
    path = ""
    for line in lines:
        if line.startswith("SF:"):
            path = line[3:].strip()
        elif line.startswith("DA:") and path:
            number, _, hits = line[3:].partition(",")
            if number.isdecimal():
                yield path, int(number), hits.split(",")[0].strip() not in ("", "0")
