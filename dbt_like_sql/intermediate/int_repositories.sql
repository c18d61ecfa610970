-- Which sources read the same repository: its code, documents and history are separate sources.
-- grain: one row per source and repository
select distinct source, repo
from stg_index
where repo is not null
