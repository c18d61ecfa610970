-- Functions, methods and classes that nothing is known to use: candidates, for a person to judge.
-- Left out are tests, entry points, and names that a language or framework calls by itself. What is called by
-- reflection, by a framework, or through a value whose type is not known, looks unused and is not: where
-- `unresolved_uses` is above 0, something of that name is used somewhere.
-- answers: What could be removed?
-- grain: one row per definition
with used as (
    select distinct node
    from int_uses
    where user_node <> node
    union
    select source_id -- whom a route or a queue calls
    from stg_edges
    where kind in ('declares', 'uses')
),
unresolved as (
    select split_part(rtrim(target_name, '()'), '.', -1) as simple, count(*) as uses -- of any language: templates
    from stg_edges
    where target_id is null and confidence = 0
    group by all
)
select
    stg_symbols.source,
    stg_symbols.path,
    stg_symbols.name,
    min(stg_symbols.kind) as kind,
    min(stg_symbols.language) as language,
    min(stg_symbols.start_line) as start_line,
    (max(stg_symbols.end_line) - min(stg_symbols.start_line) + 1)::integer as lines,
    bool_or(stg_symbols.exported) as exported, -- whether other files can name it
    max(coalesce(unresolved.uses, 0)) as unresolved_uses
from stg_symbols
left join used on used.node = stg_symbols.node
left join unresolved on unresolved.simple = stg_symbols.simple
where
    stg_symbols.kind in ('function', 'method', 'class')
    and used.node is null
    and stg_symbols.simple not in ('main', 'init', 'constructor', 'initialize', 'setup', 'teardown', 'setUp', 'tearDown')
    and not regexp_matches(stg_symbols.simple, '^(__.*__|[Tt]est.*|Benchmark.*|Example.*)$')
    and not regexp_matches(lower(stg_symbols.path), '(^|/)(tests?|specs?|__tests__|testing|fixtures?|examples?)(/|_|\.)')
    and not ( -- pages that a framework finds by their paths
        stg_symbols.language in ('vue', 'svelte', 'astro')
        and regexp_matches(stg_symbols.path, '(^|/)((pages|layouts|routes)/.*|(app|App|error)\.[a-z]+)$')
    )
    and not regexp_matches(lower(stg_symbols.path), '(_test|_tests|\.test|\.spec|_spec|test)\.[a-z]+$')
group by stg_symbols.source, stg_symbols.path, stg_symbols.name
order by unresolved_uses, exported, lines desc, stg_symbols.source, stg_symbols.path, stg_symbols.name
