"""Filters against a real table, with plain Python as the oracle; injection changes nothing."""

from __future__ import annotations

import json
import re
import tempfile
from datetime import UTC, datetime
from fnmatch import fnmatch
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pathspec import GitIgnoreSpec

from knowledge_pipeline.store import filters, schemas
from knowledge_pipeline.store.tables import Table
from knowledge_pipeline_tests.thoroughness import examples

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), False, metadata={"lance-schema:unenforced-primary-key:position": "1"}),
        pa.field("path", pa.string()),
        pa.field("tags", pa.list_(pa.field("item", pa.string()))),
        pa.field("at", pa.timestamp("us", "UTC")),
    ],
    metadata={"knowledge_schema": schemas.VERSION},
)
NASTY = [
    "' OR true --",
    "a'b",
    'a"b',
    "a\\b",
    "%",
    "_",
    "é😀",
    "a/b(c)[d].py",
    "",
    "x;y",
    "a\nb",
    "tag, other",
]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    made = Table(tmp_path_factory.mktemp("filters") / "t.lance", SCHEMA)
    now = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
    rows = [{"id": str(at), "path": name, "tags": [name, "all"], "at": now} for at, name in enumerate(NASTY)]
    rows.append({"id": "null", "path": None, "tags": [], "at": None})
    made.append([pa.RecordBatch.from_pylist(rows, schema=SCHEMA)])
    return made


@pytest.mark.parametrize("value", NASTY)
def test_a_value_finds_itself_and_nothing_else(table: Table, value: str) -> None:
    assert table.read_rows(["path"], filters.eq("path", value))["path"].to_pylist() == [value]
    assert table.read_rows(["path"], filters.one_of("path", [value]))["path"].to_pylist() == [value]
    assert table.read_rows(["path"], filters.has_any("tags", [value]))["path"].to_pylist() == [value]


@settings(max_examples=examples(50), deadline=None)
@given(st.text(max_size=20).filter(lambda text: text not in NASTY and "\x00" not in text))
def test_any_other_text_finds_nothing(table: Table, value: str) -> None:
    assert table.count_rows(filters.eq("path", value)) == 0


def test_a_column_name_cannot_carry_a_condition() -> None:
    with pytest.raises(ValueError, match="not a column name"):
        filters.eq("path = '' OR id", "x")


def test_all_values_have_to_be_there(table: Table) -> None:
    first, second = NASTY[:2]
    found = table.read_rows(["path"], filters.has_all("tags", [first, "all"]))
    assert found["path"].to_pylist() == [first]
    assert table.count_rows(filters.has_all("tags", [first, second])) == 0
    assert table.count_rows(filters.has_all("tags", [])) == table.count_rows()
    assert table.count_rows(filters.any_of([filters.eq("path", each) for each in NASTY])) == len(NASTY)


def test_no_values_match_nothing(table: Table) -> None:
    assert table.count_rows(filters.one_of("path", [])) == table.count_rows(filters.has_any("tags", [])) == 0


def test_conditions_combine_as_logic_does(table: Table) -> None:
    both = filters.eq("path", "%") | filters.eq("path", "_")
    assert table.count_rows(both) == 2
    assert table.count_rows(both & filters.eq("path", "%")) == 1
    assert table.count_rows(~both & ~filters.is_null("path")) == len(NASTY) - 2


def test_times_compare_to_the_microsecond(table: Table) -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
    assert table.count_rows(filters.at_least("at", at)) == len(NASTY)
    assert table.count_rows(filters.at_least("at", at.replace(microsecond=7))) == 0
    assert table.count_rows(filters.below("at", at)) == 0


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("src/auth", "src/auth/a.py", True),
        ("src/auth/", "src/auth/a.py", True),
        ("src/auth", "src/author.py", False),
        ("src/auth", "src/auth", True),
        ("*.py", "a.py", True),
        ("*.py", "src/a.py", False),
        ("**/*.py", "a.py", True),
        ("**/*.py", "src/x/a.py", True),
        ("src/**", "src/x/a.py", True),
        ("src/?.py", "src/a.py", True),
        ("src/?.py", "src//.py", False),
        ("a+b(c).py", "a+b(c).py", True),
        ("a.py", "axpy", False),
    ],
)
def test_globs_match_paths(tmp_path: Path, pattern: str, path: str, matches: bool) -> None:
    table = Table(tmp_path / "t.lance", SCHEMA)
    table.append(
        [pa.RecordBatch.from_pylist([{"id": "1", "path": path, "tags": [], "at": None}], schema=SCHEMA)]
    )
    assert table.count_rows(filters.glob("path", pattern)) == int(matches)
    if "/" not in path and "**" not in pattern and "(" not in pattern:
        assert fnmatch(path, pattern) == matches


SEGMENTS = st.sampled_from(["src", "a.py", "b.go", "x", "test_a.py"])
PATTERN_PARTS = st.sampled_from(["src", "*.py", "a.p?", "**", "*", "test_*", "x", "[ab].*", "a**y", "b.go"])


@settings(max_examples=examples(300), deadline=None)
@given(
    st.lists(PATTERN_PARTS, min_size=1, max_size=4),
    st.sampled_from(["", "/"]),
    st.sampled_from(["", "/"]),
    st.lists(st.lists(SEGMENTS, min_size=1, max_size=4), min_size=1, max_size=5),
)
@example(["*.py"], "", "", [["src", "a.py"], ["a.py"]])
@example(["src"], "/", "", [["src", "a.py"], ["x", "src", "a.py"]])
@example(["src", "*"], "", "", [["src", "x", "a.py"]])
@example(["src"], "", "/", [["src"], ["x", "src", "a.py"]])
@example(["**"], "", "/", [["src"], ["src", "a.py"], ["x", "src", "a.py"]])
def test_a_pattern_of_paths_means_what_git_says(parts, before, after, paths):
    """The oracle is what reads `.gitignore` for sources."""
    pattern = before + "/".join(parts) + after
    spec = GitIgnoreSpec.from_lines([pattern])
    expression = re.compile(filters.gitignore("path", pattern).patterns[0].pattern)
    for path in map("/".join, paths):
        assert bool(expression.search(path)) == bool(spec.match_file(path)), (pattern, path)  # None in 0.12


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("*.py", "src/a.py", True),
        ("/*.py", "src/a.py", False),
        ("auth.py", "src/auth.py", True),
        ("src/auth", "lib/src/auth/a.py", False),
        ("app/[slug]/page.tsx", "app/[slug]/page.tsx", True),
        ("[ab].py", "src/b.py", True),
        ("[z-a].py", "[z-a].py", True),
        ("a+b(c).py", "x/a+b(c).py", True),
    ],
)
def test_the_store_finds_paths_by_patterns_as_git_does(tmp_path, pattern, path, matches):
    table = Table(tmp_path / "t.lance", SCHEMA)
    row = {"id": "1", "path": path, "tags": [], "at": None}
    table.append([pa.RecordBatch.from_pylist([row], schema=SCHEMA)])
    assert table.count_rows(filters.gitignore("path", pattern)) == int(matches)
    listed = {**row, "path": json.dumps({"files": ["other", path]})}
    in_json = Table(tmp_path / "j.lance", SCHEMA)
    in_json.append([pa.RecordBatch.from_pylist([listed], schema=SCHEMA)])
    assert in_json.count_rows(filters.gitignore_in_json_list("path", "files", pattern)) == int(matches)


@pytest.mark.parametrize(
    ("path", "value", "found"),
    [
        ("lake.Store.get", "Store.get", True),
        ("Store.get", "Store.get", True),
        ("MyStore.get", "Store.get", False),
        ("lake.Storeyget", "Store.get", False),
        ("a.(x", "(x", True),
    ],
)
def test_the_end_of_a_dotted_name_matches_by_whole_parts(
    tmp_path: Path, path: str, value: str, found: bool
) -> None:
    made = Table(tmp_path / "t.lance", SCHEMA)
    made.append([pa.RecordBatch.from_pylist([{"id": "1", "path": path, "tags": []}], schema=SCHEMA)])
    assert made.count_rows(filters.ends_with_parts("path", value, ".")) == found


def test_a_folder_holds_what_is_below_it_and_no_neighbour(tmp_path: Path) -> None:
    made = Table(tmp_path / "t.lance", SCHEMA)
    paths = ["src/a.py", "src/x/b.py", "src2/c.py", "src", "lib/src/d.py"]
    rows = [{"id": path, "path": path, "tags": []} for path in paths]
    made.append([pa.RecordBatch.from_pylist(rows, schema=SCHEMA)])
    below = made.read_rows(["path"], filters.starts_with("path", "src/"))["path"].to_pylist()
    assert sorted(below) == ["src/a.py", "src/x/b.py"]
    assert made.count_rows(filters.starts_with_folded("path", "SRC/")) == 2


PATHS = [
    "src/a.py",
    "src/x/b.py",
    "src2/c.py",
    "src",
    "a.py",
    'q"uote/é😀.py',
    "back\\slash.py",
    "a, b",
    "x]y/z",
]
GLOBS = [
    "src",
    "src/",
    "**/*.py",
    "*.py",
    "src/**",
    "src/?.py",
    'q"uote',
    "**/é?.py",
    "back\\*",
    "a, b",
    "x]y",
    "*",
]


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.sampled_from(PATHS), max_size=3), st.sampled_from(GLOBS))
@example(['q"uote/é😀.py'], "**/é?.py")
@example(['q"uote/é😀.py'], "**/??.py")
@example(['q"uote/é😀.py'], "**/???.py")
def test_a_list_of_paths_in_json_matches_where_one_of_its_paths_does(paths: list[str], pattern: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = Table(Path(folder) / "t.lance", SCHEMA)
        stored = [{"id": str(at), "path": path, "tags": []} for at, path in enumerate(paths)]
        listed = json.dumps({"deletions": 1, "files": paths, "note": '"files": ["src/a.py"]', "other": PATHS})
        in_json = {"id": "json", "path": listed, "tags": []}
        table.append([pa.RecordBatch.from_pylist([*stored, in_json], schema=SCHEMA)])
        expected = table.count_rows(filters.gitignore("path", pattern) & ~filters.eq("id", "json")) > 0
        condition = filters.gitignore_in_json_list("path", "files", pattern) & filters.eq("id", "json")
        assert table.count_rows(condition) == expected


@pytest.mark.parametrize("constant", [filters.MATCH_ALL, filters.MATCH_NONE])
def test_a_constant_leaves_of_a_condition_what_logic_says(constant: filters.Filter) -> None:
    other = filters.eq("path", "a")
    is_all = constant == filters.MATCH_ALL
    assert constant & other == other & constant == (other if is_all else filters.MATCH_NONE)
    assert constant | other == other | constant == (filters.MATCH_ALL if is_all else other)
    assert ~~constant == constant != ~constant
