"""What a file is for, by its path."""

from __future__ import annotations

import pytest

from knowledge_pipeline.file_languages import classify_file


@pytest.mark.parametrize(
    ("path", "role"),
    [
        ("src/app/store.py", "source"),
        ("latest/contest.py", "source"),
        ("docs/testing-guide.md", "source"),
        ("src/inspector.rs", "source"),
        ("tests/unit/a.py", "test"),
        ("knowledge_pipeline_tests/a.py", "test"),
        ("src/test_store.py", "test"),
        ("pkg/store_test.go", "test"),
        ("src/FooTest.java", "test"),
        ("app/store.spec.ts", "test"),
        ("examples/first.py", "test"),
        ("conftest.py", "test"),
        ("vendor/lib/a.go", "generated"),
        ("src/main/java/com/acme/vendor/VendorService.java", "source"),
        ("src/main/java/com/acme/generated/A.java", "generated"),
        ("third_party/x/src/main/java/com/acme/A.java", "generated"),
        ("proto/user_pb2.py", "generated"),
        ("static/app.min.js", "generated"),
        ("package-lock.json", "generated"),
        ("poetry.lock", "generated"),
        ("CHANGELOG.md", "generated"),
        ("0f3a9c", "source"),
    ],
)
def test_a_file_is_told_by_its_path(path: str, role: str) -> None:
    assert classify_file(path) == role
