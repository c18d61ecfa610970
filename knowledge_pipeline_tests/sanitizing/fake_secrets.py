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
    "xoxb" + "-1-" + letters("short", 10): "slack_token",  # the shortest token of all
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
    "ops" + "_eyJ" + letters("op", 300): "onepassword_token",
    "ATAT" + "T3xFfGF0" + letters("atl", 180): "atlassian_token",
    "BBDC" + "-" + letters("bb", 44): "bitbucket_token",
    "ABS" + "K" + letters("bedrock", 128): "aws_key",
    "bkua" + "_" + hexadecimal("bk", 40): "buildkite_token",
    "CCI" + "PAT_" + letters("cci", 22) + "_" + hexadecimal("cci", 40): "circleci_token",
    "CF" + "PAT-" + letters("cf", 43): "contentful_token",
    "ci" + "o" + letters("cargo", 32): "crates_token",
    "dos" + "e" + hexadecimal("dose", 32): "databricks_token",
    "https://discord" + ".com/api/webhooks/123456789012345678/" + letters("dis", 68): "discord_webhook",
    "dckr" + "_pat_" + letters("dckr", 27): "docker_token",
    "SWM" + "TKN-1-" + hexadecimal("swarm", 50) + "-" + hexadecimal("join", 25): "docker_token",
    "SWM" + "KEY-1-" + letters("swarm", 43): "docker_token",
    "dp" + ".st.prd." + letters("doppler", 40): "doppler_token",
    "dp" + ".pt." + letters("doppler", 43): "doppler_token",
    "dt0" + "c01." + letters("dt", 24).upper() + "." + letters("dt2", 64).upper(): "dynatrace_token",
    "figd" + "_" + letters("figma", 43): "figma_token",
    "glsa" + "_" + letters("grafana", 32) + "_" + hexadecimal("g", 8): "grafana_token",
    "glc" + "_eyJ" + letters("grafana", 120): "grafana_token",
    "gsk" + "_" + letters("groq", 52): "groq_key",
    "xa" + "i-" + letters("xai", 80): "xai_key",
    "sk-" + "or-v1-" + hexadecimal("or", 64): "openrouter_key",
    "nva" + "pi-" + letters("nvidia", 64): "nvidia_key",
    "pp" + "lx-" + letters("pplx", 48): "perplexity_key",
    "r8" + "_" + letters("replicate", 37): "replicate_token",
    "HR" + "KU-" + letters("heroku", 60): "heroku_key",
    "lin" + "_api_" + letters("linear", 40): "linear_key",
    "lsv2" + "_pt_" + hexadecimal("ls", 32) + "_" + hexadecimal("ls2", 10): "langsmith_key",
    "sk." + "eyJ" + letters("mapbox", 60) + "." + letters("m", 22): "mapbox_token",
    "webhook.office"
    + ".com/webhookb2/"
    + hexadecimal("team", 36)
    + "@"
    + hexadecimal("t", 36)
    + "/IncomingWebhook/"
    + hexadecimal("x", 32): "teams_webhook",
    "NR" + "AK-" + letters("nr", 27).upper(): "new_relic_key",
    "nt" + "n_" + letters("notion", 46): "notion_token",
    "sha2" + "56~" + letters("openshift", 43): "openshift_token",
    "pcsk" + "_" + letters("pc", 5) + "_" + letters("pinecone", 63): "pinecone_key",
    "pscale" + "_tkn_" + letters("ps", 43): "planetscale_token",
    "ph" + "x_" + letters("posthog", 43): "posthog_key",
    "PM" + "AK-" + hexadecimal("pm", 24) + "-" + hexadecimal("pm2", 34): "postman_key",
    "pn" + "u_" + letters("prefect", 36): "prefect_key",
    "pu" + "l-" + hexadecimal("pulumi", 40): "pulumi_token",
    "ruby" + "gems_" + hexadecimal("gem", 48): "rubygems_key",
    "sntr" + "yu_" + hexadecimal("sentry", 64): "sentry_token",
    "sntr" + "ys_eyJ" + letters("sentry", 120) + "_" + letters("s", 43): "sentry_token",
    "sq" + "p_" + hexadecimal("sonar", 40): "sonar_token",
    "sg" + "p_" + hexadecimal("sg", 16) + "_" + hexadecimal("sg2", 40): "sourcegraph_token",
    "sq0" + "atp-" + letters("square", 22): "square_token",
    "xkey" + "sib-" + hexadecimal("brevo", 64) + "-" + letters("brevo", 16): "brevo_key",
    "sb" + "_secret_" + letters("supabase", 31): "supabase_key",
    "sb" + "p_" + hexadecimal("sbp", 40): "supabase_key",
    "ts" + "key-auth-" + letters("ts", 12) + "CNTRL-" + letters("ts2", 32): "tailscale_key",
}
