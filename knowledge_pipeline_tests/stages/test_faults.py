"""A fault at every commit of a refresh, beside a reader and a second writer: the answers stay right, and the
next refresh mends.

docs/reliability.md has the table of what was tried; `python -m benchmarks.faults` tries all of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import pytest

from knowledge_pipeline.config.store import ObjectStore
from knowledge_pipeline_tests.conftest import Project, tables
from knowledge_pipeline_tests.fakes.bucket.s3_server import S3Bucket, s3, s3_server
from knowledge_pipeline_tests.fakes.bucket.store import store_in
from knowledge_pipeline_tests.stages.faults import FAULTS, Matrix, change_after_release, unreadable_versions

__all__ = ["s3", "s3_server"]

EACH = 5  # of so many commits one is tried with each fault, with maintenance or without


@pytest.fixture
def matrix(project: Project, tmp_path: Path) -> Iterator[Matrix]:
    made = Matrix(change_after_release(project, tmp_path), tmp_path)
    yield made
    made.close()


def require_unharmed(matrix: Matrix, fault: str, commit: int, **how: bool) -> None:
    """No answer but that of a whole release, no version that cannot be read, and no row lost or doubled."""
    left = matrix.run(fault, commit, **how)
    assert left.reached and left.answers
    wrong = (left.wrong_answers, left.unreadable_versions, left.wrong_tables)
    assert wrong == ((), (), ()), f"{fault} at commit {commit}, {how}: {left}"


@pytest.mark.sampled
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_at_a_commit_is_mended_by_the_next_refresh(matrix, fault):
    assert matrix.commits > 8  # snapshot, chunks, embeddings, index, graph, release
    require_unharmed(matrix, fault, 1 + crc32(fault.encode()) % matrix.commits)


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_at_any_commit_is_mended_by_the_next_refresh(matrix, fault):
    first = 1 + crc32(fault.encode()) % EACH
    for commit in range(first, matrix.commits + 1, EACH):
        require_unharmed(matrix, fault, commit, maintained=commit % 2 == 0)


@pytest.mark.slow
@pytest.mark.parametrize("commit", [2, 9])
def test_a_writer_that_is_stopped_beyond_its_lease_harms_nothing(project, tmp_path, s3: S3Bucket, commit):
    def open_bucket(root: Path) -> ObjectStore:
        return store_in(s3, root / "here", f"runs/{commit}")

    matrix = Matrix(change_after_release(project, tmp_path), tmp_path, open_bucket)
    try:
        require_unharmed(matrix, "SIGSTOP", commit, bucket=True)
    finally:
        matrix.close()


@pytest.mark.slow
@pytest.mark.parametrize("commit", [1, 7])
def test_an_answer_of_the_bucket_that_is_lost_on_its_way_harms_nothing(
    project, tmp_path, s3: S3Bucket, commit
):
    """The bucket has the new version of a table, and the client is told that it failed, and tries again."""

    def open_bucket(root: Path) -> ObjectStore:
        return store_in(s3, root / "here", f"lost/{commit}")

    written = list[str]()

    def lose(path: str) -> None:
        if "/_versions/" in path:
            written.append(path)
            if len(written) == commit:
                raise OSError("the answer is lost")

    matrix = Matrix(change_after_release(project, tmp_path), tmp_path, open_bucket)
    try:
        remote = matrix.copy_to_bucket(tmp_path / "bucket")
        s3.server.after_put = lose
        remote.refresh()
        s3.server.after_put = None
        remote.refresh()
        assert len(written) > commit and unreadable_versions(remote) == []
        assert tables(remote) == tables(matrix.calm)
    finally:
        matrix.close()
