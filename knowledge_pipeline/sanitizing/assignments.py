"""Finds secrets that only their name reveals: `db_password = "…"`, `API_KEY=…`, `Authorization: Bearer …`.

A value counts when it is written out and looks drawn at random. Variables, calls,
placeholders, words, paths, versions and the passwords of test fixtures do not.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections import Counter
from collections.abc import Iterator

from knowledge_pipeline.sanitizing.findings import REDACTION_PREFIX, Finding, find_occurrences

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


def find_assigned_secrets(text: str) -> Iterator[Finding]:
    """Values that look random, of a name that suggests a secret or of an authorization scheme."""
    lower = text.replace("İ", "I").lower()  # the one letter whose lower case is longer
    for stem in _STEMS:
        for at in find_occurrences(lower, stem):
            match = _VALUE.match(text, at + len(stem))
            group = "quoted" if match and match["quoted"] else "bare"
            if match and looks_random(match[group]):
                before = _NAME_BEFORE.search(text[max(0, at - 30) : at])
                name = f"{before.group() if before else ''}{text[at : match.end('suffix')]}"
                if not _NON_SECRET_NAME.search(name):
                    yield Finding(*match.span(group), "assigned_secret")
    for scheme in _AUTH_SCHEMES:
        for at in find_occurrences(lower, scheme):
            match = _CREDENTIALS.match(text, at + len(scheme))
            if match and (looks_random(match["value"]) or _is_user_and_password(match["value"])):
                yield Finding(*match.span("value"), "authorization")


def looks_random(value: str) -> bool:
    """Whether a value is more likely random than written by a person."""
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
    return _bits_per_char(value) >= min(3.0, 0.9 * math.log2(len(value)))


def _is_user_and_password(value: str) -> bool:
    """Whether the value of a `Basic` scheme decodes to `user:password`."""
    try:
        user, colon, password = base64.b64decode(value, validate=True).decode("ascii").partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return False
    return bool(user and colon and password) and f"{user}{password}".isprintable()


def _bits_per_char(value: str) -> float:
    shares = (count / len(value) for count in Counter(value).values())
    return -sum(share * math.log2(share) for share in shares)
