"""Events that are delivered to webhooks: signed, in order, at least once, whatever the receiver does."""

from __future__ import annotations

import asyncio
import base64
import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx2
import pytest

from knowledge_pipeline.config.operation import EventSettings
from knowledge_pipeline.errors import ConfigError
from knowledge_pipeline.serve import events as module
from knowledge_pipeline.serve.events import EventFollower, WebhookDeliveries
from knowledge_pipeline.serve.targets import Target, build_headers, parse_key
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.local_state import SharedState
from knowledge_pipeline.store.logs import record_event
from knowledge_pipeline_tests.fakes.served import Sent
from knowledge_pipeline_tests.fakes.webhook_receiver import WebhookReceiver

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[WebhookReceiver]:
    monkeypatch.setattr(module, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(module, "TURN_S", 0.02)
    monkeypatch.setattr("knowledge_pipeline.serve.events.LOCAL_INTERVAL_S", 0.02)
    with WebhookReceiver(SECRET) as made:
        yield made


@contextmanager
def delivering(root: Path, targets: Sequence[Target]) -> Iterator[None]:
    """A server's deliveries, in a thread, as long as the block lasts."""
    ready, ending = threading.Event(), threading.Event()

    async def deliver() -> None:
        follower = EventFollower(Lake(root))
        deliveries = WebhookDeliveries(Lake(root), targets, follower)
        deliveries.start()
        while len(positions(root)) < len(targets):
            await asyncio.sleep(0.01)
        ready.set()
        await asyncio.to_thread(ending.wait)
        await deliveries.close()

    thread = threading.Thread(target=asyncio.run, args=(deliver(),))
    thread.start()
    try:
        assert ready.wait(60)
        yield
    finally:
        ending.set()
        thread.join(60)


def positions(root: Path) -> list[bytes]:
    with SharedState(root) as state:
        return state.list_values("position")


def record(root: Path, number: int, *, age: timedelta = timedelta(0)) -> None:
    at = datetime.now(UTC) - age
    record_event(Lake(root), "index.refreshed", {"number": number}, at=at, source=f"s{number}")


def numbers(receiver: WebhookReceiver) -> list[int]:
    return [body["data"]["number"] for body in receiver.taken]


def target(receiver: WebhookReceiver, *types: str) -> Target:
    return Target(receiver.url, parse_key(SECRET), types)  # type: ignore[arg-type]


def test_signatures_are_those_of_the_specification(receiver: WebhookReceiver) -> None:
    key = parse_key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    headers = build_headers(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    forged = build_headers(bytes(32), "evt_1", int(datetime.now(UTC).timestamp()), b"{}")
    for sent in (headers, forged, {}):  # old, of another key, of none: the receiver takes none of them
        assert httpx2.post(receiver.url, content=b"{}", headers=sent).status_code == 400
    for wrong in ("whsec_short", "no base64 at all!", base64.b64encode(bytes(65)).decode()):
        with pytest.raises(ConfigError, match="openssl rand -base64 32") as refused:
            parse_key(wrong)
        assert wrong not in str(refused.value)
    twice = {"url": "https://a.example/", "secret": SECRET}
    with pytest.raises(ValueError, match="the same url"):
        EventSettings.model_validate({"webhooks": [twice, twice]})


def test_events_arrive_in_order_whatever_the_receiver_answers_and_go_on_after_a_restart(
    receiver: WebhookReceiver, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    record(tmp_path, 0)  # before anybody was to be told
    receiver.answer_next(
        Sent(500, b""), Sent(302, b"", {"Location": receiver.url}), Sent(429, b"", {"Retry-After": "0"})
    )
    with delivering(tmp_path, [target(receiver)]):
        record(tmp_path, 1)
        record(tmp_path, 2)
        receiver.wait_for(2)
    assert numbers(receiver) == [1, 2]
    tries = [asked.headers["webhook-id"] for asked in receiver.asked]
    assert len(tries) == 5 and tries[0] == tries[3] != tries[4]
    assert "did not take index.refreshed, and is tried again: it answered 500" in caplog.text
    assert "of-the-address" not in caplog.text

    record(tmp_path, 3)
    with SharedState(tmp_path) as state:
        state.put("position", "former", b"1")  # of a target that is no longer told
    with delivering(tmp_path, [target(receiver)]), delivering(tmp_path, [target(receiver)]):
        receiver.wait_for(3)
        record(tmp_path, 4)  # two processes, of which one delivers
        receiver.wait_for(4)
    assert list(dict.fromkeys(numbers(receiver))) == [
        1,
        2,
        3,
        4,
    ]  # the end may have come before the note of 2
    assert len(receiver.taken) <= 5
    assert len(positions(tmp_path)) == 1


def test_a_target_that_is_dead_slow_or_gone_holds_up_nobody_else(
    receiver: WebhookReceiver,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(module, "TIMEOUT_S", 0.2)
    caplog.set_level(logging.WARNING)
    with WebhookReceiver(SECRET) as slow, WebhookReceiver(SECRET) as gone, WebhookReceiver(SECRET) as picky:
        slow.answer_next(Sent(204, b"", wait_s=1.0))
        gone.answer_next(Sent(410, b""))
        dead = Target("http://127.0.0.1:9/", parse_key(SECRET), ())
        others = [target(slow), target(gone), target(picky, "source.failed"), dead]
        with delivering(tmp_path, [target(receiver), *others]):
            record(tmp_path, 1)
            record(tmp_path, 2)
            receiver.wait_for(2)
            slow.wait_for(2)
            gone.wait_for(1, requests=True)
        assert (numbers(receiver), numbers(slow)) == ([1, 2], [1, 2])
        assert (len(gone.asked), picky.asked) == (1, [])
    assert "is told nothing more until a restart: it answered 410" in caplog.text


def test_an_event_that_is_too_old_is_given_up_and_the_next_one_sent(
    receiver: WebhookReceiver, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with delivering(tmp_path, [target(receiver)]):
        receiver.answer_next(Sent(500, b""))
        record(tmp_path, 1, age=timedelta(days=4))
        receiver.wait_for(1, requests=True)
        record(tmp_path, 2)
        receiver.wait_for(1)
    assert numbers(receiver) == [2]
    assert "too old" in caplog.text
