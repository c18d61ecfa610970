"""Buckets as places where files lie."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from knowledge_pipeline_tests.fakes.bucket import azure_server, gcs_server, s3_server
from knowledge_pipeline_tests.stages.lives.files import FilePlace, changed


class GcsPlace(FilePlace):
    """A bucket of Google Cloud Storage, listed in short pages."""

    cannot: Mapping[str, str] = {}

    def __init__(self, root: Path) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self._server = gcs_server.GcsServer(root, page_size=2)
        self.secrets = [self._server.token]
        self.names = [self._server.bucket, self._server.url.removeprefix("http://")]
        self.faults = {
            "missing": lambda: changed(self._server, bucket="another"),
            "denied": lambda: changed(self._server, known=False),
            "forbidden": lambda: changed(self._server, permitted=False),
            "unavailable": lambda: self._fail(40, 503),
            "unreachable": self._server.refusing_connections,
            "partial": self._break_off,
            "busy": lambda: self._fail(2, 429),
        }

    @property
    def connection(self) -> dict[str, Any]:
        told = {"type": "gcs", "bucket": "the-bucket", "endpoint_url": self._server.url}
        return told | {"credentials": str(self._server.key_file)}

    def write(self, path: str, content: bytes) -> None:
        self._server.create(path, content)

    def move(self, path: str, to: str) -> None:
        self._server.create(to, self._server.objects[path].payload)
        self.delete(path)

    def delete(self, path: str) -> None:
        self._server.delete(path)

    @contextmanager
    def _fail(self, times: int, status: int) -> Iterator[None]:
        self._server.fail_next(*[gcs_server.Fault(status, {"Retry-After": "0.01"})] * times)
        yield
        self._server.faults.clear()

    @contextmanager
    def _break_off(self) -> Iterator[None]:
        """From its second page on."""
        fault = gcs_server.Fault(503, {"Retry-After": "0.01"})
        with changed(
            self._server, before_page=lambda page: self._server.fail_next(*[fault] * 40) if page else None
        ):
            self._server._pages = 0  # pyright: ignore[reportPrivateUsage]
            yield
        self._server.faults.clear()

    def __enter__(self) -> GcsPlace:
        self._server.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.__exit__(*error)


class AzurePlace(GcsPlace):
    """A container of Azure, listed in short pages."""

    def __init__(self, root: Path) -> None:
        del root
        self._server = azure_server.AzureServer(page_size=2)
        self.secrets = [self._server.key]
        self.names = [self._server.bucket, self._server.address.removeprefix("http://")]
        self.faults = {
            "missing": lambda: changed(self._server, containers={}),
            "denied": lambda: changed(self._server, key="b3RoZXI="),
            "forbidden": lambda: changed(self._server, permitted=False),
            "unavailable": lambda: self._fail(40, 503),
            "unreachable": self._server.refusing_connections,
            "partial": self._break_off,
            "busy": lambda: self._fail(2, 429),
        }

    @property
    def connection(self) -> dict[str, Any]:
        told = {"type": "azure", "account": azure_server.ACCOUNT, "container": "the-container"}
        return told | {"endpoint_url": self._server.url, "account_key": self.secrets[0]}


class S3Place(FilePlace):
    """A bucket of S3."""

    cannot: Mapping[str, str] = {}

    def __init__(self, root: Path) -> None:
        del root
        self._open = ExitStack()

    def __enter__(self) -> S3Place:
        self._server = self._open.enter_context(s3_server.S3Server())
        self._bucket = s3_server.S3Bucket(self._server)
        self._url = self._server.url
        key, secret = self._server.reader
        self._keys = {"access_key_id": key, "secret_access_key": secret}
        self.secrets = [secret]
        self.names = [self._bucket.name, self._url.removeprefix("http://"), "127.0.0.1:9"]
        self.faults = {
            "missing": lambda: self._fail(40, 404, "NoSuchBucket"),
            "denied": lambda: self._fail(40, 403, "InvalidAccessKeyId"),
            "forbidden": lambda: self._fail(40, 403, "AccessDenied"),
            "unavailable": lambda: self._fail(40, 503, "SlowDown"),
            "unreachable": lambda: changed(self, _url="http://127.0.0.1:9"),
            "partial": self._cut_off,
            "busy": lambda: self._fail(2, 429, "SlowDown"),
        }
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @property
    def connection(self) -> dict[str, Any]:
        told = {"type": "s3", "bucket": self._bucket.name, "region": s3_server.REGION}
        return told | {"endpoint_url": self._url} | self._keys

    def write(self, path: str, content: bytes) -> None:
        self._bucket.create(path, content)

    def move(self, path: str, to: str) -> None:
        source = {"Bucket": self._bucket.name, "Key": path}
        self._bucket.operator.copy_object(Bucket=self._bucket.name, Key=to, CopySource=source)
        self.delete(path)

    def delete(self, path: str) -> None:
        self._bucket.delete(path)

    @contextmanager
    def _fail(self, times: int, status: int, code: str) -> Iterator[None]:
        fault = s3_server.Fault(status, code, headers=(("Retry-After", "0.01"),) if status != 404 else ())
        self._server.faults.extend([fault] * times)
        yield
        self._server.faults.clear()

    @contextmanager
    def _cut_off(self) -> Iterator[None]:
        self._server.faults.extend([s3_server.Fault(cut_off=True)] * 40)
        yield
        self._server.faults.clear()
