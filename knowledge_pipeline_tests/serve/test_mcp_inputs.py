"""What tools may be asked for."""

from __future__ import annotations

import pytest
from pydantic import BaseModel, ValidationError

from knowledge_pipeline.serve.mcp.inputs import ContextInput, DocumentInput, KnowledgeSearchInput


@pytest.mark.parametrize(
    ("input_", "required"), [(KnowledgeSearchInput, "query"), (DocumentInput, "id"), (ContextInput, "task")]
)
def test_a_page_begins_with_the_first_or_later_and_by_default_with_the_first(
    input_: type[BaseModel], required: str
) -> None:
    asked = [input_.model_validate({required: "x", **more}) for more in ({}, {"offset": 0}, {"offset": 7})]
    assert [each.model_dump()["offset"] for each in asked] == [0, 0, 7]
    with pytest.raises(ValidationError, match="offset"):
        input_.model_validate({required: "x", "offset": -1})
