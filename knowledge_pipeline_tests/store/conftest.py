"""What tests of the store share: an S3 that runs here."""

from knowledge_pipeline_tests.fakes.bucket.s3_server import s3, s3_server
from knowledge_pipeline_tests.fakes.bucket.store import s3_project

__all__ = ["s3", "s3_project", "s3_server"]
