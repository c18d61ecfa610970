from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from knowledge_pipeline.query.assemble import find_first_duplicates, is_nearly_equal, shingles

CODE = """def retry(send, times):
    for attempt in range(times):
        if send(attempt):
            return True
        sleep(2 ** attempt)
    raise TimeoutError(f"gave up after {times} tries")
"""


def near(first: str, second: str) -> bool:
    return is_nearly_equal(shingles(first), shingles(second))


def test_white_space_letter_case_and_one_word_make_no_other_text():
    assert near(CODE, CODE.replace("    ", "\t"))
    assert near(CODE, CODE.upper())
    assert near(CODE, CODE.replace("gave up", "stopped"))


def test_another_function_is_another_text():
    assert not near(CODE, CODE.replace("send", "receive").replace("attempt", "turn"))
    assert not near(CODE, CODE + CODE.replace("retry", "again").replace("times", "often"))
    assert not near("yes", "no")


@given(st.text(), st.text())
def test_it_holds_both_ways_and_of_itself(first, second):
    assert near(first, first)
    assert near(first, second) == near(second, first)


def test_each_text_is_led_to_the_first_one_like_it():
    assert list(find_first_duplicates([CODE, "other", CODE.upper(), "OTHER", "third"])) == [0, 1, 0, 1, 4]
