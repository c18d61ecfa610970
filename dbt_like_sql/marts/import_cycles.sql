-- Files that import each other in a cycle, all files of a cycle together.
-- Files that nothing imports, or that import nothing, are in no cycle: four rounds remove them first,
-- so that few imports are left to follow. Sources with more than 3,000 files left are skipped.
-- answers: Which files cannot be understood one by one?
-- grain: one row per strongly connected group of files
with recursive kept_1 as (
    select imports.source, imports.from_path, imports.to_path
    from int_file_imports as imports
    where
        (imports.source, imports.to_path) in (select (source, from_path) from int_file_imports)
        and (imports.source, imports.from_path) in (select (source, to_path) from int_file_imports)
),
kept_2 as (
    select source, from_path, to_path
    from kept_1
    where
        (source, to_path) in (select (source, from_path) from kept_1)
        and (source, from_path) in (select (source, to_path) from kept_1)
),
kept_3 as (
    select source, from_path, to_path
    from kept_2
    where
        (source, to_path) in (select (source, from_path) from kept_2)
        and (source, from_path) in (select (source, to_path) from kept_2)
),
kept_4 as (
    select source, from_path, to_path
    from kept_3
    where
        (source, to_path) in (select (source, from_path) from kept_3)
        and (source, from_path) in (select (source, to_path) from kept_3)
),
numbered as (
    select source, path, row_number() over (order by source, path) as file
    from (select distinct source, from_path as path from kept_4)
),
small as (
    select source
    from numbered
    group by source
    having count(*) <= 3000
),
steps as (
    select starts.file as a, ends.file as b
    from kept_4
    inner join numbered as starts on starts.source = kept_4.source and starts.path = kept_4.from_path
    inner join numbered as ends on ends.source = kept_4.source and ends.path = kept_4.to_path
    where kept_4.source in (select source from small)
),
reached as (
    select a, b from steps
    union
    select reached.a, steps.b
    from reached
    inner join steps on steps.a = reached.b
),
grouped as (
    select forth.a as file, min(forth.b) as first_file
    from reached as forth
    inner join reached as back on back.a = forth.b and back.b = forth.a
    group by forth.a
)
select
    numbered.source,
    min(numbered.path) as first_path,
    count(*) as files,
    string_agg(numbered.path, ', ' order by numbered.path) as paths
from grouped
inner join numbered on numbered.file = grouped.file
group by numbered.source, grouped.first_file
order by files desc, numbered.source, first_path
