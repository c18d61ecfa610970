"""What one file of JavaScript or TypeScript says, whatever is in it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_pipeline.code_graph import IndexedFile, extract, from_json, to_json
from knowledge_pipeline.code_graph.languages.base import split_words
from knowledge_pipeline_tests.code_graph.files import targets
from knowledge_pipeline_tests.code_graph.proportion import assert_in_proportion
from knowledge_pipeline_tests.thoroughness import examples

LANGUAGES = ("javascript", "typescript", "tsx")
_TOKENS = """class interface extends implements enum namespace type function const let var return yield await
async import export from default require( module.exports exports.a = => ( ) { } [ ] < > , . ; : ? ?. ! ... #p
this super( new a b C 'm' ` ${ @ as satisfies typeof keyof get set static <A/> <A> </A> | & for of in"""
_texts = st.lists(st.one_of(st.sampled_from(_TOKENS.split()), st.text(max_size=8)), max_size=60).map(" ".join)


@settings(max_examples=examples(300), deadline=None)
@given(_texts, st.sampled_from(LANGUAGES))
def test_no_text_makes_extraction_raise(text: str, language: str) -> None:
    facts = extract("a", text, language)
    assert from_json(to_json(facts)) == facts
    assert IndexedFile(facts).interface_digest


@settings(max_examples=examples(100), deadline=None)
@given(st.text(max_size=200), st.sampled_from(["package.json", "tsconfig.json", "a/jsconfig.json"]))
def test_no_manifest_makes_extraction_raise(text: str, path: str) -> None:
    assert extract(path, text, "json").definitions == ()


def test_a_decorator_without_arguments_is_called() -> None:
    files = {
        "a.ts": "import { mark } from './b';\n@mark\nclass A {}\n",
        "b.ts": "export function mark(x) {}\n",
    }
    assert targets(files, "calls", "a.ts:") == {"b.ts:mark"}


def test_functions_are_named_by_what_holds_them() -> None:
    text = """export default { data() { return 1 } };
const client = { http: { retry: () => 1 } }, wrapped = wrap({ on() {} });
class A { static table = { x() {} }; #own() {} [Symbol.iterator]() {} constructor() { this.late = () => 1; } }
app.use = function () {};
A.prototype.more = function () {};
function f() { const local = { a() {} }; return { b() {} } }
"""
    names = {each.name for each in extract("a.js", text, "javascript").definitions}
    assert names >= split_words(
        """default.data client client.http.retry wrapped.on A A.table A.table.x A.#own A.@@iterator A.late
        app.use A.more f f.local f.local.a f.b"""
    )


@pytest.mark.sampled
@pytest.mark.parametrize(
    "unit",
    [
        "x = f(a.b().c[0], { k: (y) => y.z });\n",
        "class A<T extends B> extends C<T> { p: D[]; m(x: E): F { return this.p } }\n",
        "f(",
        "x => ",
        "const a = { m() { return ",
        "function f() { return g(",
        "a = ",
        "a.then(x => x.y)",
        "<A>",
        "const { a: [b] } = c;\n",
        "require('./a').b;\n",
    ],
)
@pytest.mark.parametrize("language", LANGUAGES)
def test_work_grows_with_length_alone(unit: str, language: str) -> None:
    assert_in_proportion("a", language, unit * 300)
