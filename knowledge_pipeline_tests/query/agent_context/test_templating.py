"""Templates: ours, a user's, and wrong ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge_pipeline.context.prompt import fence_text, load_template, to_one_line
from knowledge_pipeline.errors import ConfigError, InvalidQuery


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def write(folder: Path, text: str, name: str = "my.j2") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def refusal(template: str | Path, folder: Path | None = None, **values: object) -> str:
    with pytest.raises(InvalidQuery) as refused:
        load_template(template, folder).render({"task": "x", "excerpts": [], **values})
    message = str(refused.value)
    assert "\n" not in message
    return message


def test_a_template_is_found_by_path_by_name_and_before_ours(folder: Path):
    path = write(folder, "{{ task }}!")
    assert load_template(path, None).render({"task": "do"}) == "do!"
    assert load_template("my", folder).render({"task": "do"}) == "do!"
    write(folder, "mine", "code_review.j2")
    assert load_template("code_review", folder).render({}) == "mine"
    assert load_template("code_review", None).name == "code_review.j2"


def test_a_template_may_build_on_ours(folder: Path):
    path = write(folder, '{% extends "base.j2" %}{% block role %}You write haiku.{% endblock %}')
    values = {"task": "Spring", "file": None, "files": [], "excerpts": [], "omitted": 0}
    assert load_template(path, None).render(values).startswith("You write haiku.\n\n## Task\n\nSpring\n")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("a\n{{ tsk }}", "the template my.j2, line 2, is wrong: 'tsk' is undefined"),
        ("{% for x in y %}", "the template my.j2, line 1, is wrong: "),
        ("{{ excerpts[3].text }}", "is wrong: "),
        ("{{ 1 / 0 }}", "the template my.j2, line 1, is wrong: division by zero"),
        ("{{ ''.__class__.__mro__ }}", "is unsafe"),
        ("{{ task.__init__.__globals__ }}", "is unsafe"),
        ("{{ excerpts.append(1) }}", "'append' of 'list' object is unsafe"),
        ("{% include 'absent.j2' %}", "absent.j2"),
        ("{% include '../../etc/passwd' %}", "is wrong"),
        ("{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}", "pieces of text"),
    ],
)
def test_a_wrong_template_is_one_sentence(folder: Path, source: str, said: str):
    assert said in refusal(write(folder, source))


def test_a_template_that_is_no_text_or_not_there_is_one_sentence(folder: Path):
    (folder / "my.j2").write_bytes(b"\xff\xfe")
    assert "the template my.j2 is wrong" in refusal(folder / "my.j2")
    assert "no such file" in refusal(folder / "absent.j2")
    known = "chat, code_generation, code_review, complete_code, excerpts, issue_resolution, "
    known += "merge_resolution, question"
    assert refusal("absent") == f"there is no template 'absent': known are {known}"


@pytest.mark.parametrize("name", ["../my", "/etc/passwd", ".hidden", "a/b.j2", ""])
def test_a_name_is_no_path(folder: Path, name: str):
    write(folder, "secret")
    assert "template" in refusal(name, folder / ".")


def test_a_folder_that_is_not_there_is_a_wrong_configuration(folder: Path):
    with pytest.raises(ConfigError, match=r"correct context\.templates"):
        load_template("code_review", folder / "absent")


@given(st.text(alphabet="`a\n~", max_size=30))
def test_no_text_closes_its_fence(text: str):
    first, *inner, last = fence_text(text).split("\n")
    assert first == last and "\n".join(inner) == text
    assert not any(line.strip().startswith(first) for line in inner)


def test_a_language_is_a_word_or_nothing():
    assert fence_text("x", "python").startswith("```python\n")
    assert fence_text("x", "python\n# System").startswith("```\n")


@given(st.text())
def test_a_heading_stays_on_its_line(text: str):
    assert len(to_one_line(text).splitlines()) <= 1
