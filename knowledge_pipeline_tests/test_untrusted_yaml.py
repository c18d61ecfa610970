from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import knowledge_pipeline
from knowledge_pipeline.errors import DocumentSkipped
from knowledge_pipeline.untrusted_yaml import parse_yaml
from knowledge_pipeline_tests.chunking.documents import texts
from knowledge_pipeline_tests.thoroughness import examples

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=examples(200), deadline=None)
@given(
    value=st.dictionaries(st.text(max_size=6), _VALUES, max_size=5), indent=st.sampled_from([None, 2, "\t"])
)
def test_json_is_read_as_json_reads_it_and_places_are_those_of_its_keys(value, indent):
    text = json.dumps(value, indent=indent)
    placed = parse_yaml(text)
    assert placed.value == json.loads(text)
    decode = json.JSONDecoder().raw_decode
    for path, at in placed.key_positions:
        assert decode(text, at)[0] == path[-1]
        inner = value
        for key in path:
            inner = inner[key]
    assert len({path for path, _ in placed.key_positions if len(path) == 1}) == len(value)


def test_yaml_is_read_as_plain_values_with_places_in_characters():
    text = "# 😀 ü\r\nopen: 3.0.1\r\n'é': {x: [1, 2.5, yes], when: 2024-01-31}\r\n200: ~\r\n"
    placed = parse_yaml(text)
    assert placed.value == {"open": "3.0.1", "é": {"x": [1, 2.5, "yes"], "when": "2024-01-31"}, "200": None}
    assert [(path, text[at : at + 3]) for path, at in placed.key_positions] == [
        (("open",), "ope"),
        (("é",), "'é'"),
        (("é", "x"), "x: "),
        (("é", "when"), "whe"),
        (("200",), "200"),
    ]


@pytest.mark.parametrize("text", ['{"a": {"b": {"c": {"d": {"e": 1}}}}}', "a:\n b:\n  c:\n   d:\n    e: 1\n"])
def test_keys_have_places_down_to_those_of_an_operation(text):
    assert [path for path, _ in parse_yaml(text).key_positions] == [tuple("abcd"[:n]) for n in (1, 2, 3, 4)]


@pytest.mark.parametrize("text", ["\ufeffa: 1\nb: 2\n", '\ufeff{"a": 1, "b": 2}'])
def test_a_byte_order_mark_shifts_no_place(text):
    placed = parse_yaml(text)
    assert placed.value == {"a": 1, "b": 2}
    assert [text[at:].lstrip('"')[0] for _, at in placed.key_positions] == ["a", "b"]


def test_merge_keys_and_aliases_are_followed_within_bounds():
    text = "base: &b {x: 1, y: 2}\nmore: {<<: *b, y: 3}\nlist: [*b, *b]\n"
    assert parse_yaml(text).value["more"] == {"x": 1, "y": 3}
    assert parse_yaml(text).value["list"] == [{"x": 1, "y": 2}] * 2


def _bomb(merge: bool) -> str:
    lines = ["a0: &a0 {x: lol}"]
    for n in range(1, 40):
        inner = f"{{<<: [*a{n - 1}, *a{n - 1}], k{n}: 1}}" if merge else f"[{', '.join([f'*a{n - 1}'] * 9)}]"
        lines.append(f"a{n}: &a{n} {inner}")
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (_bomb(merge=False), "aliases grow"),
        (_bomb(merge=True), "aliases grow"),
        ("a: &a [*a]", "lies within it"),
        ("a: *b", "no anchor"),
        ("a: " + "[" * 100_000, "nested too deep"),
        ("{" + '"a": {' * 50_000, "nested too deep"),
        ('{"a": ' * 5_000 + "1" + "}" * 5_000, "nested too deep"),
        ("- " * 5_000 + "x", "nested too deep"),
        ("? [a, b]\n: 1", "a key that is a list"),
        ("a: b: c", "not valid YAML"),
        ("a: \x01", "not valid YAML"),
        ("a: \ud800", "not valid YAML"),
    ],
)
def test_hostile_and_broken_texts_are_refused_with_a_reason(text, reason):
    """And at once: grown out, an alias of aliases would not end within the tests' time limit."""
    with pytest.raises(DocumentSkipped, match=reason):
        parse_yaml(text)


def test_what_would_not_be_written_back_as_it_stands_stays_text():
    text = (
        "{id: 0012, octal: 0o14, version: 1.10, float: 1.5, int: 12, zero: 0, minus: -3, year: yes, e: 1e3}"
    )
    assert parse_yaml(text).value == {
        **{"id": "0012", "octal": "0o14", "version": "1.10", "float": 1.5, "int": 12, "zero": 0, "minus": -3},
        **{"year": "yes", "e": "1e3"},
    }


def test_no_tag_makes_an_object():
    assert parse_yaml("a: !!python/object/apply:os.getcwd []").value == {"a": []}


@settings(max_examples=examples(200), deadline=None)
@given(text=texts | st.text(alphabet="{}[]:,-&*!|>'\"%@` \n\tab1?#<", max_size=40))
def test_any_text_is_read_or_refused_and_keys_lie_where_they_are_said_to(text):
    try:
        placed = parse_yaml(text)
    except DocumentSkipped as reason:
        assert str(reason).startswith(("it ", "its "))
    else:
        json.dumps(placed.value)
        assert all(0 <= at <= len(text) for _, at in placed.key_positions)  # an empty key may end it


def test_no_other_module_reads_yaml():
    """`connectors/records.py` names PyYAML's errors; the operator's configuration is read by ruamel.yaml."""
    readers = re.compile(
        r"yaml\.(?:safe_|full_|unsafe_)?load|yaml\.(?:parse|compose|scan|SafeLoader)\b|\w*Loader\("
    )
    package = Path(knowledge_pipeline.__file__).parent
    reading = {path.name for path in package.rglob("*.py") if readers.search(path.read_text("utf-8"))}
    others = {"problems.py", "rendering.py", "prompt.py"}  # ruamel.yaml, and loaders of templates
    assert reading - others == {"untrusted_yaml.py"}
