from __future__ import annotations

import difflib
import json
import os
import stat
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from knowledge_pipeline.config import file
from knowledge_pipeline.config.edit import add_source, insert_entry, remove_entry, remove_source
from knowledge_pipeline.config.problems import parse_config
from knowledge_pipeline.errors import ConfigError, NotFound
from knowledge_pipeline_tests.thoroughness import examples

SECRET = "hunter" + "2-and-more"
ENTRY = {
    "id": "new",
    "type": "files",
    "connection": {"type": "local", "path": "./files"},
    "exclude": ["*.tmp"],
}

HAIRY = """\
# Ours.   Do not touch.
version: 1   # the only one
store: 'tables'     # quoted

sources:   # all of them

  # ---- code ----

  # The main repository.
  # Two lines about it.
  - id: "code"      # quoted, too
    type: code
    connection: {type: local,   path: .}
    exclude:
      # generated
      - '*.min.js'

      - "vendor/"   # other people's
    # inside code, at its end

  # ---- history ----

  # About history.
  -
    # about its id
    id: history
    type: git_history
    since: >-
      180
      days
    connection:
      type: git
      url: https://example.com/a.git
      token: ${NOT_SET_ANYWHERE}
    chunking:

  # About docs.
  - type: markdown
    id: docs
    connection: &here
      type: local
      path: .
    include:
    - README.md
    - 'docs/**'
      # deeper than its list

  # - id: old
  #   type: files

# How questions are answered.
query:
  fusion: weighted # not reciprocal_rank
# The end.
"""


@pytest.fixture
def write(tmp_path):
    def written(text: str) -> Path:
        path = tmp_path / "knowledge.yaml"
        path.write_bytes(text.encode())
        return path

    return written


def changes(before: str, after: str) -> tuple[list[str], list[str]]:
    """The lines that went, and those that came."""
    lines = list(difflib.ndiff(before.splitlines(), after.splitlines()))
    return [x[2:] for x in lines if x[:2] == "- "], [x[2:] for x in lines if x[:2] == "+ "]


def ids(text: str) -> list[str]:
    return [source["id"] for source in parse_config(text, name="knowledge.yaml").value.get("sources") or []]


def edited(path: Path) -> str:
    return path.read_bytes().decode()


# removing


def test_removing_the_middle_takes_its_lines_and_comments_alone(write):
    path = write(HAIRY)
    remove_source(path, "history")
    start, end = HAIRY.index("  # About history."), HAIRY.index("  # About docs.")
    assert edited(path) == HAIRY[:start] + HAIRY[end:]


def test_removing_the_first_takes_its_lines_and_comments_alone(write):
    path = write(HAIRY)
    remove_source(path, "code")
    start, end = HAIRY.index("  # The main repository."), HAIRY.index("  # ---- history ----")
    assert edited(path) == HAIRY[:start] + HAIRY[end:]


def test_removing_the_last_takes_its_lines_and_comments_alone(write):
    path = write(HAIRY)
    remove_source(path, "docs")
    start, end = HAIRY.index("  # About docs."), HAIRY.index("  # - id: old")
    assert edited(path) == HAIRY[:start] + HAIRY[end:]


def test_removing_all_leaves_an_empty_list_and_every_other_comment(write):
    path = write(HAIRY)
    for source_id in ("docs", "code", "history"):
        remove_source(path, source_id)
    assert ids(edited(path)) == []
    assert "sources: []   # all of them\n" in edited(path)
    for kept in ("# ---- code ----", "# ---- history ----", "# - id: old", "# How questions", "# The end."):
        assert kept in edited(path)


def test_removing_what_is_not_there_changes_nothing(write):
    path = write(HAIRY)
    with pytest.raises(NotFound, match="no source 'nope'"):
        remove_source(path, "nope")
    assert edited(path) == HAIRY


def test_a_source_whose_anchor_others_use_stays(write):
    text = HAIRY.replace("connection: {type: local,   path: .}", "connection: *here")
    text = text.replace("connection: &here\n      type: local\n      path: .", "connection: *here")
    text = text.replace("    connection:\n      type: git", "    connection: &here\n      type: git")
    first = "\n  - {id: first, type: code, connection: &here {type: local, path: .}}\n"
    text = text.replace("sources:   # all of them\n", "sources:\n" + first)
    path = write(text)
    with pytest.raises(ConfigError, match="'first' was not removed, the rest needs it"):
        remove_source(path, "first")
    assert edited(path) == text


def test_an_invalid_source_can_be_removed(write):
    path = write(HAIRY.replace("type: git_history", "type: git_histroy"))
    remove_source(path, "history")
    assert ids(edited(path)) == ["code", "docs"]


def test_a_removal_that_leaves_an_invalid_file_is_refused_by_line(write):
    text = HAIRY.replace("fusion: weighted", "fusion: weihted")
    path = write(text)
    line = text.splitlines().index("  fusion: weihted # not reciprocal_rank") + 1
    with pytest.raises(ConfigError, match=rf"^knowledge.yaml:{line}: query.fusion: found 'weihted'"):
        remove_source(path, "code")
    assert edited(path) == text


# adding


def test_adding_puts_an_entry_behind_the_last_and_changes_nothing_else(write):
    path = write(HAIRY)
    add_source(path, ENTRY)
    at = HAIRY.index("\n  # - id: old")
    assert edited(path) == (
        HAIRY[:at]
        + "\n  - id: new\n    type: files\n    connection:\n      type: local\n      path: ./files\n"
        + "    exclude:\n      - '*.tmp'\n"
        + HAIRY[at:]
    )


def test_adding_and_removing_gives_the_old_text_back(write):
    path = write(HAIRY)
    add_source(path, ENTRY)
    remove_source(path, "new")
    assert edited(path) == HAIRY


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# nothing yet\n",
        "version: 1",
        "sources:\n",
        "sources: # none\n",
        "sources: []\nversion: 1\n",
        "sources: null # none\nversion: 1\n",
        "sources: [\n]\nversion: 1\n",
        "version: 1\nsources:",
        "---\nversion: 1\n",
        "sources:\n- id: a\n  type: code\n  connection: {type: local, path: .}\nversion: 1\n",
        "sources: [{id: a, type: code, connection: {type: local, path: .}}]\n",
        "sources: [\n  {id: a, type: code, connection: {type: local, path: .}},  # a\n]\n",
        "sources:\n  - id: a\n    type: code\n    connection: {type: local, path: .}",
        "sources:\n  - {id: a, type: code, connection: {type: local, path: .}, since: }\n",
    ],
)
def test_a_source_can_be_added_and_removed_in_every_shape_of_list(write, text):
    path = write(text)
    before = ids(text)
    add_source(path, ENTRY)
    assert ids(edited(path)) == [*before, "new"]
    assert all(comment in edited(path) for comment in ("# none", "# nothing yet", "# a") if comment in text)
    remove_source(path, "new")
    assert ids(edited(path)) == before
    for source_id in before:
        remove_source(path, source_id)
    assert ids(edited(path)) == []


def test_line_ends_and_a_byte_order_mark_stay(write):
    text = "\ufeff" + HAIRY.replace("\n", "\r\n")
    path = write(text)
    add_source(path, ENTRY)
    assert "\n" not in edited(path).replace("\r\n", "")
    remove_source(path, "new")
    assert edited(path) == text


def test_an_id_that_is_taken_is_refused_with_its_line(write):
    path = write(HAIRY)
    line = HAIRY[: HAIRY.index("id: docs")].count("\n") + 1
    with pytest.raises(ConfigError, match=rf"knowledge.yaml:{line}: there is a source 'docs' already"):
        add_source(path, {**ENTRY, "id": "docs"})
    assert edited(path) == HAIRY


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"type": "file"}, "sources[3].type: found 'file'; allowed: code, .*; did you mean 'files'"),
        ({"exlude": []}, "sources[3].exlude: found an unknown key"),
        ({"connection": {"type": "git", "url": "u", "token": SECRET}}, "connection.token: found a secret"),
        ({"connection": {"type": "git", "url": f"https://u:{SECRET}@h"}}, "connection.url: found a password"),
        ({"id": None}, "sources[3].id: found nothing; required"),
    ],
)
def test_a_wrong_entry_is_refused_and_changes_nothing(write, wrong, message):
    path = write(HAIRY)
    with pytest.raises(
        ConfigError, match="the source was not added: .*" + message.replace("[3]", r"\[3\]")
    ) as caught:
        add_source(path, {**ENTRY, **wrong})
    assert SECRET not in str(caught.value)
    assert edited(path) == HAIRY


def test_strings_that_look_like_something_else_come_back_as_they_were(write):
    path = write("")
    odd = [
        "1.10",
        "yes",
        "null",
        "# x",
        "a: b",
        "*x",
        "'",
        '"',
        "é\u2028\n",
        "${X}",
        "$${X}",
        " ",
        "",
        "-",
        "a" * 300,
    ]
    add_source(path, {**ENTRY, "exclude": odd})
    assert parse_config(edited(path), name="f").value_at(("sources", 0, "exclude")) == odd


def test_a_layout_that_an_edit_would_change_is_refused(write):
    text = (
        "sources:\n- id: a\n  type: git_history\n  connection: {type: local, path: .}\n  since: |\n    1 day"
    )
    path = write(text)  # the line end that separates the new entry would become part of the text
    with pytest.raises(ConfigError, match="edit it by hand"):
        add_source(path, ENTRY)
    assert edited(path) == text


# replacing


def test_permissions_and_links_stay_and_nothing_is_left_behind(write, tmp_path):
    path = write(HAIRY)
    path.chmod(0o640)
    link = tmp_path / "link.yaml"
    link.symlink_to(path)
    add_source(link, ENTRY)
    assert link.is_symlink() and "id: new" in edited(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert sorted(os.listdir(tmp_path)) == ["knowledge.yaml", "link.yaml"]


def test_a_missing_file_is_said(tmp_path):
    with pytest.raises(ConfigError, match="run `knowledge init`"):
        add_source(tmp_path / "knowledge.yaml", ENTRY)


def test_the_edited_file_loads(write, monkeypatch):
    monkeypatch.setenv("NOT_SET_ANYWHERE", "x")
    path = write(HAIRY)
    add_source(path, ENTRY)
    assert file.load_settings(path).sources[-1].exclude == ("*.tmp",)


# whatever the layout


@st.composite
def layouts(draw) -> str:
    """Files of up to four sources with blank lines and comments in all places."""
    column = draw(st.sampled_from([0, 2, 5]))
    noise = st.lists(st.sampled_from(["", "# c", "  # c", "      # deep", "   "]), max_size=3)
    lines = [*draw(noise), "sources:" + draw(st.sampled_from(["", " # s", "  "]))]
    for number in range(draw(st.integers(1, 4))):
        pad = " " * column
        lines += draw(noise)
        lines += [f"{pad}- id: s{number}", f"{pad}  type: code"]
        lines += [*draw(noise), f"{pad}  connection: {{type: local, path: .}}"]
        lines += draw(
            st.sampled_from([[], [f"{pad}  exclude:"], [f"{pad}  since: |", f"{pad}    # text", ""]])
        )
    lines += draw(noise) + draw(st.sampled_from([[], ["version: 1"], ["query:", "  fusion: weighted"]]))
    return draw(st.sampled_from(["\n", "\r\n"])).join(lines) + draw(st.sampled_from(["", "\n"]))


@settings(max_examples=examples(150), deadline=None)
@given(layouts(), st.data())
def test_an_edit_changes_one_source_and_no_other_line(text, data):
    assume(text.endswith("\n") or "since" not in text)  # a text block that ends the file: refused, see above
    number = data.draw(st.integers(0, len(ids(text)) - 1))
    without, plus = remove_entry(text, number), insert_entry(text, ENTRY)
    before = parse_config(text, name="f").value
    rest = [source for source in before["sources"] if source["id"] != f"s{number}"]
    assert parse_config(without, name="f").value == {**before, "sources": rest}
    assert parse_config(plus, name="f").value == {**before, "sources": [*before["sources"], ENTRY]}
    gone, came = changes(text, plus)
    assert not [line for line in gone if line.strip()]
    assert len([line for line in came if line.strip()]) == 7
    gone, came = changes(text, without)
    assert [line for line in came if line.strip()] in (
        [],
        ["sources: []"],
        ["sources: [] # s"],
        ["sources: []  "],
    )
    assert not [line for line in gone if f"s{number}" not in line and "id: s" in line]


@settings(max_examples=examples(50), deadline=None)
@given(
    st.recursive(
        st.text(max_size=9),
        lambda x: st.lists(x, max_size=3) | st.dictionaries(st.text(max_size=5), x, max_size=3),
    )
)
def test_any_plain_entry_is_written_as_it_is(value):
    entry = {"id": "x", "value": value}
    for text in ("sources: []\n", "sources:\n- id: a\n", "sources: [{id: a}]\n"):
        assert parse_config(insert_entry(text, entry), name="f").value["sources"][-1] == json.loads(
            json.dumps(entry)
        )
