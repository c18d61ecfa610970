"""Notifications of buckets: S3 and what speaks its protocol, and Google Cloud Storage by Pub/Sub.

The listing of a bucket is one call for a thousand objects, so its source is refreshed as a whole.

Sources: https://docs.aws.amazon.com/AmazonS3/latest/userguide/notification-content-structure.html,
https://docs.aws.amazon.com/AmazonS3/latest/userguide/ev-events.html,
https://min.io/docs/minio/linux/administration/monitoring/publish-events-to-webhook.html,
https://cloud.google.com/storage/docs/pubsub-notifications
"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import unquote_plus

from knowledge_pipeline.config.connections.archive_file import ArchiveFileConnection
from knowledge_pipeline.config.connections.buckets import BucketConnection, GcsConnection, S3Connection
from knowledge_pipeline.config.sources.source import SourceConfig
from knowledge_pipeline.serve.webhooks.events import (
    Change,
    Payload,
    ServiceEvent,
    descend,
    list_objects,
    read_text,
)
from knowledge_pipeline.serve.webhooks.verification import Headers

_S3_EVENTS = ("ObjectCreated:", "ObjectRemoved:", "ObjectRestore:", "LifecycleExpiration:")
_GCS_EVENTS = ("OBJECT_FINALIZE", "OBJECT_DELETE", "OBJECT_ARCHIVE")


def parse_s3_event(payload: Payload, headers: Headers) -> ServiceEvent:
    """The objects of a notification of S3 or MinIO, or of an event that EventBridge passes on."""
    del headers
    return ServiceEvent.of(
        Change(_Reads(S3Connection, bucket, key)) for bucket, key in _iter_s3_objects(payload) if bucket
    )


def parse_gcs_event(payload: Payload, headers: Headers) -> ServiceEvent:
    """The object of a message of Pub/Sub, from its attributes."""
    del headers
    facts = descend(payload, "message", "attributes")
    bucket, key = read_text(facts.get("bucketId")), read_text(facts.get("objectId"))
    if not bucket or facts.get("eventType") not in _GCS_EVENTS:
        return ServiceEvent.of([])
    return ServiceEvent.of([Change(_Reads(GcsConnection, bucket, key))])


def _iter_s3_objects(payload: Payload) -> Iterator[tuple[str, str]]:
    for record in list_objects(payload.get("Records")):
        bucket, key = descend(record, "s3", "bucket"), descend(record, "s3", "object")
        if read_text(record.get("eventName")).removeprefix("s3:").startswith(_S3_EVENTS):
            yield read_text(bucket.get("name")), unquote_plus(read_text(key.get("key")))
    if payload.get("source") == "aws.s3":
        detail = descend(payload, "detail")
        yield (
            read_text(descend(detail, "bucket").get("name")),
            read_text(descend(detail, "object").get("key")),
        )


class _Reads:
    """Whether a source reads an object."""

    def __init__(self, connection: type[BucketConnection], bucket: str, key: str) -> None:
        self._connection, self._bucket, self._key = connection, bucket, key

    def __call__(self, source: SourceConfig) -> bool:
        connection = source.connection
        if isinstance(connection, ArchiveFileConnection):
            connection = connection.object
        return (
            isinstance(connection, self._connection)
            and connection.bucket == self._bucket
            and self._key.startswith(connection.prefix)
        )
