"""The errors of GitHub's refusals, as sentences that say what to correct.

A refusal is an HTTP status, or the `errors` of a GraphQL response of status 200, which may come with
all, some or none of the data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from knowledge_pipeline.config.connections.repositories import GithubConnection
from knowledge_pipeline.config.organisations.connections import GithubOrganisationConnection
from knowledge_pipeline.errors import KnowledgeError, SourceRefused, SourceUnavailable
from knowledge_pipeline.sources.code_host import QueryTooLarge
from knowledge_pipeline.sources.http_retry import format_retries_exhausted, shorten_reason

GraphqlError = Mapping[str, Any]  # `type`, `message`, `path`, `extensions`

_RATE_LIMIT_TYPES = frozenset({"RATE_LIMITED", "RATE_LIMIT"})
_TOO_LARGE_TYPES = frozenset({"MAX_NODE_LIMIT_EXCEEDED", "RESOURCE_LIMITS_EXCEEDED"})
_TIMEOUT_HINTS = ("something went wrong", "timeout", "timed out", "loading")  # without a type
_PERMISSIONS_REMEDY = "give it the permissions that docs/sources/github.md names"


def is_rate_limited(errors: Sequence[GraphqlError]) -> bool:
    """Whether the rate limit is spent: the status is 200 all the same."""
    return any(error.get("type") in _RATE_LIMIT_TYPES for error in errors)


class GithubErrors:
    """The errors of one connection. None holds a secret: GitHub does not repeat them."""

    def __init__(self, connection: GithubConnection | GithubOrganisationConnection) -> None:
        self.service = f"GitHub at {urlsplit(connection.url).hostname}"
        is_repository = isinstance(connection, GithubConnection)
        self._repository = connection.repository if is_repository else connection.location
        self._identity = "app" if connection.app else "token"

    def from_status(self, status: int, headers: Mapping[str, str], message: str) -> KnowledgeError:
        """From the status of an answer, its headers (lower case) and its `message`."""
        if status in (502, 504):
            return QueryTooLarge(format_retries_exhausted(self.service, status))
        if status >= 500 or status == 429:
            return SourceUnavailable(format_retries_exhausted(self.service, status))
        if status == 401:
            return SourceRefused(
                f"{self.service} does not accept the {self._identity}: it is wrong, expired or revoked: "
                f"correct connection.{self._identity}"
            )
        if status == 403:
            return self._access_forbidden(message, single_sign_on="x-github-sso" in headers)
        if status == 404:
            return self.api_not_found()
        return SourceRefused(
            f"{self.service} refused the query with {status} ({shorten_reason(message)}): "
            f"correct connection.url and connection.{self._identity}"
        )

    def from_graphql_errors(self, errors: Sequence[GraphqlError]) -> KnowledgeError:
        """From the errors of a response that cannot be used, the gravest first."""
        kinds = {str(error.get("type") or "") for error in errors}
        reason = shorten_reason("; ".join(str(error.get("message") or "") for error in errors))
        if any(is_single_sign_on(error) for error in errors) or kinds & {"FORBIDDEN", "INSUFFICIENT_SCOPES"}:
            return self._access_forbidden(reason, single_sign_on=any(map(is_single_sign_on, errors)))
        if "NOT_FOUND" in kinds:
            return self.repository_not_found()
        if kinds & _TOO_LARGE_TYPES or any(hint in reason.lower() for hint in _TIMEOUT_HINTS):
            return QueryTooLarge(f"{self.service} gave up on a query about {self._repository} ({reason})")
        if "undefinedField" in ((each.get("extensions") or dict[str, Any]()).get("code") for each in errors):
            return SourceRefused(
                f"{self.service} does not know a field of the query ({reason}): "
                "GitHub Enterprise Server 3.14 or later is needed"
            )
        return SourceUnavailable(
            f"{self.service} could not answer for {self._repository} ({reason}): try again later"
        )

    def repository_not_found(self) -> SourceRefused:
        """The repository does not exist or is hidden: GitHub does not say which."""
        return SourceRefused(
            f"{self.service} shows no repository {self._repository}: correct connection.repository, "
            f"or give the {self._identity} access to it (nothing is deleted meanwhile)"
        )

    def documents_disabled(self, documents: str) -> SourceRefused:
        """A repository whose issues or discussions are switched off shows none, though it may have many."""
        return SourceRefused(
            f"{self._repository} has its {documents} switched off: switch them on in its settings, "
            "or remove this source (nothing is deleted meanwhile)"
        )

    def listing_incomplete(self, problem: str) -> SourceUnavailable:
        """A listing that cannot be trusted to be whole."""
        return SourceUnavailable(f"{self.service} {problem}: nothing is deleted: try again later")

    def api_not_found(self) -> SourceRefused:
        """The address leads elsewhere."""
        return SourceRefused(
            f"{self.service} has no API at connection.url: "
            "use https://api.github.com, or https://HOST/api/v3 for GitHub Enterprise Server"
        )

    def identity_missing(self) -> SourceRefused:
        """GraphQL answers no anonymous queries."""
        return SourceRefused(
            f"{self.service} answers these queries only from authenticated callers, for public "
            "repositories too: set connection.token or connection.app"
        )

    def from_app_status(self, status: int) -> KnowledgeError | None:
        """What a refusal of the App's own token means; None: nothing special."""
        if status == 401:
            return SourceRefused(
                f"{self.service} does not accept the App: "
                "connection.app.id and connection.app.private_key do not belong together"
            )
        if status in (403, 404):
            return SourceRefused(
                f"{self.service} says that the App is not installed for {self._repository}, or suspended: "
                "install it there, or correct connection.app.installation_id"
            )
        return None

    def private_key_invalid(self) -> SourceRefused:
        """The private key cannot be read."""
        return SourceRefused(
            "connection.app.private_key is not a private key in PEM form: "
            "use the file that GitHub gave for the App, line breaks included"
        )

    def format_not_permitted(self, error: GraphqlError) -> str:
        """Why one document cannot be read, where others can."""
        reason = shorten_reason(str(error.get("message") or ""))
        return f"the {self._identity} may not read it any more ({reason}): {_PERMISSIONS_REMEDY}"

    def _access_forbidden(self, message: str, *, single_sign_on: bool) -> SourceRefused:
        if single_sign_on or "saml" in message.lower():
            return SourceRefused(
                f"{self.service} requires the {self._identity} to be authorized for single sign-on (SAML) "
                f"of the organization of {self._repository}: authorize it in its owner's settings "
                "(Configure SSO)"
            )
        return SourceRefused(
            f"{self.service} forbids the {self._identity} to read this of {self._repository} "
            f"({shorten_reason(message)}): {_PERMISSIONS_REMEDY}"
        )


def is_single_sign_on(error: GraphqlError) -> bool:
    """Whether the organization requires single sign-on first."""
    extensions: Mapping[str, Any] = error.get("extensions") or {}
    return bool(extensions.get("saml_failure")) or "saml" in str(error.get("message") or "").lower()
