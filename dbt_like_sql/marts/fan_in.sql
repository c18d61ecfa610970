-- Definitions by how many others use them: the riskiest to change.
-- answers: What does everything depend on?
-- grain: one row per definition that something else uses
select
    stg_symbols.source,
    stg_symbols.path,
    stg_symbols.name,
    min(stg_symbols.kind) as kind,
    min(stg_symbols.language) as language,
    count(distinct int_uses.user_node) as used_by, -- definitions and files
    count(distinct (int_uses.user_source, int_uses.user_path)) as used_in_files,
    count(distinct int_uses.user_source) filter (where int_uses.user_source <> stg_symbols.source) as other_sources,
    count(distinct (int_uses.user_node, int_uses.kind, int_uses.line)) as places
from int_uses
inner join stg_symbols on stg_symbols.node = int_uses.node
where stg_symbols.kind not in ('file', 'alias') and int_uses.user_node <> int_uses.node
group by stg_symbols.source, stg_symbols.path, stg_symbols.name
order by used_by desc, stg_symbols.source, stg_symbols.path, stg_symbols.name
