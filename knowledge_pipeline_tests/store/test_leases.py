"""Leases between real processes, by real servers of S3 and of Azure."""

from __future__ import annotations

import multiprocessing
import signal
import time
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from knowledge_pipeline.config.store import ObjectStore
from knowledge_pipeline.errors import Busy
from knowledge_pipeline.store.locks import Lease, acquire_lock
from knowledge_pipeline.store.object_store import ObjectPath, open_client
from knowledge_pipeline_tests.fakes.bucket.azure_server import AzureServer
from knowledge_pipeline_tests.fakes.bucket.s3_server import S3Bucket
from knowledge_pipeline_tests.fakes.bucket.store import store_in

SPAWN = multiprocessing.get_context("spawn")


@pytest.fixture(params=["s3", "azure_server"])
def service(request: pytest.FixtureRequest) -> S3Bucket | AzureServer:
    return request.getfixturevalue(request.param)


@pytest.fixture
def store(service: S3Bucket | AzureServer, tmp_path: Path, request: pytest.FixtureRequest) -> ObjectStore:
    if isinstance(service, S3Bucket):
        return store_in(service, tmp_path)
    return request.getfixturevalue("azure_store")


def lease_on(store: ObjectStore, *, expires_s: float = 2.0) -> Lease:
    return Lease(ObjectPath("locks/index.lock", store), "the index", expires_s, expires_s / 4)


def hold(store: ObjectStore, expires_s: float, held: Event) -> None:
    assert lease_on(store, expires_s=expires_s).acquire(30)
    held.set()
    time.sleep(600)


def holder_of(store: ObjectStore, *, expires_s: float) -> multiprocessing.process.BaseProcess:
    held = SPAWN.Event()
    process = SPAWN.Process(target=hold, args=(store, expires_s, held))
    process.start()
    assert held.wait(120)
    return process


def take_turns(store: ObjectStore, go: Event, told: Connection, turns: int) -> None:
    """Take the lease, look at a counter, wait, and count one up: two at once would lose a count."""
    client = open_client(store)
    go.wait(120)
    for _ in range(turns):
        lease = lease_on(store)
        assert lease.acquire(240)
        count = int(bytes(client.get("count").bytes()))
        time.sleep(0.02)
        client.put("count", str(count + 1).encode())
        lease.release()
    told.send("done")


@pytest.mark.slow
@pytest.mark.parametrize("service", ["azure_server"], indirect=True)
def test_a_renewed_lease_outlives_its_expiry_and_a_killed_holders_is_taken_over(
    store: ObjectStore, caplog: pytest.LogCaptureFixture
) -> None:
    holder = holder_of(store, expires_s=4.0)
    assert not lease_on(store, expires_s=4.0).acquire(6)
    holder.kill()
    holder.join()
    assert holder.exitcode == -signal.SIGKILL
    assert not lease_on(store, expires_s=4.0).acquire(0)
    lease = lease_on(store)
    assert lease.acquire(60)
    lease.release()
    assert [record.getMessage() for record in caplog.records] == [
        "taking over the index from a process that died"
    ]


@pytest.mark.slow
@pytest.mark.parametrize("service", ["s3"], indirect=True)
def test_of_several_takers_of_a_dead_holders_lease_one_wins(store: ObjectStore) -> None:
    holder = holder_of(store, expires_s=1.0)
    holder.kill()
    holder.join()
    open_client(store).put("count", b"0")
    go = SPAWN.Event()
    pipes = [SPAWN.Pipe(duplex=False) for _ in range(4)]
    takers = [SPAWN.Process(target=take_turns, args=(store, go, tell, 3)) for _, tell in pipes]
    for taker in takers:
        taker.start()
    go.set()
    assert [listen.recv() for listen, _ in pipes] == ["done"] * 4
    for taker in takers:
        taker.join()
    assert int(bytes(open_client(store).get("count").bytes())) == 12


def test_a_lock_that_is_held_is_busy_and_a_free_one_is_taken_by_a_few_requests(
    store: ObjectStore, service: S3Bucket | AzureServer
) -> None:
    folder = ObjectPath("locks", store)
    with (
        acquire_lock(folder, "source-docs", timeout_s=0, description="source 'docs'"),
        pytest.raises(Busy, match=r"another process is working on source 'docs' and did not finish within 0"),
        acquire_lock(folder, "source-docs", timeout_s=0, description="source 'docs'"),
    ):
        pass
    before = len(service.requests)
    with acquire_lock(folder, "source-docs", timeout_s=0), acquire_lock(folder, "index", timeout_s=0):
        pass
    assert len(service.requests) - before <= 8


def test_a_holder_that_was_cut_off_hears_that_it_lost_its_hold(store: ObjectStore) -> None:
    with (
        pytest.raises(Busy, match=r"lost the lease on 'index'"),
        acquire_lock(ObjectPath("locks", store), "index", timeout_s=0),
    ):
        open_client(store).put("locks/index.lock", b'{"owner": "another", "free": false, "expires_s": 30}')


def test_an_error_inside_is_what_is_told(store: ObjectStore) -> None:
    with pytest.raises(ZeroDivisionError), acquire_lock(ObjectPath("locks", store), "index", timeout_s=0):
        _ = 1 / 0
    with acquire_lock(ObjectPath("locks", store), "index", timeout_s=0):
        pass
