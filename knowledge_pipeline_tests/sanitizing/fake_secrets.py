"""Fake secrets, put together from parts, so that no scanner of this repository takes them for real."""

import base64
import hashlib
import json


def letters(seed: str, length: int) -> str:
    """Letters and digits that look drawn at random, always the same for a seed."""
    digest = hashlib.shake_256(seed.encode()).digest(length * 2)
    return base64.b64encode(digest).decode().translate(str.maketrans("", "", "+/="))[: length - 1] + "7"


def hexadecimal(seed: str, length: int) -> str:
    return hashlib.shake_256(seed.encode()).hexdigest(length)[:length]


def jwt() -> str:
    header, payload = ({"alg": "HS256", "typ": "JWT"}, {"sub": "1", "name": "nobody"})
    parts = [
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in (header, payload)
    ]
    return ".".join([*parts, letters("jwt", 43)])


def private_key(kind: str = "RSA ", lines: int = 6, end: bool = True) -> str:
    body = [letters(f"{kind}{line}", 64) for line in range(lines)]
    dashes = "-" * 5
    last = [f"{dashes}END {kind}PRIVATE KEY{dashes}"] if end else []
    return "\n".join([f"{dashes}BEGIN {kind}PRIVATE KEY{dashes}", *body, *last])


TOKENS = {
    "AKIA" + "Q3EGUR" + "JX2MZ7" + "L5KO": "aws_key",
    "ASIA" + "Q3EGUR" + "JX2MZ7" + "L5KO": "aws_key",
    "ghp" + "_" + letters("gh", 36): "github_token",
    "ghs" + "_" + letters("gh", 36): "github_token",
    "github" + "_pat_" + letters("pat", 22) + "_" + letters("pat2", 59): "github_token",
    "glpat" + "-" + letters("gl", 20): "gitlab_token",
    "glrt" + "-" + letters("gl", 20): "gitlab_token",
    "xoxb" + "-123456789012-1234567890123-" + letters("slack", 24): "slack_token",
    "https://hooks." + "slack.com/services/T01234567/B01234567/" + letters("hook", 24): "slack_webhook",
    "sk" + "_live_" + letters("stripe", 24): "stripe_key",
    "rk" + "_test_" + letters("stripe", 24): "stripe_key",
    "AI" + "za" + letters("google", 35): "google_key",
    "GOC" + "SPX-" + letters("google", 28): "google_key",
    jwt(): "jwt",
    "npm" + "_" + letters("npm", 36): "npm_token",
    "pypi-" + "AgEIcHlwaS5vcmc" + letters("pypi", 80): "pypi_token",
    "sk-" + "proj-" + letters("a", 20) + "T3Blbk" + "FJ" + letters("b", 20): "openai_key",
    "sk-" + letters("a", 20) + "T3Blbk" + "FJ" + letters("b", 20): "openai_key",
    "sk-" + "ant-api03-" + letters("ant", 80): "anthropic_key",
    "hf" + "_" + letters("hf", 34): "huggingface_token",
    "SG" + "." + letters("a", 22) + "." + letters("b", 43): "sendgrid_key",
    "SK" + hexadecimal("twilio", 32): "twilio_key",
    "dop" + "_v1_" + hexadecimal("do", 64): "digitalocean_token",
    "shp" + "at_" + hexadecimal("shop", 32): "shopify_token",
    "dapi" + hexadecimal("db", 32): "databricks_token",
    "hvs" + "." + letters("vault", 30): "vault_token",
    "AGE-SECRET-" + "KEY-1" + letters("age", 58).upper(): "age_key",
    "Account" + "Key=" + letters("azure", 86) + "==": "azure_key",
}
