"""Every exception this project raises on purpose.

KnowledgeError
├── PermanentError            a retry cannot help: fix what the message names
│   ├── ConfigError           knowledge.yaml or the environment is wrong
│   ├── SourceRefused         a source does not exist, is not readable, or refuses us
│   ├── ModelMissing          a model cannot be loaded, or its endpoint refuses us
│   ├── StoreError            the tables cannot be used as they are
│   ├── ReleaseRefused        a check forbids the release
│   ├── QuestionRefused       a question cannot be answered as it is asked
│   └── NotFound              no such source, chunk, document or release
├── TransientError            a retry may help
│   ├── SourceUnavailable     a source did not answer, or limits our rate
│   ├── EmbeddingUnavailable  an embedding endpoint did not answer
│   ├── LanguageModelUnavailable  a language model did not answer in time
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


class ModelMissing(PermanentError):
    """A model cannot be loaded, or its endpoint refuses us."""


class StoreError(PermanentError):
    """The tables cannot be used as they are."""


class ReleaseRefused(PermanentError):
    """A blocking check forbids the release; the last one stays live."""


class QuestionRefused(PermanentError):
    """A question is empty, too long, or has a filter that makes no sense."""


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


class Busy(TransientError):
    """Another process holds the lock."""


class DocumentSkipped(KnowledgeError):
    """One document cannot be taken; `str(error)` is the recorded reason."""
