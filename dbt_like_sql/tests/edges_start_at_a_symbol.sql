-- An edge starts at a file or a definition.
select stg_edges.source, stg_edges.path, stg_edges.line, stg_edges.kind, stg_edges.source_name
from stg_edges
left join stg_symbols on stg_symbols.node = stg_edges.source_id and stg_symbols.kind <> 'alias'
where stg_symbols.node is null
