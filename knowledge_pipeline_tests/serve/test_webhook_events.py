"""Events of each service: what is looked at after them, and which deliveries are not believed."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from knowledge_pipeline.config.operation import WebhookSettings
from knowledge_pipeline.config.sources import SourceConfig
from knowledge_pipeline.connectors.events import ServiceEvent
from knowledge_pipeline.errors import Forbidden, Unauthenticated
from knowledge_pipeline.serve.webhooks import SERVICES, find_kind, parse_payload
from knowledge_pipeline_tests.fakes.bucket.events import event_bridge_event, gcs_event, minio_event
from knowledge_pipeline_tests.fakes.confluence import events as confluence
from knowledge_pipeline_tests.fakes.github import events as github
from knowledge_pipeline_tests.fakes.gitlab import events as gitlab
from knowledge_pipeline_tests.fakes.identity_server import IdentityServer
from knowledge_pipeline_tests.fakes.jira import events as jira
from knowledge_pipeline_tests.fakes.slack import events as slack
from knowledge_pipeline_tests.fakes.webhook_sender import SIGN, Delivery, sign_slack

SECRET = "-".join(("hook", "secret"))
BY_NAME = {service.name: service for service in SERVICES}
HUB, LAB, TICKETS, WIKI = (
    "https://github.com",
    "https://gitlab.com",
    "https://acme.example",
    "https://wiki.example",
)
GCS = {"audience": "https://knowledge.example/webhooks/gcs", "service_account": "push@acme.example"}


def source(id_: str, type_: str, connection: dict[str, Any], **filters: Any) -> SourceConfig:
    return SourceConfig.model_validate({"id": id_, "type": type_, "connection": connection, **filters})


HUB_SHOP = {"type": "github", "repository": "acme/shop"}
LAB_SHOP = {"type": "gitlab", "project": "acme/web/shop"}
SLACK = {"type": "slack", "token": "t"}
SOURCES = [
    source("hub-issues", "github_issues", HUB_SHOP),
    source("hub-pulls", "github_pr", HUB_SHOP),
    source("hub-code", "code", HUB_SHOP),
    source("hub-other", "github_issues", HUB_SHOP | {"repository": "acme/other"}),
    source("hub-wiki", "markdown", {"type": "git", "url": f"{HUB}/acme/shop.wiki.git"}),
    source("lab-issues", "github_issues", LAB_SHOP),
    source("lab-merges", "github_pr", LAB_SHOP),
    source("lab-wiki", "markdown", {"type": "git", "url": "git@gitlab.com:acme/web/shop.wiki.git"}),
    source("jira-shop", "jira", {"type": "jira", "url": TICKETS}, projects=["SHOP"]),
    source("jira-pay", "jira", {"type": "jira", "url": TICKETS}, projects=["PAY"]),
    source("jira-all", "jira", {"type": "jira", "url": "https://api.atlassian.com/ex/jira/1"}),
    source("jira-far", "jira", {"type": "jira", "url": "https://far.example"}),
    source("wiki-team", "confluence", {"type": "confluence", "url": WIKI}, spaces=["TEAM"]),
    source("wiki-all", "confluence", {"type": "confluence", "url": WIKI}),
    source("chat-one", "slack", SLACK, channels=["C00001"]),
    source("chat-names", "slack", SLACK, channels=["general"]),
    source("s3-docs", "files", {"type": "s3", "bucket": "acme-docs", "prefix": "hand books/"}),
    source(
        "s3-zip",
        "files",
        {"type": "archive_file", "object": {"type": "s3", "bucket": "acme-docs", "prefix": "a.zip"}},
    ),
    source("gcs-docs", "files", {"type": "gcs", "bucket": "acme-docs"}),
]
TS, REPLY = "1767225600.000100", "1767312000.000200"  # of two days, 2026-01-01 and -02
THREAD = [f"thread/C00001/{ts}" for ts in (TS, REPLY)]
DAYS = ["day/C00001/2026-01-01", "day/C00001/2026-01-02"]
JIRA_SHOP = ("jira-shop", "jira-all")


def of(sources: tuple[str, ...], *documents: str) -> set[str]:
    return {f"{id_}/{document}" for id_ in sources for document in documents}


ISSUE = of(("hub-issues",), "issue/7")
PULL = of(("hub-pulls",), "pull/8")
WHOLE_HUB = {"hub-issues", "hub-pulls", "hub-code", "hub-wiki"}
TICKET = of(JIRA_SHOP, "issue/10001")
PAGE = of(("wiki-team", "wiki-all"), "page/5")
CHANNEL = of(("chat-one", "chat-names"), "thread/C00001/*", "day/C00001/*")


def on_hub(uri: str, event: str, action: str = "edited") -> tuple[str, str, dict[str, Any]]:
    return "github", event, github.conversation_event(HUB, "acme/shop", uri, event, action)


EVENTS: list[tuple[tuple[str, str, dict[str, Any]], set[str]]] = [
    *((on_hub("issue/7", "issues", action), ISSUE) for action in ("opened", "deleted", "transferred")),
    (on_hub("issue/7", "issue_comment", "deleted"), ISSUE),
    (on_hub("pull/8", "issue_comment"), PULL),
    (on_hub("pull/8", "pull_request", "closed"), PULL),
    (on_hub("pull/8", "pull_request_review", "submitted"), PULL),
    (on_hub("pull/8", "pull_request_review_comment"), PULL),
    (("github", "gollum", github.repository(HUB, "acme/shop")), {"hub-wiki"}),
    (("github", "repository", {"action": "deleted", **github.repository(HUB, "acme/shop")}), WHOLE_HUB),
    (("github", "repository", github.renamed(HUB, "acme/store", "shop")), WHOLE_HUB),
    (("github", "public", github.repository(HUB, "acme/shop")), WHOLE_HUB),
    (("github", "member", github.repository("https://evil.example", "acme/shop")), set()),
    (("github", "membership", {"organization": {"login": "Acme"}}), WHOLE_HUB | {"hub-other"}),
    (("github", "star", github.repository(HUB, "acme/shop")), set()),
    (("github", "issues", {"issue": {"number": "7; drop"}, **github.repository(HUB, "acme/shop")}), set()),
    (
        ("gitlab", "Issue Hook", gitlab.conversation_event(LAB, "acme/web/shop", "issue/3")),
        {"lab-issues/issue/3"},
    ),
    (
        (
            "gitlab",
            "Note Hook",
            gitlab.conversation_event(LAB, "acme/web/shop", "merge_request/4", note=True),
        ),
        {"lab-merges/merge_request/4"},
    ),
    (
        ("gitlab", "Merge Request Hook", gitlab.conversation_event(LAB, "acme/web/shop", "merge_request/4")),
        {"lab-merges/merge_request/4"},
    ),
    (("gitlab", "Wiki Page Hook", gitlab.wiki_event(LAB, "acme/web/shop")), {"lab-wiki"}),
    (
        ("gitlab", "System Hook", gitlab.project_event("project_destroy", "acme/web/shop")),
        {"lab-issues", "lab-merges", "lab-wiki"},
    ),
    (
        (
            "gitlab",
            "System Hook",
            gitlab.project_event("project_rename", "acme/web/b", old_path_with_namespace="acme/web/shop"),
        ),
        {"lab-issues", "lab-merges", "lab-wiki"},
    ),
    *(
        (("jira", event, jira.ticket_event(TICKETS, "SHOP-1", "issue/10001")), TICKET)
        for event in ("jira:issue_created", "jira:issue_updated", "jira:issue_deleted", "comment_deleted")
    ),
    (
        (
            "jira",
            "jira:issue_updated",
            jira.ticket_event(TICKETS, "PAY-9", "issue/10001", **jira.moved_from("SHOP-1", "PAY-9")),
        ),
        TICKET | of(("jira-pay",), "issue/10001"),
    ),
    (
        ("jira", "attachment_created", {"attachment": {"id": "1"}}),
        {"jira-shop", "jira-pay", "jira-all", "jira-far"},
    ),
    (("jira", "project_deleted", {"project": {"key": "PAY"}}), {"jira-pay!", "jira-all!", "jira-far!"}),
    (("jira", "user_created", {"user": {}}), set()),
    *(
        (
            ("confluence", event, confluence.page_event(WIKI, "page/5", "TEAM")),
            PAGE,
        )
        for event in ("page_created", "page_updated", "page_removed", "page_trashed", "page_restored")
    ),
    (("confluence", "page_updated", confluence.page_event(WIKI, "page/5", "OPS")), {"wiki-all/page/5"}),
    (("confluence", "page_moved", confluence.page_event(WIKI, "page/5", "OPS")), PAGE),
    (("confluence", "comment_updated", confluence.comment_event(WIKI, "page/5", "TEAM")), PAGE),
    (("confluence", "attachment_removed", confluence.attachment_event(WIKI, "page/5", "TEAM")), PAGE),
    (
        ("confluence", "blog_updated", confluence.page_event(WIKI, "blogpost/6", "OPS")),
        {"wiki-all/blogpost/6"},
    ),
    (
        ("confluence", "", {"page": {"id": "7"}, "content": {"id": 8}}),  # as a rule of a person may word it
        of(("wiki-team", "wiki-all"), "page/7", "page/8", "blogpost/8"),
    ),
    (("confluence", "space_permissions_updated", confluence.space_event(WIKI, "OPS")), {"wiki-all!"}),
    (("confluence", "space_removed", confluence.space_event(WIKI, "TEAM")), {"wiki-team!", "wiki-all!"}),
    (
        ("confluence", "content_permissions_updated", {"content": {"id": 5, "space": {"key": "TEAM"}}}),
        {"wiki-team!", "wiki-all!"},
    ),
    (("slack", "", slack.posted("C00001", TS)), of(("chat-one", "chat-names"), THREAD[0], DAYS[0])),
    (
        ("slack", "", slack.posted("C00001", REPLY, thread=TS)),
        of(("chat-one", "chat-names"), *THREAD, *DAYS),
    ),
    (("slack", "", slack.changed("C00001", TS)), of(("chat-one", "chat-names"), THREAD[0], DAYS[0])),
    (
        ("slack", "", slack.deleted("C00001", REPLY, thread=TS)),
        of(("chat-one", "chat-names"), *THREAD, *DAYS),
    ),
    (
        ("slack", "", slack.posted("C00002", TS)),
        of(("chat-names",), f"thread/C00002/{TS}", "day/C00002/2026-01-01"),
    ),
    (("slack", "", slack.posted("../C00001", TS)), set()),
    *(
        (("slack", "", slack.of_channel(event, "C00001")), CHANNEL)
        for event in ("channel_deleted", "channel_rename", "channel_left", "group_archive")
    ),
    (("slack", "", slack.of_channel("member_left_channel", "C00001", user="U1")), {"chat-one", "chat-names"}),
    (
        ("slack", "", slack.of_channel("member_joined_channel", "C00001", user="UBOT")),
        {"chat-one!", "chat-names!"},
    ),
    (("s3", "", minio_event("acme-docs", "hand books/a b.pdf")), {"s3-docs"}),
    (("s3", "", minio_event("acme-docs", "hand books/a.pdf", "s3:ObjectRemoved:Delete")), {"s3-docs"}),
    (("s3", "", minio_event("acme-docs", "hand books/a.pdf", "s3:ObjectAccessed:Get")), set()),
    (("s3", "", minio_event("acme-docs", "other/a.pdf")), set()),
    (("s3", "", minio_event("acme-docs", "a.zip")), {"s3-zip"}),
    (("s3", "", event_bridge_event("acme-docs", "hand books/a.pdf", "Object Deleted")), {"s3-docs"}),
    (("gcs", "", gcs_event("acme-docs", "a.pdf")), {"gcs-docs"}),
    (("gcs", "", gcs_event("acme-docs", "a.pdf", "OBJECT_METADATA_UPDATE")), set()),
]


def read(delivery: Delivery) -> ServiceEvent:
    headers = {name.lower(): value for name, value in delivery.headers.items()}
    return BY_NAME[delivery.service].parse(parse_payload(delivery.body, "application/json"), headers)


def looked_at(event: ServiceEvent) -> set[str]:
    """ "SOURCE/URI" of documents, "SOURCE" of sources as a whole, "SOURCE!" where they are listed in full."""
    found: set[str] = set()
    for change in event.changes:
        ids = [each.id for each in SOURCES if change.is_of(each)]
        found |= of(tuple(ids), *change.documents) or {f"{id_}{'!' * change.relist}" for id_ in ids}
    return found


@pytest.mark.parametrize(
    ("sent", "expected"), EVENTS, ids=lambda value: str(value[:2]) if type(value) is tuple else ""
)
def test_an_event_is_a_look_at_what_it_names(
    sent: tuple[str, str, dict[str, Any]], expected: set[str]
) -> None:
    service, event, payload = sent
    assert looked_at(read(SIGN[service](SECRET, event, payload))) == expected


def test_an_event_of_a_pull_request_refreshes_what_reads_its_head() -> None:
    reads = {
        name: source(name, "code", connection, branches=[pattern])
        for name, connection, pattern in [
            ("hub-heads", HUB_SHOP, "pull/*"),
            ("hub-other-number", HUB_SHOP, "pull/9"),
            ("hub-branches", HUB_SHOP, "*"),
            ("hub-other", HUB_SHOP | {"repository": "acme/other"}, "pull/*"),
            ("lab-heads", LAB_SHOP, "merge-requests/4"),
        ]
    }

    def refreshed(service: str, event: str, payload: dict[str, Any]) -> set[str]:
        found = read(SIGN[service](SECRET, event, payload)).changes
        return {name for name, each in reads.items() if any(change.is_of(each) for change in found)}

    for action in ("opened", "synchronize", "reopened", "closed"):
        assert refreshed(*on_hub("pull/8", "pull_request", action)) == {"hub-heads"}
    assert refreshed(*on_hub("pull/8", "pull_request", "labeled")) == set()
    assert refreshed(*on_hub("pull/8", "pull_request_review", "submitted")) == set()
    merge = gitlab.conversation_event(LAB, "acme/web/shop", "merge_request/4")
    assert refreshed("gitlab", "Merge Request Hook", merge) == {"lab-heads"}


def test_the_kind_of_an_event_is_what_its_service_calls_it() -> None:
    sent = [
        ("github", "push", {}, "push"),
        ("gitlab", "Issue Hook", gitlab.conversation_event(LAB, "acme/web/shop", "issue/3"), "issue"),
        ("gitlab", "System Hook", gitlab.project_event("project_destroy", "a/b"), "project_destroy"),
        ("jira", "comment_deleted", jira.ticket_event(TICKETS, "SHOP-1", "issue/1"), "comment_deleted"),
        ("confluence", "page_removed", confluence.page_event(WIKI, "page/5", "TEAM"), "page_removed"),
        ("confluence", "", {"page": {"id": "7"}}, ""),
        ("slack", "", slack.posted("C00001", TS), "message"),
        ("s3", "", minio_event("acme-docs", "a.pdf"), "s3:ObjectCreated:Put"),
        ("s3", "", event_bridge_event("acme-docs", "a.pdf", "Object Deleted"), "Object Deleted"),
        ("gcs", "", gcs_event("acme-docs", "a.pdf"), "OBJECT_FINALIZE"),
        ("jira", "<b>\n" + "x" * 99, {}, "b" + "x" * 59),
    ]
    for service, event, payload, expected in sent:
        delivery = SIGN[service](SECRET, event, payload)
        headers = {name.lower(): value for name, value in delivery.headers.items()}
        assert find_kind(parse_payload(delivery.body, "application/json"), headers) == expected


def test_every_service_believes_only_what_it_can_verify() -> None:
    settings = WebhookSettings.model_validate(
        {each.setting: GCS if each.name == "gcs" else SECRET for each in SERVICES}
    )
    for service in SERVICES:
        payload = {"some": "event"}
        right = SIGN[service.name](SECRET, "any", payload)

        def verify(delivery: Delivery, settings: WebhookSettings = settings, service: Any = service) -> None:
            headers = {name.lower(): value for name, value in delivery.headers.items()}
            service.require_genuine(settings, delivery.body, headers)

        with pytest.raises(Forbidden, match=service.setting):
            verify(right, settings=WebhookSettings())
        wrong = [SIGN[service.name](SECRET + "x", "any", payload), replace(right, headers={})]
        if service.name in ("github", "jira", "confluence", "slack"):
            wrong.append(replace(right, body=right.body + b" "))
        if service.name in ("jira", "confluence"):
            verify(replace(right, headers={"Authorization": f"Bearer {SECRET}"}))  # of an automation rule
            wrong.append(right.with_headers(Authorization=f"Bearer {SECRET}", X_Hub_Signature="sha256=é"))
        if service.name == "slack":
            wrong += [sign_slack(SECRET, "", payload, at_s=time.time() + by) for by in (-301, 301)]
            wrong.append(right.with_headers(X_Slack_Request_Timestamp="9" * 400))
        for delivery in wrong:
            with pytest.raises(Unauthenticated):
                verify(delivery)
        if service.name != "gcs":
            verify(right)


def test_a_push_of_google_needs_a_token_for_the_audience_and_the_account() -> None:
    with IdentityServer() as google:
        settings = WebhookSettings.model_validate({"gcs": {**GCS, "issuer": google.issuer}})

        def verify(**claims: Any) -> None:
            told = {
                "sub": "1",
                "aud": GCS["audience"],
                "email": GCS["service_account"],
                "email_verified": True,
            }
            token = google.issue(**{**told, **claims})
            BY_NAME["gcs"].require_genuine(settings, b"", {"authorization": f"Bearer {token}"})

        verify()
        wrong = (
            {"aud": "https://other.example"},
            {"email": "x@acme.example"},
            {"email_verified": False},
            {"exp": 1},
        )
        for claims in wrong:
            with pytest.raises(Unauthenticated):
                verify(**claims)


def test_deliveries_are_told_apart_by_their_ids_and_by_dated_bodies() -> None:
    def keys(service: str, payload: dict[str, Any], **headers: str) -> set[str]:
        return set(BY_NAME[service].iter_delivery_keys(payload, str(payload).encode(), headers))

    assert len(keys("github", {"ref": ""}, **{"x-github-delivery": "1"})) == 2
    assert keys("github", {"member": {}}, **{"x-github-delivery": "1"}) == {"github id 1"}
    assert not keys("confluence", {"page": {"id": 1}}), "a rule may send the same body after each edit"
    assert keys("confluence", {"timestamp": 1}) != keys("confluence", {"timestamp": 2})
    assert keys("slack", {"event_id": "Ev1"}) and keys("s3", {}) and keys("gcs", {})


def test_slack_asks_for_its_challenge() -> None:
    asked = read(sign_slack(SECRET, "", {"type": "url_verification", "challenge": "3eZbrw1aB"}))
    assert (asked.challenge, asked.changes) == ("3eZbrw1aB", ())
