from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_pipeline.sources.path_encoding import bytes_of_path, path_of, path_of_bytes, shown, uri_of

raw_paths = st.binary(min_size=1, max_size=40) | st.text(alphabet="a%é/\n2F80", max_size=12).map(str.encode)


@given(raw_paths)
@settings(deadline=None)
def test_a_uri_is_valid_text_and_leads_back_to_the_very_bytes(raw):
    uri = uri_of(path_of_bytes(raw))
    assert uri.encode("utf-8").decode("utf-8") == uri
    assert bytes_of_path(path_of(uri)) == raw


@given(raw_paths, raw_paths)
@settings(deadline=None)
def test_different_paths_have_different_uris(one, other):
    assert (uri_of(path_of_bytes(one)) == uri_of(path_of_bytes(other))) == (one == other)


def test_an_ordinary_path_is_its_own_uri():
    assert uri_of("src/naïve file.py") == "src/naïve file.py"


def test_a_percent_sign_cannot_be_taken_for_an_escape():
    assert uri_of("100%.txt") == "100%25.txt"
    assert uri_of("a\udcff") == "a%FF"
    assert uri_of("a%FF") == "a%25FF"


def test_what_a_person_sees_is_valid_text():
    assert shown("a\udcff%.py") == "a\ufffd%.py"
