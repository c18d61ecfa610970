-- Every chunk belongs to a document that its source has or had.
select stg_chunks.source, stg_chunks.id, stg_chunks.uri
from stg_chunks
left join stg_documents on stg_documents.source = stg_chunks.source and stg_documents.uri = stg_chunks.uri
where stg_documents.uri is null
