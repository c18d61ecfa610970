-- What documents refer to: link targets, imported modules, files that a commit changed, relations declared
-- in front matter, and the tickets, issues, commits, pages and addresses that a text mentions.
-- grain: one row per document, kind of link and target
with documents as (
    select source, source_type, uri, path, metadata
    from raw_chunks
    where skipped is null and not archived and json_valid(metadata)
),
mentions as (
    select source, source_type, uri, path, unnest(json_extract(metadata, '$.mentions[*]')) as mention
    from documents
    where contains(metadata, '"mentions"')
),
found as (
    select
        source, source_type, uri, path, 'links' as kind, false as mentioned, null as name,
        unnest(json_extract_string(metadata, '$.links[*]')) as target
    from documents
    union all
    select
        source, source_type, uri, path, 'imports' as kind, false as mentioned, null as name,
        unnest(json_extract_string(metadata, '$.imports[*]')) as target
    from documents
    union all
    select
        source, source_type, uri, path, 'changes' as kind, false as mentioned, null as name,
        unnest(json_extract_string(metadata, '$.files[*]')) as target
    from documents
    where source_type = 'git_history'
    union all
    select
        source, source_type, uri, path, relations.kind, false as mentioned, null as name,
        unnest(
            case json_type(metadata, '$.front_matter.' || relations.kind)
                when 'ARRAY' then json_extract(metadata, '$.front_matter.' || relations.kind)::varchar[]
                when 'VARCHAR' then [json_extract_string(metadata, '$.front_matter.' || relations.kind)]
            end
        ) as target
    from documents
    cross join (
        select unnest(['implements', 'references', 'related', 'supersedes', 'duplicates', 'closes']) as kind
    ) as relations
    where contains(metadata, '"front_matter"')
    union all
    select
        source, source_type, uri, path,
        json_extract_string(mention, '$.kind') as kind,
        true as mentioned,
        json_extract_string(mention, '$.name') as name,
        case -- paths of files are relative to the root of the repository
            when json_extract_string(mention, '$.kind') = 'changes'
                then ltrim(json_extract_string(mention, '$.target'), '/')
            else json_extract_string(mention, '$.target')
        end as target
    from mentions
),
grouped as (
    select
        source, source_type, uri, path, target,
        max(name) as name,
        coalesce(bit_or(kinds.bit) filter (where not found.mentioned), 0) as declared_as, -- a bit for each kind
        coalesce(bit_or(kinds.bit) filter (where found.mentioned), 0) as mentioned_as
    from found
    inner join (
        select
            unnest([
                'links', 'imports', 'references', 'related', 'changes', 'implements', 'supersedes', 'duplicates',
                'closes', 'attached_to'
            ]) as kind,
            unnest([1, 2, 4, 8, 16, 32, 64, 128, 256, 512]) as bit
    ) as kinds on kinds.kind = found.kind
    where target is not null and target <> '' and (found.mentioned or not starts_with(target, '#'))
    group by source, source_type, uri, path, target
)
select
    grouped.source,
    grouped.source_type,
    grouped.uri, -- of the document that refers to the target
    grouped.path,
    kinds.kind, -- links, imports, changes, closes, implements, supersedes, duplicates, attached_to, references, related
    grouped.target, -- as it is written there
    grouped.name, -- of the target in all sources; null where it has none
    grouped.declared_as & kinds.bit = 0 as mentioned -- only mentioned in text, where what looks like an id may be none
from grouped
cross join (
    select
        unnest([
            'links', 'imports', 'references', 'related', 'changes', 'implements', 'supersedes', 'duplicates', 'closes',
            'attached_to'
        ]) as kind,
        unnest([1, 2, 4, 8, 16, 32, 64, 128, 256, 512]) as bit -- from 16 on a kind says how, which a plain link does not
) as kinds
where
    (grouped.declared_as & kinds.bit <> 0 and (kinds.kind <> 'links' or grouped.mentioned_as < 16))
    or (
        grouped.declared_as & kinds.bit = 0
        and grouped.mentioned_as & kinds.bit <> 0
        and (kinds.bit >= 16 or (grouped.declared_as = 0 and grouped.mentioned_as < 16))
    )
