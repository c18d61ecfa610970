"""The versions of facts and edges, which fingerprints hold, change with what extraction and resolution give.

Where a test fails, the same text gives other facts, or the same facts other edges: raise the version, so that
stores extract or resolve all files again, and write the new digest down.
"""

from __future__ import annotations

from pathlib import Path

from knowledge_pipeline.code_graph import FACTS_VERSION, RESOLVER_VERSION, to_json
from knowledge_pipeline.file_languages import GRAPH_LANGUAGES, detect_language
from knowledge_pipeline.records import hash_strings
from knowledge_pipeline_tests.code_graph.files import Files, resolved

CORPUS = Path(__file__).parent.parent / "corpus" / "code"


def corpus_texts() -> dict[str, str]:
    paths = sorted(path for path in CORPUS.iterdir() if detect_language(path.name) in GRAPH_LANGUAGES)
    return {path.name: path.read_text("utf-8") for path in paths}


def test_the_same_text_gives_the_same_facts_until_their_version_is_raised():
    files = Files(corpus_texts())
    facts = [to_json(files.facts(path)) for path in sorted(files.paths())]
    assert (FACTS_VERSION, hash_strings(*facts)) == (5, "f091ba9f5e4c52f940028c024d22e784")


def test_the_same_facts_give_the_same_edges_until_their_version_is_raised():
    edges = [repr((path, found.edges, found.aliases)) for path, found in resolved(corpus_texts()).items()]
    assert (RESOLVER_VERSION, hash_strings(*edges)) == (3, "f1ccfc56656d49bc1d0d67d8f28bebdc")
