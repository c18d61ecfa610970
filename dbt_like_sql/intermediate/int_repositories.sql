-- Which sources read the same repository: code, documents and history of one are sources of their own.
-- grain: one row per source and repository
select distinct source, repo
from stg_index
where repo is not null
