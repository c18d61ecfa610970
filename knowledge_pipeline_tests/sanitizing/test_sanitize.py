import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_pipeline.config.sources import SanitizeSettings
from knowledge_pipeline.sanitizing import sanitize as sanitizing
from knowledge_pipeline.sanitizing.sanitize import SanitizedText, fingerprint, sanitize
from knowledge_pipeline_tests.counted import steps
from knowledge_pipeline_tests.sanitizing.fake_secrets import TOKENS, letters, private_key
from knowledge_pipeline_tests.thoroughness import examples

_BOTH = SanitizeSettings(secrets="redact", personal_data="redact")
_SECRET = next(iter(TOKENS))
_PIECES = [
    *TOKENS,
    *(private_key(), private_key(end=False), private_key().splitlines()[0], private_key().splitlines()[-1]),
    *(
        "postgres://a:" + letters("p", 9) + "@h",
        "password=",
        "token: '",
        letters("v", 20),
        "'",
        '"',
        "Bearer ",
    ),
    *(
        "[REDACTED:jwt]",
        "[REDACTED:",
        "]",
        "user@example.com",
        "+49 30 901820",
        "4111 1111 1111 1111",
        "tel ",
    ),
    *(
        "DE89 3704 0044 0532 0130 00",
        "536-90-4399",
        "@",
        "://",
        ":",
        "=",
        "-",
        "_",
        ".",
        " ",
        "a",
        "1",
        "é",
        "İ",
    ),
    *("\n", "\r\n", "\r", "\u2028", "\x0b", "\udcff", "\x00", "٣"),
]
_TEXTS = st.lists(st.one_of(st.sampled_from(_PIECES), st.text(max_size=5)), max_size=14).map("".join)


@settings(deadline=None, max_examples=examples(400))
@given(_TEXTS)
def test_sanitizing_twice_equals_once(text):
    once = sanitize(text, _BOTH)
    assert sanitize(once.text, _BOTH) == SanitizedText(once.text)


@settings(deadline=None, max_examples=examples(400))
@given(_TEXTS)
def test_every_line_break_stays(text):
    assert _breaks(sanitize(text, _BOTH).text) == _breaks(text)


def _breaks(text):
    return [character for character in text if len(f"a{character}b".splitlines()) == 2]


@settings(deadline=None, max_examples=examples(200))
@given(st.text(st.characters(), max_size=400))
def test_any_text_at_all_is_taken(text):
    result = sanitize(text, _BOTH)
    assert not result.dropped
    assert bool(result.findings_by_kind) == (result.text != text)


@settings(deadline=None, max_examples=examples(300))
@given(st.text("0123456789 -+().ABXZ:/@", max_size=80))
def test_any_sequence_of_digits_and_marks_is_taken(text):
    result = sanitize(text, _BOTH)
    assert sanitize(result.text, _BOTH).text == result.text


def test_a_clean_text_is_returned_as_it_is():
    text = "def add(a, b):\n    return a + b\n"
    assert sanitize(text, _BOTH) == SanitizedText(text)


def test_off_does_nothing():
    text = f"{_SECRET} user@example.com"
    assert sanitize(text, SanitizeSettings(secrets="off", personal_data="off")) == SanitizedText(text)


def test_each_class_is_treated_as_configured():
    text = f"{_SECRET} user@example.com"
    secrets = sanitize(text, SanitizeSettings(secrets="redact", personal_data="off"))
    assert (secrets.text, secrets.findings_by_kind) == ("[REDACTED:aws_key] user@example.com", {"aws_key": 1})
    personal = sanitize(text, SanitizeSettings(secrets="off", personal_data="redact"))
    assert (personal.text, personal.findings_by_kind) == (f"{_SECRET} [REDACTED:email]", {"email": 1})


def test_drop_drops_a_text_that_holds_anything_of_the_class_and_says_what():
    dropping = SanitizeSettings(secrets="drop", personal_data="redact")
    assert sanitize(f"a {_SECRET} b@example.com", dropping) == SanitizedText(
        "", {"aws_key": 1, "email": 1}, dropped=True
    )
    only_personal = sanitize("b@example.com", dropping)
    assert (only_personal.text, only_personal.dropped) == ("[REDACTED:email]", False)
    assert sanitize("nothing", dropping) == SanitizedText("nothing")


def test_overlapping_findings_leave_nothing_of_either():
    token = "ghp" + "_" + letters("gh", 36)
    result = sanitize(f'api_key = "{token}.{letters("more", 20)}"', _BOTH)
    assert result.text in ('api_key = "[REDACTED:github_token]"', 'api_key = "[REDACTED:assigned_secret]"')
    assert sum(result.findings_by_kind.values()) == 1


def test_the_fingerprint_changes_with_settings_and_version(monkeypatch):
    treatments = ("off", "redact", "drop")
    every = [SanitizeSettings(secrets=one, personal_data=other) for one in treatments for other in treatments]
    before = [fingerprint(settings) for settings in every]
    assert len(set(before)) == 9
    assert fingerprint(SanitizeSettings()) == fingerprint(SanitizeSettings(secrets="redact"))

    monkeypatch.setattr(sanitizing, "VERSION", sanitizing.VERSION + 1)
    changed = [fingerprint(settings) != old for settings, old in zip(every, before, strict=True)]
    assert changed == [False] + [True] * 8  # with all off the version does not matter


@pytest.mark.sampled
@pytest.mark.parametrize(
    "unit",
    [
        *(
            "a",
            "1",
            "4111 ",
            "-----BEGIN ",
            private_key().splitlines()[0],
            "@",
            "a@",
            "a@a.",
            "eyJ",
            "eyJaaaaaaaaaa.",
        ),
        *(
            "password=",
            "pwd=aB1",
            'pwd="aB1',
            "://",
            "://a:bcd1@",
            "+1 ",
            "(415",
            "1-",
            "aB3/",
            "bearer aB1",
            "DE89 3704 ",
        ),
        *("xoxb-1-", "glpat-", "sk-proj-", "123-45-", "tel 1", "é", "İ", '"', "\n", "1 "),
    ],
)
def test_a_line_of_300_kilobytes_made_against_the_patterns_is_read_to_its_end(unit):
    """What grew with the square of the length would take many minutes; the tests' time limit ends it."""
    sanitize((unit * 300_000)[:300_000], _BOTH)


def test_ordinary_code_takes_steps_in_proportion_to_its_length():
    code = "".join(
        f"def function_{n}(token, key):\n    return lookup(token)[key] + {n}\n\n" for n in range(15_000)
    )
    assert sanitize(code, SanitizeSettings()).text is code

    def taken(length: int) -> int:
        return steps(lambda: sanitize(code[:length], SanitizeSettings()))

    assert taken(400_000) <= 5 * taken(100_000)
    assert taken(400_000) < 400_000  # fewer than characters
