"""Reading coverage reports."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowledge_pipeline.chunking.coverage import CoverageReport
from knowledge_pipeline.errors import ConfigError

COBERTURA = """<?xml version="1.0" ?>
<!DOCTYPE coverage SYSTEM "http://cobertura.sourceforge.net/xml/coverage-04.dtd">
<coverage version="7.6"><sources><source>/builds/app</source></sources><packages><package name="app"><classes>
<class name="store.py" filename="app/store.py"><methods/><lines>
<line number="1" hits="1"/><line number="3" hits="0"/><line number="5" hits="7" branch="true"/>
</lines></class>
<class name="util.py" filename="a/util.py"><lines><line number="1" hits="1"/></lines></class>
<class name="util.py" filename="b/util.py"><lines><line number="1" hits="0"/></lines></class>
</classes></package></packages></coverage>
"""

LCOV = (
    "TN:\nSF:./app/store.js\nFN:1,f\nDA:1,1\nDA:3,0\nDA:5,7,abc\nLF:3\nend_of_record\nSF:other.js\nDA:1,0\n"
)


def report(folder: Path, content: str) -> CoverageReport:
    path = folder / "report"
    path.write_text(content, "utf-8")
    return CoverageReport.read(path)


@pytest.mark.parametrize(("content", "path"), [(COBERTURA, "app/store.py"), (LCOV, "app/store.js")])
def test_coverage_is_the_share_of_measured_lines_that_ran(tmp_path, content, path):
    coverage = report(tmp_path, content)
    assert coverage.share_of_lines(path, 1, 10) == pytest.approx(2 / 3, abs=1e-4)
    assert coverage.share_of_lines(path, 1, 1) == 1.0
    assert coverage.share_of_lines(path, 2, 4) == 0.0
    assert coverage.share_of_lines(path, 6, 9) is None
    assert coverage.share_of_lines("app/none.py", 1, 9) is None


def test_a_path_may_lack_or_have_leading_folders(tmp_path):
    coverage = report(tmp_path, COBERTURA)
    assert coverage.share_of_lines("src/app/store.py", 1, 1) == 1.0
    assert coverage.share_of_lines("store.py", 1, 1) == 1.0
    assert coverage.share_of_lines("xstore.py", 1, 1) is None


def test_a_path_that_may_mean_two_files_means_none(tmp_path):
    coverage = report(tmp_path, COBERTURA)
    assert coverage.share_of_lines("util.py", 1, 1) is None
    assert coverage.share_of_lines("b/util.py", 1, 1) == 0.0


def test_lines_measured_twice_ran_if_they_ran_once(tmp_path):
    assert (
        report(tmp_path, "SF:a\nDA:1,0\nend_of_record\nSF:a\nDA:1,2\nend_of_record\n").share_of_lines(
            "a", 1, 1
        )
        == 1.0
    )


@pytest.mark.parametrize(
    ("content", "reason"),
    [("<coverage><packages>", "broken XML"), ("nothing", "neither Cobertura XML nor lcov"), ("", "neither")],
)
def test_a_broken_report_is_refused_by_name(tmp_path, content, reason):
    with pytest.raises(ConfigError, match=rf"report .*{reason}.*correct metadata\.coverage"):
        report(tmp_path, content)


def test_a_missing_report_is_refused_by_name(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        CoverageReport.read(tmp_path / "none.xml")


def test_entities_are_not_expanded(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("app/store.py")
    entity = f'<!ENTITY e SYSTEM "{secret.as_uri()}">'
    content = f'<!DOCTYPE c [{entity}]><c><class filename="a"><lines>&e;</lines></class></c>'
    assert report(tmp_path, content).share_of_lines("app/store.py", 1, 9) is None


def test_a_bomb_of_entities_is_refused(tmp_path):
    bomb = '<!DOCTYPE c [<!ENTITY a "aaaaaaaaaa">' + "".join(
        f'<!ENTITY {name} "{f"&{before};" * 50}">' for before, name in zip("abcdef", "bcdefg", strict=True)
    )
    with pytest.raises(ConfigError, match="broken XML"):
        report(tmp_path, f"{bomb}]><c><class filename='a'><lines>&g;</lines></class></c>")
