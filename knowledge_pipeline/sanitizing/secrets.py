"""Finds secrets: private keys, tokens, passwords in URLs, and values that only their name reveals.

Tokens are known by their format: the issuer's prefix, a length, an alphabet. Every pattern is bounded and
tried only where one of its prefixes occurs, so that no text makes it slow. Prefixes are first searched for in
the long words of a text, a sixth of usual code.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from knowledge_pipeline.sanitizing.findings import REDACTION_PREFIX, Finding, find_occurrences


def find_secrets(text: str) -> Iterator[Finding]:
    """Every secret of a text, by kind; findings may overlap."""
    yield from _find_private_keys(text)
    yield from _find_tokens(text)
    for at in find_occurrences(text, "://"):
        match = _URL_LOGIN.match(text, at)
        if match and match["password"] != match["user"] and not _NON_PASSWORD.fullmatch(match["password"]):
            yield Finding(*match.span("password"), "url_password")
    yield from _find_assigned_secrets(text)


_LONG_WORD = re.compile(r"[A-Za-z0-9_./+=~:@-]{17,}+")
"""What any token is part of: all characters of all tokens, and the length of the shortest."""

_TOKENS = (
    # https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html
    ("aws_key", "AKIA ASIA ABIA ACCA", r"[A-Z2-7]{16}"),
    # https://github.blog/2021-04-05-behind-githubs-new-authentication-token-formats/
    ("github_token", "ghp_ gho_ ghu_ ghs_ ghr_", r"[A-Za-z0-9]{36,255}"),
    ("github_token", "github_pat_", r"[A-Za-z0-9_]{50,255}"),
    # https://docs.gitlab.com/security/tokens/#token-prefixes
    (
        "gitlab_token",
        "glpat- gldt- glft- glsoat- glrt- glrtr- glcbt- glimt- glptt- glagent- gloas- glffct-",
        r"[A-Za-z0-9_-]{20,300}(?:\.[a-z0-9]{2}\.[a-z0-9]{9})?",
    ),
    # https://docs.slack.dev/authentication/tokens
    ("slack_token", "xox", r"[abeoprs](?:\.xox[bp])?-\d{1,20}-[A-Za-z0-9-]{10,250}"),
    ("slack_token", "xapp-", r"\d-[A-Z0-9]{6,20}-\d{6,20}-[a-f0-9]{20,100}"),
    ("slack_webhook", "https://hooks.slack.com/", r"(?:services|workflows|triggers)/[A-Za-z0-9/]{20,120}"),
    # https://docs.stripe.com/keys, https://docs.stripe.com/webhooks
    ("stripe_key", "sk_live_ rk_live_ sk_test_ rk_test_", r"[A-Za-z0-9]{16,255}"),
    ("stripe_key", "whsec_", r"[A-Za-z0-9+/]{32,100}={0,2}"),
    # https://cloud.google.com/docs/authentication/api-keys
    ("google_key", "AIza", r"[A-Za-z0-9_-]{35}"),
    ("google_key", "GOCSPX-", r"[A-Za-z0-9_-]{28}"),
    ("google_key", "ya29.", r"[A-Za-z0-9_-]{30,1000}"),
    # RFC 7519; header and payload are JSON objects, which begin with eyJ in base64url
    ("jwt", "eyJ", r"[A-Za-z0-9_-]{10,2000}\.eyJ[A-Za-z0-9_-]{10,8000}\.[A-Za-z0-9_-]{16,1500}"),
    # https://docs.npmjs.com/about-access-tokens, https://pypi.org/help/#apitoken
    ("npm_token", "npm_", r"[A-Za-z0-9]{36}"),
    ("pypi_token", "pypi-AgE", r"[A-Za-z0-9_-]{50,1000}"),
    ("openai_key", "sk-", r"[A-Za-z0-9_-]{10,200}T3BlbkFJ[A-Za-z0-9_-]{10,200}"),
    ("openai_key", "sk-proj- sk-svcacct-", r"[A-Za-z0-9_-]{32,300}"),
    ("anthropic_key", "sk-ant-", r"[A-Za-z0-9_-]{40,300}"),
    ("huggingface_token", "hf_", r"(?=[a-z0-9]{0,40}[A-Z])[A-Za-z0-9]{34,40}"),
    ("sendgrid_key", "SG.", r"[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}"),
    ("twilio_key", "SK", r"[0-9a-f]{32}"),
    ("digitalocean_token", "dop_v1_ doo_v1_ dor_v1_", r"[a-f0-9]{64}"),
    ("shopify_token", "shpat_ shpca_ shppa_ shpss_", r"[a-fA-F0-9]{32}"),
    ("databricks_token", "dapi", r"[0-9a-f]{32}(?:-\d)?"),
    ("vault_token", "hvs. hvb.", r"[A-Za-z0-9_-]{24,200}"),
    ("age_key", "AGE-SECRET-KEY-1", r"[A-Z0-9]{58}"),
    ("azure_key", "AccountKey=", r"[A-Za-z0-9+/]{86}=="),
    # https://developer.1password.com/docs/service-accounts/security
    ("onepassword_token", "ops_eyJ", r"[A-Za-z0-9+/_-]{200,1500}={0,2}"),
    # https://support.atlassian.com/organization-administration/docs/understand-user-api-tokens
    ("atlassian_token", "ATATT3 ATCTT3", r"[A-Za-z0-9_=-]{60,400}"),
    # https://confluence.atlassian.com/bitbucketserver/http-access-tokens-939515499.html
    ("bitbucket_token", "BBDC-", r"[A-Za-z0-9+/@_-]{32,64}"),
    # https://docs.aws.amazon.com/bedrock/latest/userguide/api-keys.html
    ("aws_key", "ABSK", r"[A-Za-z0-9+/]{100,300}={0,2}"),
    # https://buildkite.com/docs/apis/managing-api-tokens
    ("buildkite_token", "bkua_", r"[a-f0-9]{40}"),
    # https://circleci.com/docs/managing-api-tokens
    ("circleci_token", "CCIPAT_ CCIPRJ_", r"[A-Za-z0-9]{22}_[a-f0-9]{40}"),
    # https://www.contentful.com/developers/docs/references/authentication
    ("contentful_token", "CFPAT-", r"[A-Za-z0-9_-]{43}"),
    # https://doc.rust-lang.org/cargo/reference/registry-authentication.html
    ("crates_token", "cio", r"[A-Za-z0-9]{32}"),
    # https://docs.databricks.com/dev-tools/auth/oauth-m2m
    ("databricks_token", "dose", r"[0-9a-f]{32}(?:-\d)?"),
    # https://discord.com/developers/docs/resources/webhook
    (
        "discord_webhook",
        "https://discord.com/api/webhooks/ https://discordapp.com/api/webhooks/",
        r"\d{16,20}/[A-Za-z0-9_-]{60,80}",
    ),
    # https://docs.docker.com/security/access-tokens, https://docs.docker.com/engine/swarm/join-nodes
    ("docker_token", "dckr_pat_ dckr_oat_", r"[A-Za-z0-9_-]{27,40}"),
    ("docker_token", "SWMTKN-1-", r"[a-z0-9]{48,52}-[a-z0-9]{24,26}"),
    ("docker_token", "SWMKEY-1-", r"[A-Za-z0-9+/]{43}"),
    # https://docs.doppler.com/reference/auth-token-formats
    (
        "doppler_token",
        "dp.st. dp.pt. dp.ct. dp.sa. dp.scim. dp.audit.",
        r"(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,44}",
    ),
    # https://docs.dynatrace.com/docs/dynatrace-api/basics/dynatrace-api-authentication
    ("dynatrace_token", "dt0", r"[a-z]\d{2}\.[A-Z0-9]{8,24}\.[A-Z0-9]{64}"),
    # https://developers.figma.com/docs/rest-api/authentication
    ("figma_token", "figd_", r"[A-Za-z0-9_-]{38,50}"),
    # https://grafana.com/docs/grafana/latest/administration/service-accounts
    ("grafana_token", "glsa_", r"[A-Za-z0-9]{32}_[a-fA-F0-9]{8}"),
    ("grafana_token", "glc_eyJ", r"[A-Za-z0-9+/]{40,400}={0,2}"),
    # https://console.groq.com/docs/quickstart, https://docs.x.ai, https://openrouter.ai/docs/api-reference
    ("groq_key", "gsk_", r"[A-Za-z0-9]{52}"),
    ("xai_key", "xai-", r"[A-Za-z0-9]{70,90}"),
    ("openrouter_key", "sk-or-v1-", r"[0-9a-f]{64}"),
    # https://docs.nvidia.com/ngc, https://docs.perplexity.ai, https://replicate.com/docs/reference/http
    ("nvidia_key", "nvapi-", r"[A-Za-z0-9_-]{60,70}"),
    ("perplexity_key", "pplx-", r"[A-Za-z0-9]{48}"),
    ("replicate_token", "r8_", r"[A-Za-z0-9]{37}"),
    # https://devcenter.heroku.com/articles/authentication
    ("heroku_key", "HRKU-", r"[A-Za-z0-9_-]{60}"),
    # https://linear.app/developers/graphql, https://docs.langchain.com/langsmith
    ("linear_key", "lin_api_ lin_oauth_", r"[A-Za-z0-9]{40,64}"),
    ("langsmith_key", "lsv2_pt_ lsv2_sk_", r"[0-9a-f]{32}_[0-9a-f]{10}"),
    # https://docs.mapbox.com/help/dive-deeper/access-tokens: sk. is secret, pk. is public
    ("mapbox_token", "sk.eyJ", r"[A-Za-z0-9_-]{40,120}\.[A-Za-z0-9_-]{22}"),
    # https://learn.microsoft.com/microsoftteams/platform/webhooks-and-connectors
    ("teams_webhook", "webhook.office.com/webhookb2/", r"[A-Za-z0-9@/-]{100,250}"),
    # https://docs.newrelic.com/docs/apis/intro-apis/new-relic-api-keys
    ("new_relic_key", "NRAK-", r"[A-Z0-9]{27}"),
    # https://developers.notion.com/reference/authentication
    ("notion_token", "ntn_", r"[A-Za-z0-9]{40,50}"),
    # https://docs.openshift.com/container-platform/latest/authentication
    ("openshift_token", "sha256~", r"[A-Za-z0-9_-]{43}"),
    # https://docs.pinecone.io/guides/projects/manage-api-keys
    ("pinecone_key", "pcsk_", r"[A-Za-z0-9]{5,6}_[A-Za-z0-9]{60,70}"),
    # https://planetscale.com/docs/concepts/planetscale-api-oauth-applications
    ("planetscale_token", "pscale_tkn_ pscale_oauth_ pscale_pw_", r"[A-Za-z0-9_.-]{31,63}[A-Za-z0-9_-]"),
    # https://posthog.com/docs/api: phx_ is personal, phc_ is public
    ("posthog_key", "phx_", r"[A-Za-z0-9]{40,60}"),
    # https://learning.postman.com/docs/developer/postman-api/authentication
    ("postman_key", "PMAK-", r"[a-f0-9]{24}-[a-f0-9]{34}"),
    # https://docs.prefect.io, https://www.pulumi.com/docs/pulumi-cloud/access-management/access-tokens
    ("prefect_key", "pnu_ pnb_", r"[A-Za-z0-9]{36}"),
    ("pulumi_token", "pul-", r"[a-f0-9]{40}"),
    # https://guides.rubygems.org/api-key-scopes
    ("rubygems_key", "rubygems_", r"[a-f0-9]{48}"),
    # https://docs.sentry.io/security-legal-pii/security/token-formats
    ("sentry_token", "sntryu_", r"[a-f0-9]{64}"),
    ("sentry_token", "sntrys_eyJ", r"[A-Za-z0-9+/=]{60,400}_[A-Za-z0-9+/]{43}"),
    # https://docs.sonarsource.com/sonarqube-server/user-guide/managing-tokens
    ("sonar_token", "sqp_ squ_ sqa_", r"[a-f0-9]{40}"),
    # https://sourcegraph.com/docs/cli/how-tos/creating_an_access_token
    ("sourcegraph_token", "sgp_", r"(?:[a-f0-9]{16}_|local_)?[a-f0-9]{40}"),
    # https://developer.squareup.com/docs/build-basics/access-tokens
    ("square_token", "sq0atp- sq0csp-", r"[A-Za-z0-9_-]{22,43}"),
    # https://developers.brevo.com/docs/getting-started
    ("brevo_key", "xkeysib-", r"[a-f0-9]{64}-[A-Za-z0-9]{16}"),
    # https://supabase.com/docs/guides/api/api-keys
    ("supabase_key", "sb_secret_", r"[A-Za-z0-9_-]{22,40}"),
    ("supabase_key", "sbp_", r"[a-f0-9]{40}"),
    # https://tailscale.com/kb/1277/key-prefixes
    (
        "tailscale_key",
        "tskey-",
        r"(?:api|auth|client|scim|webhook)-[A-Za-z0-9]{8,20}(?:CNTRL)?-[A-Za-z0-9]{20,50}",
    ),
)
"""Kinds of tokens: what one begins with, and what follows that."""


class _TokenFormat(NamedTuple):
    kind: str
    prefixes: Sequence[str]  # every match starts with one of them
    pattern: re.Pattern[str]


def _build_format(kind: str, prefixes: Sequence[str], rest: str) -> _TokenFormat:
    pattern = rf"(?<![A-Za-z0-9_])(?:{'|'.join(map(re.escape, prefixes))})(?:{rest})(?![A-Za-z0-9])"
    return _TokenFormat(kind, prefixes, re.compile(pattern))


_FORMATS = [_build_format(kind, prefixes.split(), rest) for kind, prefixes, rest in _TOKENS]


def _find_tokens(text: str) -> Iterator[Finding]:
    long_words = "\n".join(_LONG_WORD.findall(text))
    if not long_words:
        return
    for kind, prefixes, pattern in _FORMATS:
        for prefix in (candidate for candidate in prefixes if candidate in long_words):
            for at in find_occurrences(text, prefix):
                if match := pattern.match(text, at):
                    yield Finding(*match.span(), kind)


_STEMS = (
    *("password", "passwd", "passphrase", "_pass", "pwd", "secret", "token", "credential"),
    *("api_key", "apikey", "api-key", "access_key", "accesskey", "access-key", "auth_key", "authkey"),
    *("private_key", "privatekey", "private-key", "account_key", "accountkey", "encryption_key"),
    *("encryptionkey", "signing_key", "signingkey", "master_key", "masterkey", "license_key", "client_key"),
)
_VALUE = re.compile(  # possessive quantifiers: nothing is tried twice
    r"""(?P<suffix>\w{0,30}+) ["'\]]{0,2}+ [ \t]{0,8}+ (?: := | => | ={1,3}+ | : | != | >) [ \t]{0,8}+
        (?:[@bru]{1,2}(?=["']))?
        (?: (?P<quote>["'`]) (?P<quoted>[^\s"'`]{8,512}+) (?P=quote)
          | (?P<bare>[A-Za-z0-9+/=_.~%!@\#^*-]{12,512}+) (?=[\s"'`,;&<)\]}]|\Z) )""",
    re.VERBOSE,
)
_AUTH_SCHEMES = ("bearer ", "basic ")
_CREDENTIALS = re.compile(r"[ \t]{0,4}+(?P<value>[A-Za-z0-9._~+/-]{12,2000}+={0,2}+)(?![\w(\[])")
_NAME_BEFORE = re.compile(r"[\w.-]*\Z")
_NON_SECRET_NAME = re.compile(  # names like secret_name, password_hash, token_type, max_tokens
    r"hash|sha\d|md5|digest|checksum|finger|public|name|path|file|dir\b|ur[il]|endpoint|host|type|count|length"
    r"|size|len\b|limit|max_|min_|num|expir|_at\b|ttl|regex|pattern|prefix|suffix|field|label|title|help|header"
    r"|column|param|scope|class|policy|version|format|izer|ize\b|tokens|error|message|msg|text|_?ids?\Z",
    re.IGNORECASE,
)
_PLACEHOLDER = re.compile(
    r"example|change.?me|your|placeholder|dummy|sample|insert|replace|secret|password|passw0rd|p@ssw|token|todo"
    r"|fixme|xxx|\*\*\*|\.\.\.|[<>(){}]|%\w*\(|test|fake|mock|foo|bar|abc|12345|qwert|deadbeef|0000|1111",
    re.IGNORECASE,
)
_SEPARATORS = re.compile(r"[-_./:,;=+*%!@#^~|&?\\$\[\]]+")
_WORD = re.compile(r"[A-Za-z]{2,}\d{0,4}|[A-Za-z]?\d{1,6}[A-Za-z]?|[A-Za-z]")
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)
_CHARACTER_CLASSES = tuple(
    re.compile(alphabet) for alphabet in ("[a-z]", "[A-Z]", "[0-9]", r"[!@#$%^&*?+~|]", "[^A-Za-z0-9]")
)
_SHORT_CHARS = 16  # a shorter value needs a third class of characters


def _find_assigned_secrets(text: str) -> Iterator[Finding]:
    """Values that look random, of a name that suggests a secret or of an authorization scheme.

    Variables, calls, placeholders, words, paths, versions and the passwords of test fixtures do not count.
    """
    lower = text.replace("İ", "I").lower()  # the one letter whose lower case is longer
    for stem in _STEMS:
        for at in find_occurrences(lower, stem):
            match = _VALUE.match(text, at + len(stem))
            group = "quoted" if match and match["quoted"] else "bare"
            if match and _looks_random(match[group]):
                before = _NAME_BEFORE.search(text[max(0, at - 30) : at])
                name = f"{before.group() if before else ''}{text[at : match.end('suffix')]}"
                if not _NON_SECRET_NAME.search(name):
                    yield Finding(*match.span(group), "assigned_secret")
    for scheme in _AUTH_SCHEMES:
        for at in find_occurrences(lower, scheme):
            match = _CREDENTIALS.match(text, at + len(scheme))
            if match and (_looks_random(match["value"]) or _is_user_and_password(match["value"])):
                yield Finding(*match.span("value"), "authorization")


def _looks_random(value: str) -> bool:
    if (
        REDACTION_PREFIX in value
        or _UUID.fullmatch(value)
        or _PLACEHOLDER.search(value)
        or value.startswith(("$", "/", "~"))
    ):
        return False
    lower, upper, digit, symbol, other = (bool(alphabet.search(value)) for alphabet in _CHARACTER_CLASSES)
    typed = lower and upper and digit and symbol  # as password rules demand
    if not typed and all(_WORD.fullmatch(piece) for piece in _SEPARATORS.split(value) if piece):
        return False
    if not (digit and (lower or upper)) or (len(value) < _SHORT_CHARS and lower + upper + digit + other < 3):
        return False
    shares = [count / len(value) for count in Counter(value).values()]
    bits_per_char = -sum(share * math.log2(share) for share in shares)
    return bits_per_char >= min(3.0, 0.9 * math.log2(len(value)))


def _is_user_and_password(value: str) -> bool:
    try:
        user, colon, password = base64.b64decode(value, validate=True).decode("ascii").partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return False
    return bool(user and colon and password) and f"{user}{password}".isprintable()


_KEY_BEGIN = re.compile(r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_KEY_END = re.compile(r"-----END (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_KEY_CHARS = 32_000  # the longest block looked at
_KEY_BODY = re.compile(r"[A-Za-z0-9+/=]{40,}+")  # a line of it; code that only names the header has none
_BODY_LINES = re.compile(
    r"(?:[^\S\n]*+[\"'+>#*/]{0,3}+[^\S\n]*+[A-Za-z0-9+/=]{16,}+[^\n]{0,8}+(?:\n|\Z)|[^\n]{0,4}+\n)*+"
)

_URL_LOGIN = re.compile(
    r"://(?P<user>[^\s/:@'\"`<>{}$()\[\]?#]{0,100}+):(?P<password>[^\s/@'\"`<>{}$()\[\]?#]{3,200}+)@"
)
_NON_PASSWORD = re.compile(
    r"(?i:pass(?:word|wd|phrase)?|pw|pwd|secret|token|user(?:name)?|admin|root|guest|test|postgres|example|changeme"
    r"|your.*|my.?(?:pass|secret|token).*|.*(?:password|example|placeholder).*|(.)\1*|\*+|\.+|%\w|[A-Z_]+|\d{2,5})"
)


def _find_private_keys(text: str) -> Iterator[Finding]:
    """PEM and PGP blocks with all their lines; where the end is cut off, the lines that look like a key."""
    if "PRIVATE KEY" not in text:
        return
    begins = list(_KEY_BEGIN.finditer(text))
    for number, begin in enumerate(begins):
        limit = begins[number + 1].start() if number + 1 < len(begins) else len(text)
        stop = _find_key_end(text, begin.end(), min(limit, begin.end() + _KEY_CHARS))
        if stop:
            yield Finding(begin.start(), stop, "private_key")


def _find_key_end(text: str, start: int, limit: int) -> int | None:
    """Where a key that may begin at `start` ends; None where code or prose only names the header."""
    end = _KEY_END.search(text, start, limit)
    if end:
        body = sum(len(line) for line in _KEY_BODY.findall(text, start, end.start()))
        if body * 2 >= end.start() - start:
            return end.end()
    lines = _BODY_LINES.match(text, start, limit)
    return lines.end() if lines and _KEY_BODY.search(text, start, lines.end()) else None
