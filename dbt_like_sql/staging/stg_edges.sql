-- How definitions and files use each other in the code graph, as the next release will have it.
-- grain: one row per place where one definition uses another in one way
select
    id,
    source,
    path,
    language,
    kind, -- "calls", "references", "extends", "implements", "imports", "contains"; "declares", "uses", "owns": names of a system; "depends": of files, in any way
    source_id, -- node of the definition that it goes out from
    source_name,
    target_id, -- node; empty: outside of the source, or not known
    target_name, -- of what is outside the full name, or as it is written
    target_path,
    line,
    confidence -- 0: the target is not known
from raw_edges
