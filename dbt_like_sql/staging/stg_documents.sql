-- Documents as their sources have them now, or had them before they vanished.
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
    skipped, -- why the document could not be taken; null where it was
    archived_at, -- since when the source no longer has it
    archived_at is not null as archived
from raw_documents
