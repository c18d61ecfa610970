"""Checks for packages that extend this one: a source's whole life, chunkers, extractors and sanitizers.

Each check raises `AssertionError` with one sentence, in any test runner:

    from knowledge_pipeline.testing import check_source_life

    def test_feeds_live(tmp_path):
        check_source_life(FeedWorld(tmp_path / "feeds"), tmp_path / "store")
"""

from knowledge_pipeline.testing.functions import check_chunker, check_extractor, check_sanitizer
from knowledge_pipeline.testing.source_life import SourceWorld, check_source_life

__all__ = ["SourceWorld", "check_chunker", "check_extractor", "check_sanitizer", "check_source_life"]
