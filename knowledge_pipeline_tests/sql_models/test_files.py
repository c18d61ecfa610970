"""Reading the SQL files: order, directives, columns, lineage, and what is wrong with them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from knowledge_pipeline.errors import ConfigError
from knowledge_pipeline.sql_models.files import load_models, select_required_models
from knowledge_pipeline.sql_models.model import Model, Plot

MART = """-- What there is,
-- in two lines.
-- answers: How much?
-- grain: one row per source
-- plot: bar x=source y=chunks
with kept as (
    select source, tokens from stg where tokens > 0
)
select
    source, -- the id
    count(*) as chunks,
    sum(tokens)::bigint as tokens -- of all
from kept
group by source;
"""
STAGING = "-- Chunks.\nselect source, tokens from raw_chunks"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def models_in(folder: Path, **files: str) -> list[Model]:
    for name, text in files.items():
        layer, _, stem = name.partition("__")
        (folder / layer).mkdir(parents=True, exist_ok=True)
        (folder / layer / f"{stem}.sql").write_text(text)
    return load_models(folder)


def test_a_model_says_what_it_is(tmp_path: Path) -> None:
    stg, mart = models_in(tmp_path, marts__mart=MART, staging__stg=STAGING)
    assert (stg.name, stg.reads, mart.reads) == ("stg", ("raw_chunks",), ("stg",))
    assert (mart.about, mart.answers) == ("What there is, in two lines.", "How much?")
    assert (mart.grain, mart.plots) == ("one row per source", (Plot("bar", "source", "chunks", None),))
    assert {name: (column.type, column.comment) for name, column in mart.columns.items()} == {
        "source": ("VARCHAR", "the id"),
        "chunks": ("BIGINT", ""),
        "tokens": ("BIGINT", "of all"),
    }


def test_columns_are_traced_to_columns(tmp_path: Path) -> None:
    stg, mart = models_in(tmp_path, marts__mart=MART, staging__stg=STAGING)
    assert {name: column.origins for name, column in mart.columns.items()} == {
        "source": (("stg", "source"),),
        "chunks": (),
        "tokens": (("stg", "tokens"),),
    }
    assert stg.columns["tokens"].origins == (("raw_chunks", "tokens"),)


def test_stars_unions_windows_and_joins_are_traced(tmp_path: Path) -> None:
    *_, mart = models_in(
        tmp_path,
        staging__stg="select * from raw_releases",
        staging__other="select release as number, rows from stg union all select restores, rows from stg",
        marts__mart="select s.*, max(o.number) over (partition by o.rows) as top "
        "from stg as s join other as o on o.number = s.release",
    )
    assert mart.columns["tables"].origins == (("stg", "tables"),)
    assert mart.columns["top"].origins == (("other", "number"), ("other", "rows"))


def test_what_a_model_reads_comes_before_it(tmp_path: Path) -> None:
    names = [model.name for model in load_models()]
    assert all(
        names.index(read) < names.index(model.name)
        for model in load_models()
        for read in model.reads
        if read in names
    )


def test_what_is_needed_for_a_model_is_found() -> None:
    assert [model.name for model in select_required_models(load_models(), ["index_covers_every_chunk"])] == [
        "stg_chunks",
        "stg_index",
        "index_coverage",
        "index_covers_every_chunk",
    ]


def test_every_model_says_what_a_row_is_and_every_mart_what_it_answers() -> None:
    for model in load_models():
        assert model.about, model.name
        assert (model.layer == "tests") != model.grain.startswith("one row per "), model.name
        assert (model.layer == "marts") == bool(model.answers), model.name


def test_files_are_read_once_and_again_after_an_edit(tmp_path: Path, own_cache: Path) -> None:
    first = models_in(tmp_path, staging__stg=STAGING)
    (kept,) = own_cache.rglob("*.json")
    assert load_models(tmp_path) == first
    kept.write_text("broken")
    assert load_models(tmp_path) == first
    (edited,) = models_in(tmp_path, staging__stg=STAGING.replace("tokens", "anchor"))
    assert list(edited.columns) == ["source", "anchor"]


@pytest.mark.slow
def test_reading_files_again_needs_neither_sqlglot_nor_duckdb(own_cache: Path) -> None:
    load_models()
    code = (
        "import sys; from knowledge_pipeline.sql_models.files import load_models; models = load_models();"
        "print(len(models), 'sqlglot' in sys.modules, 'duckdb' in sys.modules, 'dagster' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(len(load_models())), "False", "False", "False"]


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path, own_cache: Path) -> None:
    own_cache.write_text("a file where a folder should be")
    assert [model.name for model in models_in(tmp_path, staging__stg=STAGING)] == ["stg"]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"staging__a": "delete from raw_chunks"}, "staging/a.sql is not one select: it may only read"),
        ({"staging__a": "select 1; select 2"}, "is not one select"),
        ({"staging__a": "selct 1 from"}, "is not one select"),
        ({"staging__a": "select * from nowhere"}, "reads 'nowhere', which does not exist"),
        ({"staging__a": "select nothing from raw_chunks"}, "a.sql cannot be run: Binder Error"),
        ({"marts__a": "select * from b", "marts__b": "select * from a"}, "in a circle"),
        ({"marts__a": "select 1 as x", "staging__a": "select 1 as x"}, "a name that is taken"),
        ({"marts__raw_chunks": "select 1 as x"}, "a name that is taken"),
        ({"marts__a": "-- plot: pie x=x y=x\nselect 1 as x"}, "cannot read the plot 'pie x=x y=x'"),
        ({"marts__a": "-- plot: bar x=x y=z\nselect 1 as x"}, "the plot names 'z'"),
        ({"tests__a": "-- severity: bad\nselect 1 as x"}, "severity is 'bad'"),
    ],
)
def test_a_wrong_model_is_refused_by_name(tmp_path: Path, files: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        models_in(tmp_path, **files)


def test_a_missing_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there are no SQL models in /"):
        load_models(tmp_path / "nowhere")
