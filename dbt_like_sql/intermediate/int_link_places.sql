-- The paths that a link may mean within a repository: relative to its document, or to the root.
-- grain: one row per link and possible path; links to other hosts and mentions have none
with cleaned as (
    select
        *,
        regexp_replace(regexp_replace(target, '[#?].*$', ''), '/$', '') as bare,
        regexp_replace(path, '[^/]*$', '') as folder
    from int_links
    where not mentioned and not regexp_matches(target, '^[a-zA-Z][a-zA-Z0-9+.-]+:[^:]')
),
written as (
    select
        source, uri, kind, target, folder,
        case
            when kind <> 'imports' or contains(bare, '/') then bare
            when starts_with(bare, '.') -- a relative import of Python: one dot is this folder
                then repeat('../', len(regexp_extract(bare, '^\.+')) - 1)
                    || replace(ltrim(bare, '.'), '.', '/')
            when regexp_matches(bare, '\.(h|hpp|hh|rb|sh|php)$') then bare
            else replace(replace(bare, '::', '/'), '.', '/')
        end as place
    from cleaned
),
placed as (
    select source, uri, kind, target, folder || place as place, 1 as rank
    from written
    where not starts_with(place, '/') and kind <> 'changes'
    union all
    select source, uri, kind, target, ltrim(place, '/') as place, 2 as rank
    from written
)
select
    source,
    uri,
    kind,
    target,
    array_to_string(
        list_reduce(
            list_transform(
                list_filter(string_split(place, '/'), lambda step: step not in ('', '.')),
                lambda step: [step]
            ),
            lambda above, step: case when step[1] = '..' then above[:-2] else above || step end,
            []::varchar[]
        ),
        '/'
    ) as place, -- a path without `.` and `..`
    rank -- 1 is relative to the document, 2 to the root
from placed
