"""Nobody reads another tenant's content, on any path."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, fields

import pytest

from knowledge_pipeline import Access, Filters, KnowledgeBase
from knowledge_pipeline.errors import InvalidQuery, NotFound
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline_tests.query.search.rows import publish, row, write

SECRET = "the launch code of the rocket engine"


@dataclass(frozen=True)
class Who:
    access: Access
    sees: frozenset[str]


PEOPLE = {
    "nobody": Who(Access.public(), frozenset({"open"})),
    "red": Who(Access("red", frozenset()), frozenset({"open", "red-all"})),
    "red ann": Who(Access("red", frozenset({"ann", "zoe"})), frozenset({"open", "red-all", "red-ann"})),
    "blue": Who(Access("blue", frozenset()), frozenset({"open", "blue-all"})),
    "blue ann": Who(Access("blue", frozenset({"ann"})), frozenset({"open", "blue-all", "blue-ann"})),
    "green": Who(Access("green", frozenset({"ann", "bob"})), frozenset({"open"})),
    "ann without tenant": Who(Access(None, frozenset({"ann"})), frozenset({"open"})),
    "operator": Who(
        Access.operator(), frozenset({"open", "red-all", "red-ann", "blue-all", "blue-ann", "blue-bob"})
    ),
}
ROWS = {
    "open": {},
    "red-all": {"visibility": "tenant", "tenant": "red"},
    "red-ann": {"visibility": "private", "tenant": "red", "principals": ["ann"]},
    "blue-all": {"visibility": "tenant", "tenant": "blue"},
    "blue-ann": {"visibility": "private", "tenant": "blue", "principals": ["ann", "mallory"]},
    "blue-bob": {"visibility": "private", "tenant": "blue", "principals": ["bob"]},
}
ATTACKS = [
    "' OR '1'='1",
    "') OR true --",
    "red') OR (visibility = 'tenant",
    "red' UNION SELECT * FROM index --",
    "\\' OR 1=1 --",
    '" OR "1"="1',
    "red\\",
    "%",
    "*",
    "**",
    ".*",
    "red\n",
    "RED",
    "Red",
    "red ",
    "] OR array_has_any(principals, ['bob'])",
    "ann'] ) OR (true",
]
TEXT_FIELDS = [name.name for name in fields(Filters) if name.type.startswith("tuple")]


@pytest.fixture
def base(base: KnowledgeBase, lake: Lake, space: str) -> KnowledgeBase:
    rows = [
        row(f"{SECRET} number {n}", f"src/{id}.py", id=id, source=id, **columns)
        for n, (id, columns) in enumerate(ROWS.items())
    ]
    write(lake, space, rows)
    publish(lake)
    return base


def ids(answer) -> set[str]:
    return {result.id for result in answer.results}


@pytest.mark.sampled
@pytest.mark.parametrize("who", PEOPLE.values(), ids=PEOPLE.keys())
def test_search_and_similar_find_what_the_caller_may_see_and_nothing_else(base: KnowledgeBase, who: Who):
    for type_ in ("semantic", "code", "similar"):
        assert ids(base.search(SECRET, type=type_, limit=50, access=who.access)) == who.sees
    assert ids(base.similar(text=SECRET, limit=50, access=who.access)) == who.sees
    assert ids(base.similar(path="src/open.py", limit=50, access=who.access)) == who.sees - {"open"}


@pytest.mark.sampled
@pytest.mark.parametrize("who", PEOPLE.values(), ids=PEOPLE.keys())
def test_get_answers_the_same_for_what_is_hidden_and_what_does_not_exist(base: KnowledgeBase, who: Who):
    for id in ROWS:
        for name in (id, f"{id}:src/{id}.py"):
            if id in who.sees:
                assert ids(base.get(name, access=who.access)) == {id}
            else:
                with pytest.raises(NotFound) as hidden:
                    base.get(name, access=who.access)
                with pytest.raises(NotFound) as absent:
                    base.get(name[:-1] + "?", access=who.access)
                assert str(hidden.value).replace(name, "") == str(absent.value).replace(name[:-1] + "?", "")


@pytest.mark.sampled
@pytest.mark.parametrize("who", PEOPLE.values(), ids=PEOPLE.keys())
def test_a_file_that_is_hidden_cannot_be_an_example(base: KnowledgeBase, who: Who):
    for id in set(ROWS) - who.sees:
        with pytest.raises(NotFound):
            base.similar(path=f"src/{id}.py", access=who.access)
        with pytest.raises(NotFound):
            base.similar(path=f"{id}.py", source=id, access=who.access)


@pytest.mark.parametrize("who", PEOPLE.values(), ids=PEOPLE.keys())
def test_status_counts_and_names_only_what_the_caller_may_see(base: KnowledgeBase, settings, who: Who):
    status = base.status(access=who.access)
    assert status.rows == len(who.sees)


@pytest.mark.sampled
@pytest.mark.parametrize("attack", ATTACKS)
def test_no_name_of_a_tenant_or_principal_reaches_beyond_itself(base: KnowledgeBase, attack: str):
    for access in (
        Access(attack, frozenset()),
        Access(attack, frozenset({"ann", "bob"})),
        Access("green", frozenset({attack})),
    ):
        assert ids(base.search(SECRET, limit=50, access=access)) == {"open"}
    assert ids(base.search(SECRET, limit=50, access=Access("blue", frozenset({attack})))) == {
        "open",
        "blue-all",
    }


@pytest.mark.sampled
@pytest.mark.parametrize("field", TEXT_FIELDS)
def test_no_filter_value_widens_what_is_seen(base: KnowledgeBase, field: str):
    for attack in ATTACKS:
        if field == "source_types":  # of which all are known
            with pytest.raises(InvalidQuery, match="allowed: code"):
                base.search(SECRET, filters={field: attack}, access=Access.public())
            continue
        filters = Filters(**{field: (attack,)})
        assert ids(base.search(SECRET, limit=50, filters=filters, access=Access.public())) <= {"open"}


@pytest.mark.sampled
@pytest.mark.parametrize("attack", ATTACKS)
def test_no_text_id_or_path_widens_what_is_seen(base: KnowledgeBase, attack: str):
    public = Access.public()
    assert ids(base.search(f"{SECRET} {attack}", limit=50, access=public)) <= {"open"}
    assert ids(base.search(f'{SECRET} path:"{attack}" source:{attack}', limit=50, access=public)) <= {"open"}
    for name in (attack, f"red-all{attack}", f"red-all:{attack}", f"red-all:src/red-all.py{attack}"):
        with pytest.raises(NotFound):
            base.get(name, access=public)
    with suppress(NotFound):
        assert ids(base.similar(path=attack, source=attack, access=public)) <= {"open"}


@pytest.mark.parametrize("name", ["", "re\x00d", "\ud800"])
def test_a_name_that_could_be_taken_for_another_is_no_access(name: str):
    with pytest.raises(ValueError, match="cannot name"):
        Access(name, frozenset())
    with pytest.raises(ValueError, match="cannot name"):
        Access("red", frozenset({name}))


def test_answers_do_not_tell_who_else_may_see_a_passage(base: KnowledgeBase):
    answer = base.search(SECRET, access=Access("blue", frozenset({"ann"})), explain=True)
    assert "mallory" not in str(answer.as_json())


def test_a_few_visible_rows_are_found_behind_many_hidden_ones(lake: Lake, space: str, settings):
    crowd = [
        row(SECRET, f"src/{n}.py", visibility="tenant", tenant="red", source="crowd") for n in range(600)
    ]
    write(
        lake,
        space,
        [*crowd, row("something else entirely", "src/mine.py", visibility="tenant", tenant="blue")],
    )
    publish(lake)
    with KnowledgeBase.open(settings, access=Access("blue", frozenset())) as base:
        assert [result.citation.path for result in base.search(SECRET).results] == ["src/mine.py"]
