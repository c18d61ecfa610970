"""Every exception this project raises on purpose.

KnowledgeError
├── PermanentError            a retry cannot help: fix what the message names
│   ├── ConfigError           knowledge.yaml or the environment is wrong
│   ├── SourceRefused         a source does not exist, is not readable, or refuses us
│   ├── ModelMissing          a model cannot be loaded, or its endpoint refuses us
│   ├── StoreError            the tables cannot be used as they are
│   ├── ReleaseRefused        a check forbids the release
│   ├── QuestionRefused       a question cannot be answered as it is asked
│   ├── Unauthenticated       who asks is not known: no token, or one that is not valid
│   ├── Forbidden             who asks may not do this
│   └── NotFound              no such source, chunk, document or release
├── TransientError            a retry may help
│   ├── SourceUnavailable     a source did not answer, or limits our rate
│   ├── EmbeddingUnavailable  an embedding endpoint did not answer
│   ├── LanguageModelUnavailable  a language model did not answer in time
│   ├── TooManyRequests       who asks has asked too often
│   ├── AnswerTimedOut        an answer took longer than a server waits for one
│   ├── StoreUnavailable      an object store did not answer
│   └── Busy                  another process holds the lock
└── DocumentSkipped           one document cannot be taken; the others go on

A message is one sentence: what was wrong, where, and what to do.
"""


class KnowledgeError(Exception):
    """Base of all our errors; `str(error)` is fit to show to a user."""


class PermanentError(KnowledgeError):
    """A retry cannot help."""


class ConfigError(PermanentError):
    """`knowledge.yaml` or the environment is wrong."""


class SourceRefused(PermanentError):
    """A source does not exist, is not readable, or refuses us."""


class ModelError(PermanentError):
    """A model cannot be loaded, or its endpoint refuses us."""


class StoreError(PermanentError):
    """The tables cannot be used as they are."""


class ReleaseRefused(PermanentError):
    """A blocking check forbids the release; the last one stays live."""


class InvalidQuery(PermanentError):
    """A question is empty, too long, or has a filter that makes no sense."""


class Unauthenticated(PermanentError):
    """Who asks is not known: there is no token, or it is not valid."""


class Forbidden(PermanentError):
    """Who asks is known, and may not do this."""


class NotFound(PermanentError):
    """No such source, chunk, document or release."""


class TransientError(KnowledgeError):
    """A retry may help."""


class SourceUnavailable(TransientError):
    """A source did not answer, or limits our rate."""


class EmbeddingUnavailable(TransientError):
    """An embedding endpoint did not answer."""


class LanguageModelUnavailable(TransientError):
    """A language model did not answer in time; whatever it was asked for can be done without."""


class TooManyRequests(TransientError):
    """Who asks has asked too often, or too much is asked at once."""

    def __init__(self, message: str, retry_after_s: float = 1.0) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s

    def __reduce__(self) -> tuple[type, tuple[str, float]]:
        return type(self), (str(self), self.retry_after_s)


class ResponseTimeout(TransientError):
    """An answer took longer than the server waits for one."""


class StoreUnavailable(TransientError):
    """The object store that holds the tables did not answer."""


class Busy(TransientError):
    """Another process holds the lock."""


class DocumentSkipped(KnowledgeError):
    """One document cannot be taken; `str(error)` is the recorded reason."""
