-- How many uses of the code graph have a known target, by language.
-- answers: How much of the code does the graph understand?
-- grain: one row per source and language
-- plot: bar x=language y=resolved_share by=source
select
    source,
    language,
    count(*) as uses,
    count(*) filter (where target_id is not null) as inside, -- lead to a definition of the source
    count(*) filter (where target_id is null and confidence > 0) as outside, -- to a full name outside
    count(*) filter (where confidence = 0) as unresolved,
    round(count(*) filter (where confidence > 0) / count(*), 4) as resolved_share
from stg_edges
where kind not in ('contains', 'depends', 'declares', 'uses', 'owns')
group by source, language
order by uses desc, source, language
