import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from knowledge_pipeline.config.sources import SanitizeSettings
from knowledge_pipeline.sanitizing import personal_data
from knowledge_pipeline.sanitizing.sanitize import sanitize


def cleaned(text):
    return sanitize(text, SanitizeSettings(secrets="off", personal_data="redact"))


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("email", "user@example.com"),
        ("email", "first.last+tag@mail.some-host.co.uk"),
        ("email", "o'a_b%c@x1.io"[2:]),
        ("phone_number", "+49 30 901820"),
        ("phone_number", "+442071838750"),
        ("phone_number", "+1 (415) 555-2671"),
        ("phone_number", "(415) 555-2671"),
        ("phone_number", "415-555-2671"),
        ("phone_number", "1-415-555-2671"),
        ("phone_number", "415.555.2671"),
        ("card_number", "4111 1111 1111 1111"),
        ("card_number", "5555-5555-5555-4444"),
        ("card_number", "378282246310005"),
        ("card_number", "3782 822463 10005"),
        ("iban", "DE89 3704 0044 0532 0130 00"),
        ("iban", "GB29NWBK60161331926819"),
        ("iban", "FR1420041010050500013M02606"),
        ("iban", "NO9386011117947"),
        ("national_id", "536-90-4399"),  # US
        ("national_id", "54362315K"),  # ES
        ("national_id", "X-2482300W"),  # ES, foreigners
        ("national_id", "RCCMNL83S18D969H"),  # IT
        ("national_id", "2 95 10 99 126 111 93"),  # FR
        ("national_id", "131052-308T"),  # FI
        ("national_id", "880320-0016"),  # SE
        ("national_id", "85.07.30-033.28"),  # BE
    ],
)
@pytest.mark.parametrize("around", ["{}", "call {}, please\n", "x = '{}'", "<{}>", "é: {}.", "a\n{}\nb"])
def test_personal_data_is_redacted_and_nothing_beside_it(kind, text, around):
    result = cleaned(around.format(text))
    assert result.text == around.format(f"[REDACTED:{kind}]")
    assert dict(result.findings_by_kind) == {kind: 1}


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("Tel.: 030 901820-0", "Tel.: [REDACTED:phone_number]"),
        ("phone number 5551234", "phone number [REDACTED:phone_number]"),
        ('"phone": "0171 2345678"', '"phone": "[REDACTED:phone_number]"'),
        ("PESEL: 44051401359", "PESEL: [REDACTED:national_id]"),
        ("BSN 111222333", "BSN [REDACTED:national_id]"),
        (
            "Steuer-Identifikationsnummer: 36 574 261 809",
            "Steuer-Identifikationsnummer: [REDACTED:national_id]",
        ),
        ("NHS number: 943 476 5870", "NHS number: [REDACTED:national_id]"),
    ],
)
def test_plain_digits_count_after_their_name(text, clean):
    assert cleaned(text).text == clean


@pytest.mark.parametrize(
    "text",
    [
        "@dataclass\nclass A: ...\n@app.route('/')",
        "git clone git@github.com:owner/name.git",
        "icon@2x.png and react@18.2.0, user@localhost, a@b",
        "version 10.15.7.1234567, 2023-01-01 12:00:00, 2023.11.21-1",
        "id=4155552671 and 1700000000000 and 0x4155552671",
        "415-555-26712 and 2-415-555-2671-3 and v415.555.2671",
        "4111 1111 1111 1112",
        "4111111111111111.5 and 0.4111111111111111 and a4111111111111111",
        "0000 0000 0000 0000 and 1234567890123456",
        "DE89 3704 0044 0532 0130 01",
        "123-45-67890 and 000-12-3456 and 666-12-3456",
        "44051401359 and 111222333",
        "54362315A and RCCMNL83S18D969A and 880320-0017",
        "123e4567-e89b-12d3-a456-426614174000",
        "+0000 and 2023-01-01T00:00:00+02:00 and x+14155552671",
        "@@ -1234567,12 +1234567,15 @@",
        "telephone = 12 and phone: 1111111111",
        "1e308, 3.141592653589793, [1234567, 7654321, 1234567]",
        "10.0.0.1:8080, 255.255.255.255, 2001:0db8:85a3:0000:0000:8a2e:0370:7334",
        "²²²²²²²²²²²²²²²² ٤١١١١١١١١١١١١١١١",
    ],
)
def test_versions_ids_dates_and_numbers_with_a_wrong_checksum_are_left_alone(text):
    result = cleaned(text)
    assert (result.text, dict(result.findings_by_kind)) == (text, {})


def test_one_text_may_hold_many_of_many_kinds():
    text = "a@b.org, c@d.org; +49 30 901820\n" * 50 + "4111 1111 1111 1111"
    assert dict(cleaned(text).findings_by_kind) == {"email": 100, "phone_number": 50, "card_number": 1}


_SIMPLE_PHONE = re.compile(  # what is meant, in a form that tries thousands of divisions of a run of digits
    r"(?<![\w.+*/=-])\+[1-9]\d{0,3}(?:[ .\-/]?\(?\d{1,5}\)?){2,6}(?![\w-])", re.ASCII
)


@given(st.text("0123456789+ ().-/x", max_size=28).map(lambda rest: f"+49{rest}"))
@example("+491690)433-.8 7(.21xx")
def test_phone_numbers_are_those_of_the_simple_form(text):
    found = [match.span() for match in personal_data._PHONE_INTERNATIONAL.finditer(text)]
    assert found == [match.span() for match in _SIMPLE_PHONE.finditer(text)]
