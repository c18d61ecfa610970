"""What Dagster loads: every asset, check, job, sensor and resource of one `knowledge.yaml`."""

import dagster as dg

from knowledge_pipeline.defs.asset_jobs import RELEASE_JOB, refresh_of
from knowledge_pipeline.defs.assets import chain, release_of
from knowledge_pipeline.defs.executor import chosen_executor
from knowledge_pipeline.defs.failures import loading
from knowledge_pipeline.defs.jobs import full_reindex, purge, refresh
from knowledge_pipeline.defs.models import models_of
from knowledge_pipeline.defs.partitions import types_in
from knowledge_pipeline.defs.resources import ProjectResource
from knowledge_pipeline.defs.sensors import release_after_failures, sources_in_config

with loading():
    project = ProjectResource()
    types = types_in(project.settings())
    defs = dg.Definitions(
        assets=[*(chain(type_) for type_ in types), release_of(types), models_of(types)],
        jobs=[refresh, full_reindex, purge, RELEASE_JOB, *(refresh_of(type_) for type_ in types)],
        sensors=[sources_in_config(types), release_after_failures],
        resources={"project": project},
        executor=chosen_executor(),
    )
