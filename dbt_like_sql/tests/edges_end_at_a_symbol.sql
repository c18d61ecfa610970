-- An edge that names a definition of its source ends at one.
select stg_edges.source, stg_edges.path, stg_edges.line, stg_edges.kind, stg_edges.target_name
from stg_edges
left join stg_symbols on stg_symbols.node = stg_edges.target_id and stg_symbols.kind <> 'alias'
where stg_edges.target_id is not null and stg_symbols.node is null
