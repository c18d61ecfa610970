"""The resource that assets of others ask a release by, in the program of the documentation."""

import csv
import re
from pathlib import Path

import dagster as dg
import pytest

from knowledge_pipeline.errors import ConfigError
from knowledge_pipeline_tests.defs.conftest import EMBEDDING, Workplace
from knowledge_pipeline_tests.fakes.openai_server import OpenAIServer

PAGE = Path(__file__).parents[2] / "docs" / "dagster-project.md"


def read_program() -> str:
    (program,) = [
        block
        for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
        if "def answers(" in block
    ]
    return program


@pytest.mark.storage
def test_an_asset_downstream_of_the_release_asks_it(
    tmp_path: Path,
    embedding_server: OpenAIServer,
    instance: dg.DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TEST_EMBEDDING_KEY", embedding_server.key)
    monkeypatch.setenv("KNOWLEDGE_STORE", str(tmp_path / "another"))  # is not that of one with a prefix
    (tmp_path / "handbook").mkdir()
    embedding = EMBEDDING.format(url=embedding_server.url, dimensions=embedding_server.dimensions)
    handbook = Workplace(tmp_path / "handbook", embedding)
    handbook.declare("docs", "markdown", travel_md="# Travel\n\nBook trains at the travel desk.\n")
    Path("questions.txt").write_text("who books trains\n")
    program: dict[str, object] = {}
    exec(read_program(), program)
    defs = program["defs"]
    assert isinstance(defs, dg.Definitions)

    job, key = defs.resolve_implicit_global_asset_job_def(), dg.AssetKey("answers")
    before = job.execute_in_process(instance=instance, asset_selection=[key], raise_on_error=False)
    assert not before.success  # nothing is released
    assert defs.resolve_job_def("handbook_refresh").execute_in_process(instance=instance).success
    done = job.execute_in_process(instance=instance, asset_selection=[key])
    metadata = done.asset_materializations_for_node("answers")[0].metadata
    assert (metadata["questions"].value, metadata["unanswered"].value) == (1, [])
    rows = list(csv.reader(Path("answers.csv").read_text(encoding="utf-8").splitlines()))
    assert (rows[0], rows[1][0]) == (["question", "path", "score"], "who books trains")
    assert rows[1][1] == "travel.md"
    assert defs.resolve_asset_graph().get(key).parent_keys == {dg.AssetKey(["handbook", "release"])}


def test_it_opens_the_file_that_it_names(workplace: Workplace, tmp_path: Path) -> None:
    from knowledge_pipeline import KnowledgeBaseResource

    with KnowledgeBaseResource(config_path=str(workplace.path)).open() as base:
        assert base.settings.store == workplace.settings.store
    with pytest.raises(ConfigError, match=r"there is no .*nothing.yaml"):
        KnowledgeBaseResource(config_path=str(tmp_path / "nothing.yaml")).open()
