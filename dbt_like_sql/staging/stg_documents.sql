-- Documents as their sources have them now, or had them before they vanished.
-- grain: one row per document of a source
select
    source,
    source_type,
    uri,
    path,
    language,
    author,
    last_modified,
    skipped,
    archived_at,
    archived_at is not null as archived
from raw_documents
