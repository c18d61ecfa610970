-- The names by which a link may call a document: its path, with and without its ending or `src/`,
-- and the folder that it is the index of.
-- grain: one row per name of a document
with places as (
    select
        source,
        uri,
        path,
        regexp_replace(path, '\.[^./]+$', '') as stem
    from stg_documents
    where not archived and skipped is null and path <> ''
),
named as (
    select
        source,
        uri,
        unnest([path, stem, regexp_replace(stem, '(^|/)(index|__init__|mod|README)$', '')]) as name,
        unnest([1, 2, 3]) as rank
    from places
)
select
    source,
    uri,
    name,
    min(rank) as rank -- 1 is the path itself
from (
    select source, uri, name, rank from named
    union all
    select source, uri, name[5:] as name, rank + 3 as rank from named where starts_with(name, 'src/')
) as all_names
where name <> ''
group by source, uri, name
