-- Documents as their sources have them now, or last had them.
-- grain: one row per document of a source
select
    source,
    source_type,
    uri, -- unique within the source
    path,
    title,
    language,
    author,
    last_modified,
    skipped, -- why the document was skipped; null where it was read
    archived_at, -- since when the source no longer has it
    archived_at is not null as archived
from raw_documents
