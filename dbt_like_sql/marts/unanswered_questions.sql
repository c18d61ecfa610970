-- Questions for which nothing was found, the most frequent first: what the index lacks.
-- answers: What do people look for in vain?
-- grain: one row per question's text and search type
select
    text,
    type,
    count(*) as times,
    max(asked_at) as last_at
from stg_queries
where results = 0
group by text, type
order by times desc, last_at desc
