"""A name is one, whether its accents are written with their letters or, as macOS has them, apart."""

from __future__ import annotations

from pathlib import Path
from typing import Literal
from unicodedata import normalize

import pytest

from knowledge_pipeline import KnowledgeBase
from knowledge_pipeline.contract.filters import Filters
from knowledge_pipeline.relations import DocumentContext, list_names, resolve_name
from knowledge_pipeline_tests.conftest import Project
from knowledge_pipeline_tests.connectors.repositories import Repository

Form = Literal["NFC", "NFD"]
FORMS: tuple[Form, ...] = ("NFC", "NFD")


@pytest.mark.parametrize("form", FORMS)
def test_a_file_is_found_under_either_form_of_its_name(project: Project, tmp_path: Path, form: Form) -> None:
    repository = Repository(tmp_path / "shop")
    menu, code = normalize(form, "cartes/café.md"), normalize(form, "src/élan.py")
    guides = {
        f"guide-{other}.md": f"# Guide\n\nSee [{other}]({normalize(other, menu)}).\n" for other in FORMS
    }
    repository.write({menu: "# Menu\n\nCoffee and cake.\n", code: "def leap():\n    return 1\n", **guides})
    repository.commit("All of them")
    project.declare("docs", "markdown", repository.root)
    project.declare("code", "code", repository.root)
    project.declare("log", "git_history", repository.root)
    project.refresh()
    with KnowledgeBase.open(project.settings) as base:
        for asked in FORMS:
            name, program = normalize(asked, menu), normalize(asked, code)
            for target in (f"docs:{name}", name, name.rpartition("/")[2]):
                assert [result.citation.path for result in base.get(target).results] == [menu]
            for pattern in (name, f"/{name}", name.rpartition("/")[2], f"{name[:-3]}*"):
                found = base.search(
                    "coffee and cake", filters=Filters(paths=(pattern,), source_types=("markdown",))
                ).results
                assert [result.citation.path for result in found] == [menu], pattern
            left = base.search("coffee and cake", filters=Filters(paths=(f"!{name}",))).results
            assert menu not in [result.citation.path for result in left]
            commits = base.search(
                "all of them", filters=Filters(paths=(name,), source_types=("git_history",))
            ).results
            assert {result.citation.source for result in commits} == {"log"}
            related = base.related(f"docs:{name}").relations
            mentioning = {it.document.path for it in related if it.direction == "from"}
            assert mentioning >= set(guides)
            assert [result.citation.path for result in base.get(f"{program}:leap").results] == [code]


def test_names_and_mentions_meet_in_one_form() -> None:
    for form in FORMS:
        context = DocumentContext("docs", "markdown", normalize(form, "é/café.md"))
        names = list_names(context, context.path, url=None, title="Menu", metadata={})
        for other in FORMS:
            context = DocumentContext("docs", "markdown", normalize(other, "é/guide.md"))
            assert resolve_name(normalize(form, "café.md"), context) in names
            assert resolve_name("caf%C3%A9.md" if other == "NFC" else "cafe%CC%81.md", context) in names
