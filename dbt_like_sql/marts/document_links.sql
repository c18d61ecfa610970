-- How documents are connected: links, imports, changed files, relations and mentions, resolved to a
-- document of the same source, else of a source of the same repository, else of any source that has
-- the target under its name: a ticket, an issue, a commit, a page. What looks like an id but is none in
-- any source is left out.
-- answers: What does a document refer to, and what refers to it?
-- grain: one row per document, kind of link and target
with reached as (
    select
        int_link_places.source,
        int_link_places.uri,
        int_link_places.kind,
        int_link_places.target,
        names.source as target_source,
        names.uri as target_uri,
        10 * int_link_places.rank + names.rank as rank
    from int_link_places
    inner join int_document_names as names on names.name = int_link_places.place and names.rank < 9
    left join int_repositories as here on here.source = int_link_places.source
    left join int_repositories as there on there.source = names.source
    where names.source = int_link_places.source or here.repo = there.repo
    union all
    select
        int_links.source,
        int_links.uri,
        int_links.kind,
        int_links.target,
        names.source as target_source,
        names.uri as target_uri,
        100 as rank
    from int_links
    inner join int_document_names as names on names.name = int_links.name and names.rank = 9
    where (names.source, names.uri) <> (int_links.source, int_links.uri)
),
candidates as (
    select
        *,
        row_number() over (
            partition by source, uri, kind, target
            order by target_source <> source, rank, target_source, target_uri
        ) as choice
    from reached
)
select
    int_links.source,
    int_links.source_type,
    int_links.uri,
    int_links.kind, -- links, imports, changes, closes, implements, supersedes, duplicates, attached_to, references, related
    int_links.target, -- as it is written in the document
    candidates.target_source,
    candidates.target_uri,
    case
        when candidates.target_uri is not null then 'document'
        when regexp_matches(int_links.target, '^([a-zA-Z][a-zA-Z0-9+.-]+:|//)') then 'outside'
        when int_links.kind = 'imports' and not starts_with(int_links.target, '.') then 'outside'
        when int_links.mentioned and not starts_with(int_links.name, 'file:') then 'outside'
        else 'unknown'
    end as leads_to -- document, outside (another host, a library, a service that is no source), or unknown
from int_links
left join candidates
    on candidates.source = int_links.source
    and candidates.uri = int_links.uri
    and candidates.kind = int_links.kind
    and candidates.target = int_links.target
    and candidates.choice = 1
where candidates.target_uri is not null or int_links.kind <> 'references' or not int_links.mentioned
order by int_links.source, int_links.uri, int_links.kind, int_links.target
