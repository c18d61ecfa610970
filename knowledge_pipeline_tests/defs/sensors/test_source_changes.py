"""Whatever is edited and whenever the daemon dies: in the end partitions and store follow the file."""

from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_pipeline.defs.sensors import (
    ADDITIONS_PER_TICK,
    DELETIONS_PER_TICK,
    Additions,
    RemovalCursor,
    Removals,
    SourceKey,
    parse_additions_cursor,
    parse_removal_cursor,
    plan_additions,
    plan_removals,
)
from knowledge_pipeline_tests.thoroughness import examples

KEYS = ["code/a", "code/b", "code/c", "markdown/a"]


class World:
    """Partitions, store and cursors, changed as Dagster and the jobs would change them."""

    def __init__(self) -> None:
        self.held: set[SourceKey] = set()
        self.own: set[SourceKey] = set()
        self.stored: set[SourceKey] = set()
        self.added_cursor = self.removed_cursor = ""
        self.refreshed: list[SourceKey] = []

    def look(
        self, configured: list[SourceKey], *, dies: bool = False, works: bool = True
    ) -> tuple[Additions, Removals]:
        """One tick of each sensor; `dies` before runs and cursors are kept; runs do their work, or fail."""
        requested, _ = parse_additions_cursor(self.added_cursor)
        added = plan_additions(configured, self.held, self.own, self.stored, requested)
        self.held |= set(added.add)
        self.own |= set(added.add)
        if not dies:
            self.added_cursor = added.to_cursor()
            self.refreshed += added.refresh
            self.stored |= set(added.refresh) if works else set()
        cursor = parse_removal_cursor(self.removed_cursor)
        removed = plan_removals(configured, self.own, self.stored, cursor, now_s=0.0, grace_s=0.0)
        self.held -= set(removed.delete)
        self.own -= set(removed.delete)
        if not dies:
            self.removed_cursor = removed.cursor.to_json()
            self.stored -= set(removed.purge) if works else set()
        return added, removed


FILES = st.lists(st.sampled_from(KEYS), unique_by=lambda key: key.partition("/")[2], max_size=3)


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(st.tuples(FILES, st.booleans()), max_size=12), FILES.filter(bool))
def test_after_any_edits_and_deaths_everything_follows_the_file(
    history: list[tuple[list[SourceKey], bool]], last: list[SourceKey]
) -> None:
    world = World()
    for configured, dies in history:
        world.look(configured, dies=dies)
    for _ in range(3):
        world.look(last)
    assert world.held == world.own == world.stored == set(last)
    added, removed = world.look(last)
    assert not (added.add or added.refresh or removed.purge or removed.delete or removed.orphaned)


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(FILES, max_size=8))
def test_nothing_is_purged_that_was_there_at_one_of_the_last_two_looks(
    history: list[list[SourceKey]],
) -> None:
    world = World()
    before: list[SourceKey] = []
    for configured in history:
        _, found = world.look(configured)
        assert not set(found.purge) & (set(configured) | set(before))
        assert not found.purge or configured
        before = configured


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(st.booleans(), max_size=6))
def test_a_new_source_is_requested_once_though_its_runs_fail(deaths: list[bool]) -> None:
    world = World()
    for dies in (*deaths, False, False):
        world.look(["code/a"], dies=dies, works=False)
    assert world.refreshed == ["code/a"]


def test_more_new_sources_than_a_look_takes_follow_at_the_next_ones() -> None:
    world, many = World(), [f"code/s{number:04}" for number in range(ADDITIONS_PER_TICK + 3)]
    world.look(many)
    assert len(world.held) == len(world.refreshed) == ADDITIONS_PER_TICK
    world.look(many)
    assert world.held == world.stored == set(many)
    world.look(many[:1])
    world.look(many[:1])
    assert world.stored == {many[0]}, "all are purged at once"
    for _ in range(len(many) // DELETIONS_PER_TICK + 1):
        world.look(many[:1])
    assert world.held == {many[0]}


def test_what_is_missing_is_purged_after_its_time_and_not_where_it_came_back() -> None:
    cursor, purged, keys = RemovalCursor(), list[list[SourceKey]](), ["code/a", "code/b"]
    for now_s, configured in (
        (0, ["code/a"]),
        (50, ["code/a"]),
        (60, keys),
        (70, ["code/a"]),
        (169, ["code/a"]),
    ):
        found = plan_removals(configured, keys, keys, cursor, now_s=now_s, grace_s=100)
        cursor = parse_removal_cursor(found.cursor.to_json())
        purged.append(found.purge)
    assert purged == [[], [], [], [], []]
    assert plan_removals(["code/a"], keys, keys, cursor, now_s=170, grace_s=100).purge == ["code/b"]
    replaced = plan_removals(["code/a", "markdown/b"], keys, keys, cursor, now_s=71, grace_s=100)
    assert replaced.purge == ["code/b"], "another source has its id"


def test_a_cursor_that_cannot_be_read_is_an_empty_one() -> None:
    for nonsense in ("", "{", "[]", '{"requested": 3, "missing": 3}', "null", '"x"'):
        assert parse_additions_cursor(nonsense) == ([], "")
        assert parse_removal_cursor(nonsense) == RemovalCursor()


def test_a_cursor_survives_being_written() -> None:
    cursor = RemovalCursor({"code/b": 12.5}, ["code/c"])
    assert parse_removal_cursor(cursor.to_json()) == cursor
    assert parse_additions_cursor(Additions([], [], ["code/a"]).to_cursor("x")) == (["code/a"], "x")
