"""The code graph: what files define, import and use, and which definition each use means.

`extract` reads the facts of one file. `resolve` finds the edges of one file among the facts of all, and
`renew_trace` says whether they still hold after other files have changed.
"""

from knowledge_pipeline.code_graph.extraction import FACTS_VERSION, extract, has_facts
from knowledge_pipeline.code_graph.facts import CHAIN, Edge, FileFacts, from_json, to_json
from knowledge_pipeline.code_graph.project import ChangedNames, find_changed_names, list_defined_names
from knowledge_pipeline.code_graph.resolution import (
    RESOLVER_VERSION,
    Alias,
    Earlier,
    ResolvedFile,
    full_name,
    list_asked_names,
    renew_trace,
    resolve,
)
from knowledge_pipeline.code_graph.traces import USES, IndexedFile, Project, Trace

__all__ = [
    "CHAIN", "FACTS_VERSION", "RESOLVER_VERSION", "USES", "Alias", "ChangedNames", "Earlier",
    "Edge", "FileFacts", "IndexedFile", "Project", "ResolvedFile", "Trace", "extract",
    "find_changed_names", "from_json", "full_name", "has_facts", "list_asked_names",
    "list_defined_names", "renew_trace", "resolve", "to_json",
]  # fmt: skip
