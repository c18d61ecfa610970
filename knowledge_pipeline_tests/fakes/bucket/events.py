"""What buckets say of an object: MinIO, EventBridge for S3, and Pub/Sub for Google Cloud Storage."""

from __future__ import annotations

import base64
from typing import Any
from urllib.parse import quote_plus


def minio_event(bucket: str, key: str, event: str = "s3:ObjectCreated:Put") -> dict[str, Any]:
    """As MinIO posts it, whose records are those of S3: names are encoded."""
    about = {"bucket": {"name": bucket}, "object": {"key": quote_plus(key), "sequencer": "1785"}}
    record = {"eventVersion": "2.0", "eventName": event, "eventTime": "2026-01-01T00:00:00.000Z", "s3": about}
    return {"EventName": event, "Key": f"{bucket}/{key}", "Records": [record]}


def event_bridge_event(bucket: str, key: str, detail: str = "Object Created") -> dict[str, Any]:
    """As an API destination of EventBridge gets it."""
    about = {"bucket": {"name": bucket}, "object": {"key": key}}
    return {"version": "0", "id": "e-1", "source": "aws.s3", "detail-type": detail, "detail": about}


def gcs_event(bucket: str, key: str, event: str = "OBJECT_FINALIZE") -> dict[str, Any]:
    """As a push subscription gets it."""
    facts = {"bucketId": bucket, "objectId": key, "eventType": event, "payloadFormat": "JSON_API_V1"}
    body = base64.b64encode(b'{"kind": "storage#object"}').decode()
    message = {"attributes": facts, "data": body, "messageId": f"{bucket}/{key}/{event}"}
    return {"message": message, "subscription": "projects/p/subscriptions/s"}
