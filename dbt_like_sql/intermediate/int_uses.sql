-- Where one definition uses another: within its source, or from another source by its full name.
-- grain: one row per place where a definition is used
select
    target_id as node,
    source_id as user_node,
    source as user_source,
    path as user_path,
    kind,
    line
from stg_edges
where kind not in ('contains', 'depends') and target_id is not null
union all
select
    stg_symbols.node,
    stg_edges.source_id as user_node,
    stg_edges.source as user_source,
    stg_edges.path as user_path,
    stg_edges.kind,
    stg_edges.line
from stg_edges
inner join stg_symbols
    on stg_symbols.full_name = stg_edges.target_name and stg_symbols.source <> stg_edges.source
where stg_edges.kind not in ('contains', 'depends') and stg_edges.target_id is null and stg_edges.confidence > 0
