"""The extras of the package, by what they install: what to say where a module is missing.

Without an extra, the package answers from a store, and an endpoint embeds the questions.
"""

from __future__ import annotations

from importlib.util import find_spec

from knowledge_pipeline.errors import ConfigError

_INDEX = (
    *("atlassian", "bs4", "github", "jira", "lancedb", "lxml", "markdownify", "pypdfium2"),
    *("requests", "sentencex", "slack_sdk", "tree_sitter", "watchfiles", "webencodings", "yaml"),
)
_SERVE = (
    *("fastapi", "fastapi_offline", "jwt", "limits", "markdown_it", "mcp", "mcp_types", "prometheus_client"),
    *("sse_starlette", "starlette", "uvicorn"),
)
_EXTRAS = {
    **dict.fromkeys(_INDEX, "index"),
    **dict.fromkeys(_SERVE, "serve"),
    **dict.fromkeys(("huggingface_hub", "onnxruntime", "tokenizers"), "models"),
    **dict.fromkeys(("onnx", "sentence_transformers", "torch", "transformers"), "local"),
    **dict.fromkeys(("PIL", "dagster", "dagster_shared", "matplotlib", "sqlalchemy"), "dagster"),
    **dict.fromkeys(("openinference", "opentelemetry"), "tracing"),
    **{
        "python_calamine": "office",
        "xlrd": "office",
        "ir_measures": "eval",
        "dagster_celery": "celery",
        "ray": "ray",
        "langchain_core": "langchain",
    },
    **{"botocore": "s3", "google": "gcs", "azure": "azure", "obstore": "object-store", "psycopg2": "publish"},
}


def find_extra(module: str) -> str | None:
    """The extra that brings a module: `index` for `bs4.element` and each grammar of tree-sitter."""
    root = module.partition(".")[0]
    return "index" if root.startswith("tree_sitter_") else _EXTRAS.get(root)


def describe_missing(what: str, extra: str) -> str:
    """The sentence about a feature whose extra is not installed."""
    return f"{what} needs a package that is not installed: pip install 'knowledge-pipeline[{extra}]'"


def require_modules(what: str, *modules: str) -> None:
    """Raise `ConfigError`, naming the extra, unless modules are installed; they are not imported."""
    for module in modules:
        if find_spec(module) is None:
            raise ConfigError(describe_missing(what, _EXTRAS[module.partition(".")[0]]))


def to_expected_error(error: BaseException) -> BaseException:
    """The error to show for an error: a `ConfigError` where a module of an extra is missing."""
    if isinstance(error, ModuleNotFoundError) and error.name and (extra := find_extra(error.name)):
        return ConfigError(describe_missing("this command", extra))
    return error
