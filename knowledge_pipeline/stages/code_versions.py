"""Code versions: what decides a stage's rows besides its input and its settings.

When one changes, the UI marks the stage's partitions as stale, and a refresh rebuilds exactly the rows
whose fingerprints changed with it.
"""

from collections.abc import Mapping

from knowledge_pipeline.chunking import registry as chunking
from knowledge_pipeline.code_graph import FACTS_VERSION, RESOLVER_VERSION
from knowledge_pipeline.config.sources import SanitizeSettings, SourceConfig
from knowledge_pipeline.contract.filters import SourceType
from knowledge_pipeline.embedding.base import TEXT_TEMPLATE
from knowledge_pipeline.records import hash_strings
from knowledge_pipeline.sanitizing import sanitize as sanitizing
from knowledge_pipeline.stages import code_graph, index
from knowledge_pipeline.store import schemas


def compute_code_versions(source_type: SourceType) -> Mapping[str, str]:
    """The version of every stage, for sources of a type, each with the version of its table's schema."""
    plain = SourceConfig.model_construct(type=source_type)  # of any connection
    cutting = (
        chunking.fingerprint(plain, model_tokens=0, tokenizer=""),
        sanitizing.fingerprint(SanitizeSettings(secrets="redact", personal_data="redact")),
    )
    return {
        "snapshot": schemas.VERSION,
        "chunks": f"{schemas.VERSION}-{hash_strings(*cutting)[:8]}",
        "embeddings": f"{schemas.VERSION}-{hash_strings(TEXT_TEMPLATE)[:8]}",
        "index": f"{schemas.VERSION}-{index.VERSION}.{schemas.WORDS_VERSION}",
        "graph": f"{schemas.VERSION}-{code_graph.VERSION}-{FACTS_VERSION}.{RESOLVER_VERSION}",
    }
