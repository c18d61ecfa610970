"""The base of all settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Self

from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
    model_validator,
)

from knowledge_pipeline.errors import ConfigError
from knowledge_pipeline.text import is_object

PluginName = Annotated[str, Field(pattern=r"^[A-Za-z_][\w.-]*(:[A-Za-z_]\w*)?$")]
"""The name of an entry point, or `package.module:function`."""

SPELLINGS: Mapping[str, str] = {
    "patterns": "include",
    "include_labels": "labels",
    "documentation": "markdown",  # a type of source
    "review_comments": "reviews",  # parts of a pull request
    "diff_context": "reviews",  # the lines of the diff that a review comment is about
}
"""Words of other systems, each with the key or value of a source that means the same."""


def spell(key: str) -> AliasChoices:
    """The alias of a field that may be written as `SPELLINGS` says, too."""
    return AliasChoices(key, *(word for word, meaning in SPELLINGS.items() if meaning == key))


def read_word(written: Any) -> Any:
    """The value that a word means; anything else as it is."""
    return SPELLINGS.get(written, written) if isinstance(written, str) else written


def _add_spellings(schema: dict[str, Any], model: type[BaseModel]) -> None:
    """Let editors know the other words for a model's keys."""
    for name, field in model.model_fields.items():
        if isinstance(field.validation_alias, AliasChoices):
            words = map(str, field.validation_alias.choices)
            schema["properties"].update({word: schema["properties"][name] for word in words})


class SettingsModel(BaseModel):
    """Base of all settings: frozen, and unknown keys are errors."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        hide_input_in_errors=True,
        defer_build=True,
        json_schema_extra=_add_spellings,
    )

    @model_validator(mode="before")
    @classmethod
    def _drop_empty_values(cls, values: Any) -> Any:
        """Treat a known key without a value (`exclude:` with all its lines commented out) as not set."""
        if not is_object(values):
            return values
        return {k: v for k, v in values.items() if v is not None or read_word(k) not in cls.model_fields}

    @classmethod
    def defaults(cls) -> Self:
        """What validation makes of no key at all, without it: that builds a validator for each class.

        For classes whose validators only check.
        """
        return cls.model_construct()


class UnsetSecret(SecretStr):
    """A secret whose environment variable is not set: whoever needs its value is told."""

    def __init__(self, reference: str, problem: str) -> None:
        super().__init__(reference)
        self.problem = problem

    def get_secret_value(self) -> str:
        """Raises ConfigError, which names the key and the variable."""
        raise ConfigError(self.problem)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UnsetSecret) and self._secret_value == other._secret_value

    def __hash__(self) -> int:
        return hash(self._secret_value)


class UnsetText(str):
    """Text of a connection with `${NAME}` left in it, because that variable is not set."""

    __slots__ = ()


class VariableModel(SettingsModel):
    """Settings that may name environment variables that are not set, until something needs them."""

    _unset: tuple[str, ...] = PrivateAttr(default=())

    @property
    def unset_variables(self) -> tuple[str, ...]:
        """For each such value its key and its variables."""
        return self._unset

    def note_unset(self, problems: Sequence[str]) -> None:
        """Keep them, a sentence for each value."""
        self._unset = tuple(problems)

    def require_variables(self) -> None:
        """Raises ConfigError if one is not set, which names it and its key."""
        if self._unset:
            raise ConfigError("; ".join(self._unset))


_TEXT_KEYS = (  # text that is shown as written, and numbers of an app
    *("url", "endpoint_url", "repository", "project", "organisation", "user", "group", "topic"),
    *("bucket", "account", "container", "id", "installation_id", "encoding", "delimiter", "use"),
)
_CHOICE_KEYS = ("anonymous", "wiki", "personal", "private", "subgroups", "depth")


class ConnectionModel(SettingsModel):
    """A connection, or a part of one: it is not opened while a variable is missing, only shown."""

    @field_validator(*_TEXT_KEYS, *_CHOICE_KEYS, mode="wrap", check_fields=False)
    @classmethod
    def _keep_unset(cls, value: Any, validate: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
        """Keep the text; what must be true, false or a number has its default until the variable is set."""
        try:
            return validate(value)
        except ValidationError:
            if isinstance(value, UnsetText):
                default = cls.model_fields[str(info.field_name)].default
                return default if info.field_name in _CHOICE_KEYS else value
            raise
