-- What documents name: targets of links, imported modules, files that a commit changed, and
-- relations told in front matter.
-- grain: one row per document, kind of link and target
with told as (
    select source, source_type, uri, path, metadata
    from raw_chunks
    where skipped is null and not archived and json_valid(metadata)
),
found as (
    select
        source, source_type, uri, path, 'links' as kind,
        unnest(json_extract_string(metadata, '$.links[*]')) as target
    from told
    union all
    select
        source, source_type, uri, path, 'imports' as kind,
        unnest(json_extract_string(metadata, '$.imports[*]')) as target
    from told
    union all
    select
        source, source_type, uri, path, 'changes' as kind,
        unnest(json_extract_string(metadata, '$.files[*]')) as target
    from told
    where source_type = 'git_history'
    union all
    select
        source, source_type, uri, path, relations.kind,
        unnest(
            case json_type(metadata, '$.front_matter.' || relations.kind)
                when 'ARRAY' then json_extract(metadata, '$.front_matter.' || relations.kind)::varchar[]
                when 'VARCHAR' then [json_extract_string(metadata, '$.front_matter.' || relations.kind)]
            end
        ) as target
    from told
    cross join (
        select unnest(['implements', 'references', 'related', 'supersedes', 'duplicates', 'closes']) as kind
    ) as relations
    where contains(metadata, '"front_matter"')
)
select
    source,
    source_type,
    uri, -- of the document that names the target
    path,
    kind, -- links, imports, changes, or a relation of front matter
    target -- as it is written there
from found
where target is not null and target <> '' and not starts_with(target, '#')
group by source, source_type, uri, path, kind, target
