-- The names by which a link may refer to a document: its path, with and without its extension or `src/`,
-- and the folder that it is the index of; and the names that hold in all sources, such as "key:PROJ-1".
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
    min(rank) as rank -- 1 is the path itself; 9 a name that holds in all sources
from (
    select source, uri, name, rank from named
    union all
    select source, uri, name[5:] as name, rank + 3 as rank from named where starts_with(name, 'src/')
    union all
    select
        source, uri,
        unnest(json_extract_string(metadata, '$.names[*]')) as name,
        9 as rank
    from raw_chunks -- each chunk has the names of its document; the first one is enough
    where
        skipped is null and not archived
        and json_valid(metadata) and json_extract_string(metadata, '$.leads') = 'true'
) as all_names
where name <> ''
group by source, uri, name
