"""How the files of each language are read."""

from __future__ import annotations

from collections.abc import Mapping

from knowledge_pipeline.graph.languages import java_facts, python_facts
from knowledge_pipeline.graph.reading import Extraction

EXTRACTIONS: Mapping[str, Extraction] = {
    "java": java_facts.EXTRACTION,
    "python": python_facts.EXTRACTION,
}
"""By the names of `knowledge_pipeline.languages`; of other languages, definitions alone are read."""
