-- How documents hang together: links, imports, changed files, relations, resolved to documents of
-- the same source, else of a source of the same repository.
-- answers: What does a document refer to, and what refers to it?
-- grain: one row per document, kind of link and target
with candidates as (
    select
        int_link_places.source,
        int_link_places.uri,
        int_link_places.kind,
        int_link_places.target,
        names.source as target_source,
        names.uri as target_uri,
        row_number() over (
            partition by
                int_link_places.source, int_link_places.uri, int_link_places.kind, int_link_places.target
            order by names.source <> int_link_places.source, int_link_places.rank, names.rank, names.uri
        ) as choice
    from int_link_places
    inner join int_document_names as names on names.name = int_link_places.place
    left join int_repositories as here on here.source = int_link_places.source
    left join int_repositories as there on there.source = names.source
    where names.source = int_link_places.source or here.repo = there.repo
)
select
    int_links.source,
    int_links.source_type,
    int_links.uri,
    int_links.kind, -- links, imports, changes, or a relation of front matter
    int_links.target, -- as it is written in the document
    candidates.target_source,
    candidates.target_uri,
    case
        when candidates.target_uri is not null then 'document'
        when regexp_matches(int_links.target, '^([a-zA-Z][a-zA-Z0-9+.-]+:|//)') then 'outside'
        when int_links.kind = 'imports' and not starts_with(int_links.target, '.') then 'outside'
        else 'unknown'
    end as leads_to -- document, outside (another host, a library), or unknown
from int_links
left join candidates
    on candidates.source = int_links.source
    and candidates.uri = int_links.uri
    and candidates.kind = int_links.kind
    and candidates.target = int_links.target
    and candidates.choice = 1
order by int_links.source, int_links.uri, int_links.kind, int_links.target
