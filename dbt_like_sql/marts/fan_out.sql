-- Definitions by how many others they use: the hardest to change alone.
-- answers: What depends on everything?
-- grain: one row per definition that uses something else
with used as (
    select
        source_id,
        count(distinct target_id) filter (where target_id <> source_id) as uses_definitions,
        count(distinct target_name) filter (where target_id is null and confidence > 0) as uses_outside,
        count(distinct target_path) filter (where target_path <> path) as uses_files,
        count(distinct target_name) filter (where target_id is null and confidence = 0) as unresolved
    from stg_edges
    where kind not in ('contains', 'depends', 'declares', 'uses', 'owns')
    group by source_id
)
select
    stg_symbols.source,
    stg_symbols.path,
    stg_symbols.name,
    min(stg_symbols.kind) as kind,
    min(stg_symbols.language) as language,
    max(used.uses_definitions) as uses_definitions, -- of its source
    max(used.uses_outside) as uses_outside, -- full names outside of the source
    max(used.uses_files) as uses_files,
    max(used.unresolved) as unresolved -- names whose meaning is not known
from used
inner join stg_symbols on stg_symbols.node = used.source_id
where stg_symbols.kind not in ('file', 'alias') and used.uses_definitions + used.uses_outside > 0
group by stg_symbols.source, stg_symbols.path, stg_symbols.name
order by uses_definitions desc, stg_symbols.source, stg_symbols.path, stg_symbols.name
