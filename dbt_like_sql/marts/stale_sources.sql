-- Which sources are stale, and why: their configuration or the code changed since their last refresh, it
-- failed or is overdue by its trigger, or rows wait for their vectors.
-- answers: Which sources are stale, and why?
-- grain: one row per source
-- plot: bar x=source y=age_hours by=state
with refreshed as (
    select
        source,
        any_value(source_type) as source_type,
        max(done_at) filter (where stage = 'index') as refreshed_at,
        max(done_at) filter (where stage = 'snapshot') as read_at,
        arg_max(run, done_at) filter (where run is not null) as last_run,
        arg_max(code, done_at) filter (where stage = 'chunks' and code is not null) as chunks_code,
        arg_max(code, done_at) filter (where stage = 'graph' and code is not null) as graph_code,
        arg_max(code, done_at) filter (where stage = 'index' and code is not null) as index_code,
        arg_max(settings, done_at) filter (where stage = 'snapshot' and settings is not null) as snapshot_settings,
        arg_max(settings, done_at) filter (where stage = 'chunks' and settings is not null) as chunks_settings,
        arg_max(settings, done_at) filter (where stage = 'index' and settings is not null) as index_settings
    from stg_refreshes
    group by source
),
failed as (
    select stg_failures.source, min(failed_at) as since, arg_max(problem, failed_at) as problem
    from stg_failures
    left join refreshed on refreshed.source = stg_failures.source
    where refreshed.refreshed_at is null or failed_at > refreshed.refreshed_at
    group by stg_failures.source
),
verified as (
    select source, max(verified_at) as verified_at, arg_max(differences, verified_at) as differences
    from stg_verifications
    group by source
),
begun as (
    select distinct source from stg_documents -- as soon as some are read, which the log of refreshes says at the end
),
waiting as (
    select source, count(*) as rows, count(*) filter (where unembedded) as unembedded
    from stg_index
    where not archived
    group by source
),
reasons as (
    select source, reason, count(*) as documents
    from skipped_documents
    group by source, reason
),
skipped as (
    select
        source,
        sum(documents)::bigint as documents,
        string_agg(reason || ': ' || documents, '; ' order by documents desc, reason) as reasons
    from reasons
    group by source
),
costs as (
    select source, sum(cost) as cost
    from stg_model_calls
    where source is not null
    group by source
),
compared as (
    select
        coalesce(stg_sources.source, refreshed.source) as source,
        coalesce(stg_sources.source_type, refreshed.source_type) as source_type,
        stg_sources.trigger,
        refreshed.refreshed_at,
        date_diff('minute', refreshed.refreshed_at, now()) / 60 as age_hours,
        refreshed.last_run,
        list_filter(
            [
                'failed since ' || strftime(failed.since, '%Y-%m-%d %H:%M') || ' because ' || failed.problem,
                case
                    when refreshed.refreshed_at is not null then null
                    when begun.source is not null then 'not finished yet'
                    else 'never refreshed'
                end,
                case
                    when refreshed.refreshed_at < stg_sources.configured_at and (
                        stg_sources.source_settings <> regexp_extract(snapshot_settings, '"source": "(\w+)"', 1)
                        or stg_sources.chunking_settings <> regexp_extract(chunks_settings, '"chunking": "(\w+)"', 1)
                        or stg_sources.model_settings <> regexp_extract(index_settings, '"model": "(\w+)"', 1)
                        or stg_sources.access_settings <> regexp_extract(index_settings, '"access": "(\w+)"', 1)
                    )
                        then 'configuration changed'
                end,
                case
                    when regexp_extract(stg_sources.chunks_code, '-([^-]*)$', 1) <> regexp_extract(refreshed.chunks_code, '-([^-]*)$', 1)
                        or regexp_extract(stg_sources.graph_code, '-(.*)$', 1) <> regexp_extract(refreshed.graph_code, ' [^-]*-(.*)$', 1)
                        or regexp_extract(stg_sources.index_code, '-([^-]*)$', 1) <> regexp_extract(refreshed.index_code, '-([^-]*)$', 1)
                        then 'code changed'
                end,
                case when age_hours > stg_sources.max_age_hours then 'overdue (' || trigger || ')' end,
                case
                    when refreshed.read_at > refreshed.refreshed_at and failed.source is null
                        then 'last refresh did not finish'
                end,
                case
                    when verified.differences > 0 and verified_at > refreshed.refreshed_at
                        then differences || ' documents differ from the source'
                end,
                case when waiting.unembedded > 0 then waiting.unembedded || ' rows wait for a vector' end
            ],
            lambda reason: reason is not null
        ) as found,
        coalesce(waiting.rows, 0) as rows,
        coalesce(waiting.unembedded, 0) as unembedded,
        coalesce(skipped.documents, 0) as skipped,
        skipped.reasons as skipped_reasons,
        coalesce(costs.cost, 0) as cost
    from stg_sources
    full join refreshed on refreshed.source = stg_sources.source
    left join verified on verified.source = coalesce(stg_sources.source, refreshed.source)
    left join failed on failed.source = coalesce(stg_sources.source, refreshed.source)
    left join begun on begun.source = coalesce(stg_sources.source, refreshed.source)
    left join waiting on waiting.source = coalesce(stg_sources.source, refreshed.source)
    left join skipped on skipped.source = coalesce(stg_sources.source, refreshed.source)
    left join costs on costs.source = coalesce(stg_sources.source, refreshed.source)
)
select
    source,
    source_type,
    case when len(found) > 0 then 'stale' else 'fresh' end as state,
    array_to_string(found, '; ') as reason, -- empty where it is fresh
    refreshed_at, -- when its index was last brought up to date, whether anything changed or not
    round(age_hours, 1) as age_hours,
    trigger, -- when it is refreshed; null: it is not configured
    rows, -- in the index, without archived ones
    unembedded, -- of them, that have no vector yet
    skipped, -- documents that give no chunk
    skipped_reasons, -- the most frequent first, each with its number of documents
    cost, -- of its vectors, as far as the log goes back
    last_run -- the Dagster run that refreshed it last, if there was one
from compared
order by state desc, age_hours desc nulls first, source
