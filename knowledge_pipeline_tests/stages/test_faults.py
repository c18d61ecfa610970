"""A fault at every commit of a refresh, beside a reader and a second writer: the answers stay right, and the
next refresh mends.

docs/reliability.md has the table of what was tried; `python -m benchmarks.faults` tries all of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from zlib import crc32

import pytest

from knowledge_pipeline_tests.conftest import Project, embedding_by, tables
from knowledge_pipeline_tests.fakes.bucket.s3_server import S3Bucket, s3, s3_server
from knowledge_pipeline_tests.fakes.bucket.store import store_in
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer
from knowledge_pipeline_tests.stages.faults import FAULTS, Matrix, change_after_release, unreadable_versions

__all__ = ["s3", "s3_server"]

EACH = 5  # of so many commits one is tried with each fault, with maintenance or without


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory, embedding_server: OpenAIServer) -> Iterator[Matrix]:
    """One store to copy for each fault, and the processes that write; one that is killed is started anew."""
    folder = tmp_path_factory.mktemp("faults")
    made = Matrix(change_after_release(Project(folder, embedding_by(embedding_server)), folder), folder)
    yield made
    made.close()


@pytest.fixture
def bucket(matrix: Matrix, s3: S3Bucket) -> Iterator[S3Bucket]:
    """Where the copies of the store lie that are made in a bucket."""
    matrix.open_bucket = lambda root: store_in(s3, root / "here")
    yield s3
    matrix.open_bucket = None


def require_unharmed(matrix: Matrix, fault: str, commit: int, **how: bool) -> None:
    """No answer but that of a whole release, no version that cannot be read, and no row lost or doubled."""
    left = matrix.run(fault, commit, **how)
    assert left.reached and left.answers
    wrong = (left.wrong_answers, left.unreadable_versions, left.wrong_tables)
    assert wrong == ((), (), ()), f"{fault} at commit {commit}, {how}: {left}"


def test_a_fault_at_a_commit_is_mended_by_the_next_refresh(matrix):
    assert matrix.commits > 8  # snapshot, chunks, embeddings, index, graph, release
    require_unharmed(matrix, "killed after the commit", 2)


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_at_any_commit_is_mended_by_the_next_refresh(matrix, fault):
    first = 1 + crc32(fault.encode()) % EACH
    for commit in range(first, matrix.commits + 1, EACH):
        require_unharmed(matrix, fault, commit, maintained=commit % 2 == 0)


@pytest.mark.slow
@pytest.mark.parametrize("commit", [2, 9])
def test_a_writer_that_is_stopped_beyond_its_lease_harms_nothing(matrix, bucket: S3Bucket, commit):
    require_unharmed(matrix, "SIGSTOP", commit, bucket=True)


@pytest.mark.slow
@pytest.mark.parametrize("commit", [1, 7])
def test_an_answer_of_the_bucket_that_is_lost_on_its_way_harms_nothing(
    matrix, bucket: S3Bucket, tmp_path, commit
):
    """The bucket has the new version of a table, and the client is told that it failed, and tries again."""
    written = list[str]()

    def lose(path: str) -> None:
        if "/_versions/" in path:
            written.append(path)
            if len(written) == commit:
                raise OSError("the answer is lost")

    remote = matrix.copy_to_bucket(tmp_path / f"lost{commit}")
    bucket.server.after_put = lose
    remote.refresh()
    bucket.server.after_put = None
    remote.refresh()
    assert len(written) > commit and unreadable_versions(remote) == []
    assert tables(remote) == tables(matrix.calm)
