-- Files and definitions of the code graph, as the next release will have it.
-- grain: one row per file, definition, and other full name of one
select
    id,
    node, -- its key in edges; definitions of one name in a file share it
    source,
    repo,
    path,
    language,
    kind, -- "file", "class", "function", ...; "alias": another full name of its node
    name, -- qualified within its file; empty for the file
    simple, -- last part of the name
    full_name,
    start_line,
    end_line,
    exported,
    indexed_at
from raw_symbols
