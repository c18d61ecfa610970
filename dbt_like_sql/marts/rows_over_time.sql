-- How the index grew: the rows of every source as of its last refresh up to each day.
-- answers: How does the index grow?
-- grain: one row per day with a refresh and source type
-- plot: line x=day y=rows by=source_type
with last_of_day as (
    select source, source_type, day, arg_max(rows, done_at) as rows
    from stg_refreshes
    where stage = 'index'
    group by source, source_type, day
),
lasting as (
    select
        source,
        source_type,
        rows,
        day as from_day,
        lead(day) over (partition by source, source_type order by day) as until_day
    from last_of_day
),
days as (
    select distinct day from last_of_day
)
select
    days.day,
    lasting.source_type,
    count(*) as sources,
    sum(lasting.rows)::bigint as rows
from days
inner join lasting
    on days.day >= lasting.from_day and (lasting.until_day is null or days.day < lasting.until_day)
group by days.day, lasting.source_type
order by days.day, lasting.source_type
