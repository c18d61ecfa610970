import pytest
from detect_secrets.plugins.aws import AWSKeyDetector
from detect_secrets.plugins.github_token import GitHubTokenDetector
from detect_secrets.plugins.gitlab_token import GitLabTokenDetector
from detect_secrets.plugins.jwt import JwtTokenDetector
from detect_secrets.plugins.keyword import KeywordDetector
from detect_secrets.plugins.openai import OpenAIDetector
from detect_secrets.plugins.private_key import PrivateKeyDetector
from detect_secrets.plugins.pypi_token import PypiTokenDetector
from detect_secrets.plugins.sendgrid import SendGridDetector
from detect_secrets.plugins.slack import SlackDetector
from detect_secrets.plugins.stripe import StripeDetector
from detect_secrets.plugins.twilio import TwilioKeyDetector

from knowledge_pipeline.config.sources import SanitizeSettings
from knowledge_pipeline.sanitizing.sanitize import sanitize
from knowledge_pipeline_tests.sanitizing.fake_secrets import TOKENS, hexadecimal, letters, private_key

_ORACLES = {
    "aws_key": AWSKeyDetector,
    "github_token": GitHubTokenDetector,
    "gitlab_token": GitLabTokenDetector,
    "slack_token": SlackDetector,
    "slack_webhook": SlackDetector,
    "stripe_key": StripeDetector,
    "jwt": JwtTokenDetector,
    "pypi_token": PypiTokenDetector,
    "openai_key": OpenAIDetector,
    "sendgrid_key": SendGridDetector,
    "twilio_key": TwilioKeyDetector,
}
_UNKNOWN_TO_ORACLE = ("github" + "_pat_", "rk" + "_test_", "ABS" + "K")


def cleaned(text):
    return sanitize(text, SanitizeSettings(secrets="redact", personal_data="off"))


def assert_left_alone(text):
    result = cleaned(text)
    assert (result.text, dict(result.findings_by_kind)) == (text, {})


@pytest.mark.parametrize("token", TOKENS, ids=lambda token: f"{TOKENS[token]}-{token[:6]}")
def test_a_token_of_a_known_form_is_redacted_and_nothing_beside_it(token):
    kind = TOKENS[token]
    for around in ("{}", "x = '{}'\n", "({})", "curl -H {} now", "é {}.", "a\n{}\nb", "<b>{}</b>"):
        result = cleaned(around.format(token))
        assert result.text == around.format(f"[REDACTED:{kind}]")
        assert dict(result.findings_by_kind) == {kind: 1}


@pytest.mark.parametrize("token", TOKENS, ids=lambda token: f"{TOKENS[token]}-{token[:6]}")
def test_a_known_form_inside_a_longer_word_is_none(token):
    if "://" not in token and "=" not in token:
        assert_left_alone(f"a_{token}")


def test_detect_secrets_finds_the_same_tokens_and_none_after_us():
    compared = 0
    for token, kind in TOKENS.items():
        if kind in _ORACLES and not token.startswith(_UNKNOWN_TO_ORACLE):
            oracle, line = _ORACLES[kind](), f"value = '{token}'"
            assert list(oracle.analyze_string(line)), token[:8]
            assert not list(oracle.analyze_string(cleaned(line).text))
            compared += 1
    assert compared > 10


@pytest.mark.parametrize("kind", ["RSA ", "EC ", "OPENSSH ", "ENCRYPTED ", ""])
def test_a_private_key_goes_with_all_its_lines_and_the_line_numbers_stay(kind):
    key = private_key(kind)
    result = cleaned(f"before\n{key}\nafter")
    assert result.text == "before\n[REDACTED:private_key]" + "\n" * 7 + "\nafter"
    assert not list(PrivateKeyDetector().analyze_string(result.text))


def test_a_pgp_key_with_headers_is_redacted():
    dashes = "-" * 5
    body = "\n".join(letters(str(line), 64) for line in range(5))
    begin, end = (f"{dashes}{word} PGP PRIVATE KEY BLOCK{dashes}" for word in ("BEGIN", "END"))
    block = f"{begin}\nComment: mine\n\n{body}\n=abcd\n{end}"
    assert cleaned(block).text == "[REDACTED:private_key]" + "\n" * block.count("\n")


@pytest.mark.parametrize(
    "code",
    [
        'KEY = """{}"""\n',
        'KEY = "{}"\n',
        "    key: |\n{}\nnext: 1\n",
        "{}\r\nafter",
    ],
)
def test_a_private_key_is_found_as_code_and_configuration_write_it(code):
    key = private_key()
    if "\r" in code:
        key = key.replace("\n", "\r\n")
    if code.startswith("KEY = "):
        key = key if '"""' in code else key.replace("\n", "\\n")
    text = code.format(key)
    result = cleaned(text)
    assert dict(result.findings_by_kind) == {"private_key": 1}
    assert result.text.count("\n") == text.count("\n") and letters("RSA 0", 64) not in result.text
    assert result.text.replace("\r", "").replace("\n", "") == code.format("[REDACTED:private_key]").replace(
        "\r", ""
    ).replace("\n", "")


def test_a_private_key_whose_end_is_cut_off_is_redacted_as_far_as_it_looks_like_one():
    text = f"{private_key(end=False)}\n\ndef after():\n    return 1\n"
    result = cleaned(text)
    assert result.text.count("\n") == text.count("\n")
    assert result.text.endswith("def after():\n    return 1\n") and letters("RSA 5", 64) not in result.text


def test_code_that_only_names_the_lines_of_a_key_is_left_alone():
    dashes = "-" * 5
    begin, end = f"{dashes}BEGIN RSA PRIVATE KEY{dashes}", f"{dashes}END RSA PRIVATE KEY{dashes}"
    code = "\n".join(f"    value_{n} = compute_something({n})" for n in range(30))
    assert_left_alone(f'if text.startswith("{begin}"):\n{code}\n    assert text.endswith("{end}")\n')
    assert_left_alone(f"{begin}\n...\n{end}\n")
    assert_left_alone(f"{begin}\n")


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("postgres://app:{}@db.local:5432/x", "postgres://app:[REDACTED:url_password]@db.local:5432/x"),
        ('url = "amqp://me:{}@mq"', 'url = "amqp://me:[REDACTED:url_password]@mq"'),
        ("redis://:{}@cache:6379/0", "redis://:[REDACTED:url_password]@cache:6379/0"),
    ],
)
def test_a_password_in_a_url_is_redacted_and_the_rest_kept(text, clean):
    for password in ("hunter2", letters("url", 20), "p%40ss-w0rd!"):
        line = text.format(password)
        assert cleaned(line).text == clean


@pytest.mark.parametrize(
    "url",
    [
        "postgres://user:password@localhost/x",
        "postgresql://postgres:postgres@db/x",
        "https://user:${TOKEN}@host/x",
        "https://{user}:{password}@host",
        "https://<user>:<password>@host",
        "https://host:8080/@scope/package",
        "http://user:xxxx@host http://user:****@host http://me:your-token@host",
        "https://example.com/a:b@c",
        "ssh://git@github.com:22/owner/name",
        "mysql://user:PASSWORD@host",
    ],
)
def test_a_url_with_a_placeholder_or_without_a_password_is_left_alone(url):
    assert_left_alone(url)


_VALUE = letters("assigned", 24)


@pytest.mark.parametrize(
    "line",
    [
        'password = "{}"',
        "DB_PASSWORD={}",
        "export API_KEY={}",
        '"client_secret": "{}",',
        "api-key: {}",
        "  secretKey: '{}'",
        'const authToken = "{}";',
        'String password = "{}";',
        "token := `{}`",
        '"api_key" => "{}"',
        "config['secret'] = '{}'",
        "<password>{}</password>",
        "https://host/path?access_token={}&x=1",
        "aws_secret_access_key = {}",
        "Authorization: Bearer {}",
        "Pwd={};Database=x",
        "İ password = '{}'",
    ],
)
def test_a_random_value_given_to_a_secret_name_is_redacted(line):
    result = cleaned(f"before\n{line.format(_VALUE)}\nafter")
    kind = "authorization" if "Bearer" in line else "assigned_secret"
    assert result.text == f"before\n{line.format(f'[REDACTED:{kind}]')}\nafter"


@pytest.mark.parametrize(
    "value", ["Tr0ub4dor&3", "aB3$xK9!", hexadecimal("key", 32), "wJalrXUtnFEMI/K7MDENG/bPx" + "RfiCYz9"]
)
def test_passwords_of_several_kinds_of_characters_and_hexadecimal_keys_are_redacted(value):
    line = f'db_password = "{value}"'
    assert cleaned(line).text == 'db_password = "[REDACTED:assigned_secret]"'
    assert set(KeywordDetector().analyze_string(line)) == {value}


def test_basic_authorization_is_redacted_when_it_decodes_to_user_and_password():
    assert (
        cleaned("Authorization: Basic " + "dXNlcjpodW50ZXIy").text
        == "Authorization: Basic [REDACTED:authorization]"
    )
    assert_left_alone("Basic configuration and basic authentication, bearer authentication")


@pytest.mark.parametrize(
    "line",
    [
        "password = get_password()",
        'password = os.environ["DB_PASSWORD_1"]',
        "password = settings.db_password2",
        "password=secret",
        'password = "password123"',
        'password = "hunter2"',
        'password = "correct horse battery staple"',
        'API_KEY = "<your-api-key-1>"',
        "API_KEY=xxxxxxxxxxxxxxxxxxxx",
        "API_KEY=your_api_key_here_123",
        "token: ${GITHUB_TOKEN_2}",
        "token: ${{ secrets.GITHUB_TOKEN_2 }}",
        'password = "changeme123!A"',
        'secret_name = "prod/db/Credentials-v2"',
        'token_url = "https://login.example.org/oauth2/v2.0/token"',
        f'password_hash = "{hexadecimal("hash", 64)}"',
        f'secret_sha256: "{hexadecimal("hash", 64)}"',
        'tokenizer = "bert-base-uncased-v2-1a2b3c4d"',
        "max_tokens=1234567890123",
        'token_type = "Bearer2token3Xyz"',
        "if token == TokenType2.IDENTIFIER_3:",
        'secret_id = "123e4567-e89b-12d3-a456-426614174000"',
        'api_key = "123e4567-e89b-12d3-a456-426614174000"',
        'access_key = "AbstractFactoryBean2"',
        "secret = 'aaaaaaaaaaaaaaaaaaaa1A'",
        "apiKey: process.env.API_KEY_V2",
        'token = "[REDACTED:assigned_secret]"',
        'assert token.kind == "t_constant_2"',
    ],
)
def test_variables_calls_words_placeholders_hashes_and_fixtures_are_left_alone(line):
    assert_left_alone(line)


@pytest.mark.parametrize(
    "line",
    [
        f"commit {hexadecimal('commit', 40)}",
        f"resolved sha512-{letters('npm', 86)}==",
        f'"integrity": "sha256-{letters("lock", 43)}="',
        f"flask==3.0.0 --hash=sha256:{hexadecimal('pip', 64)}",
        "id: 123e4567-e89b-12d3-a456-426614174000",
        f"![logo](data:image/png;base64,{letters('png', 400)})",
        f"blob {hexadecimal('blob', 40)} 100644",
        "sk-toggleable__label sk-estimator-doc-link",
        "task-queue disk-usage hf_hub_download npm_config_registry",
        "eyJhbGciOiJIUzI1NiJ9",
        "SKILL SKU12345678901234567890",
    ],
)
def test_hashes_ids_lock_files_and_images_are_left_alone(line):
    assert_left_alone(line)
