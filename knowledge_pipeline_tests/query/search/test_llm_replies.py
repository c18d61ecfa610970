"""Reading what language models write, however they write it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_pipeline.extensions.llm_steps import parse_lines, parse_numbers, strip_fences

_FORMS = [
    "{json}",
    "```json\n{json}\n```",
    "Here is the order: {json}. Passage 1 may be of interest as well.",
    '{{"ranking": {json}, "confidence": 4}}',
    "{chain}",
    "The ranking is {chain}",
    "{marked}",
    "Passages 1, 2 and 1 are about something else.\n\nFinal answer: {json}",
    "{objects}",
    "{texts}",
    "{lines}",
    "{passages}",
]


@settings(deadline=None)
@given(st.permutations(range(1, 13)), st.integers(3, 12), st.sampled_from(_FORMS))
def test_an_order_is_read_out_of_every_form(shuffled, kept, form):
    order = shuffled[:kept]
    reply = form.format(
        json=json.dumps(order),
        chain=" > ".join(map(str, order)),
        marked=" > ".join(f"[{number}]" for number in order),
        objects=json.dumps([{"number": number, "score": 9} for number in order], indent=1),
        texts=json.dumps([str(number) for number in order]),
        lines="\n".join(map(str, order)),
        passages="\n".join(f"{at}. Passage {number}, for it says so" for at, number in enumerate(order, 1)),
    )
    assert parse_numbers(reply, 12) == order


@pytest.mark.parametrize(
    ("reply", "order"),
    [
        ("", []),
        ("[]", []),
        ("none of them helps", []),
        ("I have read 3 passages and 20 lines", []),
        ("2", [2]),
        ("[2]", [2]),
        ("Passage 3 is the best.", [3]),
        ("[3, 3, 1, 3]", [3, 1]),
        ("[0, 99, -1, 2, 12345, 1]", [2, 1]),
        ("[3, 1", [3, 1]),
        ("[3.0, 1.0, 2.5]", [3, 1]),
        ("[1, 2] was my first thought, but [2, 1] is right", [2, 1]),
        ("1) 3\n2) 1", [3, 1]),
    ],
)
def test_what_is_missing_doubled_or_unknown_is_left_out(reply, order):
    assert parse_numbers(reply, 3) == order


@settings(deadline=None)
@given(st.text(st.sampled_from('[]{}>,:;# 0123456789\n`"-.passage'), max_size=300), st.integers(1, 30))
def test_any_reply_gives_distinct_numbers_of_the_list(reply, count):
    numbers = parse_numbers(reply, count)
    assert len(set(numbers)) == len(numbers)
    assert all(1 <= number <= count for number in numbers)


@pytest.mark.sampled
@pytest.mark.timeout(120)
@pytest.mark.parametrize("piece", ["[", "1,", "1 ", " ", "1, ", "[1", "passage ", "<think>", '"id":'])
def test_a_reply_without_end_is_read_in_time(piece):
    long = piece * 50_000
    assert len(parse_numbers(long, 5)) <= 1
    assert len(parse_lines(long)) <= 1


@pytest.mark.parametrize(
    "reply",
    [
        '["open file", "read_text"]',
        'Sure:\n```json\n["open file", "read_text"]\n```',
        "- open file\n- `read_text`\n",
        "1. open file\n2. read_text\n3. open file",
        "Here are the terms:\n\n“open file”\nread_text",
    ],
)
def test_entries_are_read_out_of_lists_of_all_kinds(reply):
    assert parse_lines(reply) == ["open file", "read_text"]


def test_a_passage_comes_without_its_fences():
    assert strip_fences("```python\ndef a():\n    pass\n```\n") == "def a():\n    pass"
