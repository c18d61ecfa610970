"""What Dagster loads: the definitions of one `knowledge.yaml`, in a code location of its own."""

import dagster as dg

from knowledge_pipeline.defs.checks import translate_load_errors
from knowledge_pipeline.defs.code_location import build_defs
from knowledge_pipeline.defs.runs import select_executor

with translate_load_errors():
    defs = dg.Definitions.merge(build_defs(), dg.Definitions(executor=select_executor()))
