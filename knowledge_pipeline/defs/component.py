"""The component of `dg` projects: one knowledge base, configured in a `defs.yaml`.

`dg list components` imports this module: what builds definitions is imported when they are built.
"""

import json
import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import dagster as dg
from dagster.components import Scaffolder, ScaffoldRequest, scaffold_component
from dagster.components.utils.translation import TranslatorResolvingInfo
from pydantic import BaseModel, Field, GetCoreSchemaHandler, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from knowledge_pipeline.config.edit import write_initial_config
from knowledge_pipeline.config.file import CONFIG_NAME, check_config
from knowledge_pipeline.config.problems import ConfigProblem
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.defs.checks import translate_load_errors
from knowledge_pipeline.defs.dagster_internals import find_yaml_line
from knowledge_pipeline.errors import ConfigError

_SETTINGS_PATH = ("attributes", "settings")
_PYTHON = """\
import dagster as dg
from knowledge_pipeline import KnowledgePipeline


@dg.component_instance
def load(context: dg.ComponentLoadContext) -> KnowledgePipeline:
    return KnowledgePipeline(config="{config}", key_prefix="{prefix}")
"""


class _LikeSettings:
    """Any mapping, with the schema of `Settings`: `${NAME}` is replaced before its values are checked."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.dict_schema(core_schema.str_schema())

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return handler(Settings.__pydantic_core_schema__)


class KnowledgePipelineAttributes(dg.Model):
    """The attributes of the component."""

    config: str = Field(
        default="",
        description="Path of the knowledge.yaml, relative to the component's folder. An edited file is read "
        "again, without a reload.",
    )
    settings: Annotated[dict[str, Any], _LikeSettings] = Field(
        default={},
        description="What a knowledge.yaml would hold, instead of `config`. Paths are relative to the "
        "component's folder; secrets are written as ${NAME}.",
    )
    key_prefix: str | list[str] = Field(
        default="",
        description="Begins the keys of the assets, and the names of jobs, schedules and sensors. Several "
        "words are a list, or text with / between them.",
    )
    group_prefix: str | None = Field(
        default=None, description="Begins the names of the assets' groups; the key_prefix where not given."
    )
    partitions: str | None = Field(
        default=None,
        description="Begins the names of the sets of partitions, which all code locations of an instance "
        "share; the key_prefix where not given.",
    )
    translation: str | dg.AssetAttributesModel | None = Field(  # pyright: ignore[reportInvalidTypeForm, reportUnknownMemberType]
        default=None,
        description="Attributes that replace those of every asset, as in the components of dbt and Sling: "
        "group_name, owners, tags, metadata, ... `spec` is the asset in {{ }}. Keys are left to key_prefix.",
    )

    @model_validator(mode="after")
    def _require_one(self) -> "KnowledgePipelineAttributes":
        if bool(self.config) == ("settings" in self.model_fields_set):
            raise ValueError("give either `config`, the path of a knowledge.yaml, or `settings`")
        return self


class ScaffoldParams(BaseModel):
    """Options of `dg scaffold defs knowledge_pipeline.KnowledgePipeline NAME`."""

    folder: str | None = Field(default=None, description="A folder whose documents the first sources are.")
    repository: str | None = Field(default=None, description="The URL of a git repository to read instead.")


class KnowledgePipelineScaffolder(Scaffolder[ScaffoldParams]):
    """Writes a `defs.yaml` and the `knowledge.yaml` that it names."""

    @classmethod
    def get_scaffold_params(cls) -> type[ScaffoldParams]:
        """The options."""
        return ScaffoldParams

    def scaffold(self, request: ScaffoldRequest[ScaffoldParams]) -> None:
        """Write both; the tables will be in the project's folder, outside the code."""
        params, target = request.params or ScaffoldParams(), request.target_path
        path = target / CONFIG_NAME
        try:
            write_initial_config(path, Path(params.folder or target), repository=params.repository)
        except ConfigError as error:
            raise SystemExit(f"Error: {error}") from None  # `dg` would show a traceback
        prefix = re.sub(r"\W+", "_", target.name, flags=re.ASCII)
        if request.project_root:
            store = Path(os.path.relpath(request.project_root / ".knowledge" / prefix, target)).as_posix()
            text = path.read_text(encoding="utf-8")
            path.write_text(text.replace("store: .knowledge\n", f"store: {store}\n"), encoding="utf-8")
        if request.scaffold_format == "python":
            text = _PYTHON.format(config=CONFIG_NAME, prefix=prefix)
            (target / "component.py").write_text(text, encoding="utf-8")
        else:
            scaffold_component(request, {"config": CONFIG_NAME, "key_prefix": prefix})


@dg.scaffold_with(KnowledgePipelineScaffolder)
class KnowledgePipeline(dg.Component):
    """A knowledge base: the assets, checks, jobs, schedules and sensors of one `knowledge.yaml`."""

    def __init__(
        self, *, translation: Callable[[dg.AssetSpec], dg.AssetSpec] | None = None, **attributes: Any
    ) -> None:
        """Take the attributes of a `defs.yaml` as arguments, and the `translation` as a function."""
        self._attributes, self._translation = KnowledgePipelineAttributes(**attributes), translation

    @classmethod
    def get_model_cls(cls) -> type[BaseModel]:
        """The attributes."""
        return KnowledgePipelineAttributes

    @classmethod
    def get_spec(cls) -> dg.ComponentTypeSpec:
        """What `dg list components` shows."""
        return dg.ComponentTypeSpec(
            description="Indexes code, documents and tickets for agents, as a knowledge.yaml says.",
            tags=["lancedb", "search"],
        )

    @classmethod
    def load(cls, attributes: BaseModel | None, context: dg.ComponentLoadContext) -> "KnowledgePipeline":
        """The component with the attributes of its `defs.yaml`, whose `{{ }}` are rendered."""
        written = attributes.model_dump(exclude_unset=True, exclude={"translation"}) if attributes else {}
        scope: Any = context.resolution_context.at_path("attributes")
        values = {name: scope.resolve_value(value) for name, value in written.items()}
        if (translation := getattr(attributes, "translation", None)) is not None:
            info = TranslatorResolvingInfo(translation, scope, "translation")
            values["translation"] = partial(_translate_spec, info)
        return cls(**values)

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Its definitions; DagsterInvalidDefinitionError names file, line and key of each problem."""
        from knowledge_pipeline.defs.code_location import build_defs

        attributes = self._attributes
        folder = context.path if context.path.is_dir() else context.path.parent
        settings: Path | Settings | None = folder / Path(attributes.config).expanduser()
        if not attributes.config:
            with translate_load_errors():
                values = json.dumps(attributes.settings, default=str)
                settings, problems = check_config(values, folder / "defs.yaml")
                if settings is None or problems:
                    raise ConfigError("\n".join(_format_problem(problem, context) for problem in problems))
        defs = build_defs(
            settings,
            key_prefix=attributes.key_prefix,
            group_prefix=attributes.group_prefix,
            partitions=attributes.partitions,
        )
        return defs.map_resolved_asset_specs(func=self._translate) if self._translation else defs

    def _translate(self, spec: dg.AssetSpec) -> dg.AssetSpec:
        translated = self._translation(spec) if self._translation else spec
        if translated.key != spec.key:
            raise dg.DagsterInvalidDefinitionError(
                f"translation makes {spec.key.to_user_string()} {translated.key.to_user_string()}: "
                "set key_prefix instead, which jobs and sensors follow"
            )
        return translated


def _translate_spec(info: TranslatorResolvingInfo, spec: dg.AssetSpec) -> dg.AssetSpec:
    return info.get_asset_spec(spec, {"spec": spec})


def _format_problem(problem: ConfigProblem, context: dg.ComponentLoadContext) -> str:
    location = find_yaml_line(context, (*_SETTINGS_PATH, *problem.key_path))
    where = f"{Path(location[0]).name}:{location[1]}: " if location else ""
    return f"{where}settings: {problem}"
