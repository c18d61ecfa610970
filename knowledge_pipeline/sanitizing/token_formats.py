"""Finds secrets by their format: the issuer's prefix, a length, an alphabet.

Every pattern is bounded and tried only where one of its prefixes occurs, so that no text
makes it slow. A text without a prefix costs one search for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from knowledge_pipeline.sanitizing.findings import Finding, find_occurrences


class _TokenFormat(NamedTuple):
    kind: str
    prefixes: tuple[str, ...]  # every match starts with one of them
    pattern: re.Pattern[str]


def _build_format(kind: str, prefixes: str, pattern: str) -> _TokenFormat:
    alone = rf"(?<![A-Za-z0-9_])(?:{pattern})(?![A-Za-z0-9])"
    return _TokenFormat(kind, tuple(prefixes.split()), re.compile(alone))


_FORMATS = (
    # https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html
    _build_format("aws_key", "AKIA ASIA ABIA ACCA", r"A(?:KIA|SIA|BIA|CCA)[A-Z2-7]{16}"),
    # https://github.blog/2021-04-05-behind-githubs-new-authentication-token-formats/
    _build_format("github_token", "ghp_ gho_ ghu_ ghs_ ghr_", r"gh[pousr]_[A-Za-z0-9]{36,255}"),
    _build_format("github_token", "github_pat_", r"github_pat_[A-Za-z0-9_]{50,255}"),
    # https://docs.gitlab.com/security/tokens/#token-prefixes
    _build_format(
        "gitlab_token",
        "glpat- gldt- glft- glsoat- glrt- glcbt- glimt- glptt- glagent- gloas-",
        r"gl(?:pat|dt|ft|soat|rt|cbt|imt|ptt|agent|oas)-[A-Za-z0-9_-]{20,300}(?:\.[a-z0-9]{2}\.[a-z0-9]{9})?",
    ),
    # https://docs.slack.dev/authentication/tokens
    _build_format("slack_token", "xox", r"xox[abeoprs](?:\.xox[bp])?-\d{1,20}-[A-Za-z0-9-]{10,250}"),
    _build_format("slack_token", "xapp-", r"xapp-\d-[A-Z0-9]{6,20}-\d{6,20}-[a-f0-9]{20,100}"),
    _build_format(
        "slack_webhook",
        "https://hooks.slack.com/",
        r"https://hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9/]{20,120}",
    ),
    # https://docs.stripe.com/keys, https://docs.stripe.com/webhooks
    _build_format(
        "stripe_key", "sk_live_ rk_live_ sk_test_ rk_test_", r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,255}"
    ),
    _build_format("stripe_key", "whsec_", r"whsec_[A-Za-z0-9+/]{32,100}={0,2}"),
    # https://cloud.google.com/docs/authentication/api-keys
    _build_format("google_key", "AIza", r"AIza[A-Za-z0-9_-]{35}"),
    _build_format("google_key", "GOCSPX-", r"GOCSPX-[A-Za-z0-9_-]{28}"),
    _build_format("google_key", "ya29.", r"ya29\.[A-Za-z0-9_-]{30,1000}"),
    # RFC 7519; header and payload are JSON objects, which begin with eyJ in base64url
    _build_format(
        "jwt", "eyJ", r"eyJ[A-Za-z0-9_-]{10,2000}\.eyJ[A-Za-z0-9_-]{10,8000}\.[A-Za-z0-9_-]{16,1500}"
    ),
    # https://docs.npmjs.com/about-access-tokens, https://pypi.org/help/#apitoken
    _build_format("npm_token", "npm_", r"npm_[A-Za-z0-9]{36}"),
    _build_format("pypi_token", "pypi-AgE", r"pypi-AgE[A-Za-z0-9_-]{50,1000}"),
    _build_format("openai_key", "sk-", r"sk-[A-Za-z0-9_-]{10,200}T3BlbkFJ[A-Za-z0-9_-]{10,200}"),
    _build_format("openai_key", "sk-proj- sk-svcacct-", r"sk-(?:proj|svcacct)-[A-Za-z0-9_-]{32,300}"),
    _build_format("anthropic_key", "sk-ant-", r"sk-ant-[A-Za-z0-9_-]{40,300}"),
    _build_format("huggingface_token", "hf_", r"hf_(?=[a-z0-9]{0,40}[A-Z])[A-Za-z0-9]{34,40}"),
    _build_format("sendgrid_key", "SG.", r"SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}"),
    _build_format("twilio_key", "SK", r"SK[0-9a-f]{32}"),
    _build_format("digitalocean_token", "dop_v1_ doo_v1_ dor_v1_", r"do[opr]_v1_[a-f0-9]{64}"),
    _build_format("shopify_token", "shpat_ shpca_ shppa_ shpss_", r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}"),
    _build_format("databricks_token", "dapi", r"dapi[0-9a-f]{32}(?:-\d)?"),
    _build_format("vault_token", "hvs. hvb.", r"hv[sb]\.[A-Za-z0-9_-]{24,200}"),
    _build_format("age_key", "AGE-SECRET-KEY-1", r"AGE-SECRET-KEY-1[A-Z0-9]{58}"),
    _build_format("azure_key", "AccountKey=", r"AccountKey=[A-Za-z0-9+/]{86}=="),
)


def find_tokens(text: str) -> Iterator[Finding]:
    """Every token of a known form, in the order of the table."""
    for kind, prefixes, pattern in _FORMATS:
        for prefix in prefixes:
            for at in find_occurrences(text, prefix):
                if match := pattern.match(text, at):
                    yield Finding(*match.span(), kind)
