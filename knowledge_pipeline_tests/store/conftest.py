"""What tests of the store share: an S3 and an Azure that run here."""

from knowledge_pipeline_tests.fakes.bucket.s3_server import s3, s3_server
from knowledge_pipeline_tests.fakes.bucket.store import azure_project, azure_server, azure_store, s3_project

__all__ = ["azure_project", "azure_server", "azure_store", "s3", "s3_project", "s3_server"]
