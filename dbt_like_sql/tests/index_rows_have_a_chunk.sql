-- Every row of the index belongs to a chunk that still exists.
select stg_index.space, stg_index.source, stg_index.id
from stg_index
left join stg_chunks on stg_chunks.id = stg_index.id
where stg_chunks.id is null
