"""Every exception that this project raises on purpose.

KnowledgeError
├── PermanentError    fix what the message names: ConfigError, SourceRefused, ModelError, StoreError,
│                     ReleaseRefused, InvalidQuery, Unauthenticated, Forbidden, NotFound
├── TransientError    a retry may help: SourceUnavailable, EmbeddingUnavailable, LanguageModelUnavailable,
│                     IdentityUnavailable, TooManyRequests, Overloaded, ResponseTimeout, StoreUnavailable,
│                     Busy
└── DocumentSkipped   one document is left out; the others go on

A message is one sentence: what was wrong, where, and what to do.
"""


class KnowledgeError(Exception):
    """Base of all our errors; `str(error)` is fit to show to a user."""


class PermanentError(KnowledgeError):
    """A retry cannot help."""


class ConfigError(PermanentError):
    """`knowledge.yaml` or the environment is wrong."""


class SourceRefused(PermanentError):
    """A source does not exist, cannot be read, or refuses access."""


class ModelError(PermanentError):
    """A model cannot be loaded, or its endpoint refuses access."""


class StoreError(PermanentError):
    """The tables cannot be used as they are."""


class ReleaseRefused(PermanentError):
    """A blocking check forbids the release; the last one stays live."""

    def __init__(self, message: str, sources: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.sources = sources  # that the message is about; none: the whole store

    def __reduce__(self) -> tuple[type, tuple[str, tuple[str, ...]]]:
        return type(self), (str(self), self.sources)


class InvalidQuery(PermanentError):
    """A query is empty, too long, or has a filter that makes no sense."""


class Unauthenticated(PermanentError):
    """The caller is unknown: there is no token, or it is not valid."""


class Forbidden(PermanentError):
    """The caller is known, and may not do this."""

    def __init__(self, message: str, *, subject: str | None = None) -> None:
        super().__init__(message)
        self.subject = subject  # who it is, for the audit log, where the identity server says so

    def __reduce__(self) -> tuple[type, tuple[str], dict[str, str | None]]:
        return type(self), (str(self),), {"subject": self.subject}


class NotFound(PermanentError):
    """No such source, chunk, document or release."""


class TransientError(KnowledgeError):
    """A retry may help."""


class SourceUnavailable(TransientError):
    """A source did not answer, or limits the rate of requests."""


class EmbeddingUnavailable(TransientError):
    """An embedding endpoint did not answer."""


class LanguageModelUnavailable(TransientError):
    """A language model did not answer in time; every feature works without one."""


class IdentityUnavailable(TransientError):
    """The identity server did not answer, so that nobody new can be identified by it."""


class _RetryAfter(TransientError):
    def __init__(self, message: str, retry_after_s: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s

    def __reduce__(self) -> tuple[type, tuple[str, float]]:
        return type(self), (str(self), self.retry_after_s)


class TooManyRequests(_RetryAfter):
    """The caller sent too many requests, or too many run at once."""


class Overloaded(_RetryAfter):
    """Those who wait already will take longer than a request may."""


class ResponseTimeout(TransientError):
    """A response took longer than the server allows."""


class StoreUnavailable(TransientError):
    """The object store that holds the tables did not answer, or a log that is required takes no row."""


class Busy(TransientError):
    """Another process holds the lock."""


class DocumentSkipped(KnowledgeError):
    """One document is left out; `str(error)` is the recorded reason."""


class ParserEnded(DocumentSkipped):
    """The parser of a file was late or died, perhaps by the machine's fault: the file is tried once more."""
