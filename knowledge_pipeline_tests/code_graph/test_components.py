"""Vue, Svelte and Astro: what the scripts and templates of components use, on which line."""

from __future__ import annotations

import random

import pytest

from knowledge_pipeline.code_graph import full_name
from knowledge_pipeline_tests.code_graph.files import Files, Kept, edges_of, resolved, targets
from knowledge_pipeline_tests.code_graph.proportion import assert_in_proportion

CARD = """\
<template>
  <!-- <Ghost/> -->
  <div v-if="open" @click="save">
    <my-badge v-for="(row, i) in rows" :key="row.id" :label="format(title)" />
    {{ format(title) }} <input @input="() => { shut() }" #default="{ row }">
  </div>
</template>

<script setup lang="ts" type="module">
import MyBadge from './MyBadge.vue'
import { format } from './format'
import { Row } from './format'
const rows: Row[] = []
function save() { format('ä') }
function shut() {}
</script>

<style>.a { color: format(red) }</style>
"""
FORMAT = "export function format(x) { return x }\nexport class Row { id = 1; open() {} }\n"
TEXTS = {
    "src/Card.vue": CARD,
    "src/MyBadge.vue": "<script>\nexport default { methods: { go() {} } }\n</script>\n"
    '<template><a @click="go"/></template>\n',
    "src/format.ts": FORMAT,
    "src/main.ts": "import Card from './Card.vue'\nexport const card = Card\nimport './Card.vue'",
}


def uses(texts: dict[str, str], path: str, kind: str = "calls") -> set[tuple[str, str, int]]:
    """Who uses what on which line."""
    edges = resolved(texts)[path].edges
    return {(it.source, it.target, it.line) for it in edges if it.kind == kind and it.target_path}


def test_a_component_is_a_symbol_of_its_file_and_its_default() -> None:
    (card, *_) = Files(TEXTS).facts("src/Card.vue").definitions
    assert card[:4] == ("Card", "function", 1, 19)
    assert targets(TEXTS, "imports", "src/main.ts:") == {"src/Card.vue:", "src/Card.vue:Card"}
    assert full_name("src/Card.vue", "save", Files(TEXTS)) == "src/Card.save"


def test_a_template_of_vue_uses_components_handlers_and_functions_on_their_lines() -> None:
    assert uses(TEXTS, "src/Card.vue") == {
        ("Card", "MyBadge", 4), ("Card", "format", 4), ("Card", "format", 5), ("Card", "shut", 5),
        ("save", "format", 14),
    }  # fmt: skip
    assert {("Card", "save", 3), ("Card", "rows", 4)} <= uses(TEXTS, "src/Card.vue", "references")
    assert ("Card", "Row.id", 4) in uses(TEXTS, "src/Card.vue", "references")  # of what `v-for` goes through
    lines = {it.name: it.start_line for it in Files(TEXTS).facts("src/Card.vue").definitions}
    assert (lines["save"], lines["rows"]) == (14, 13)


def test_a_template_names_the_methods_of_options() -> None:
    assert uses(TEXTS, "src/MyBadge.vue", "references") == {("MyBadge", "default.methods.go", 4)}


def test_a_template_of_svelte_uses_components_handlers_and_stores() -> None:
    stores = "export const count = 1\nexport function tip() {}"
    texts = {**TEXTS, "src/stores.ts": stores, "src/List.svelte": """\
<script module>
  export function load() { return format(1) }
</script>
<script lang="ts">
  import Card from './Card.vue'
  import { format, Row } from './format'
  import { count, tip } from './stores'
  let rows: Row[] = $props()
  function save(row: Row) { load() }
</script>
{#each rows as row, i (row.id)}
  <Card on:click={() => save(row)} onclick={row.open} {row} use:tip />
{:else if format($count)}
  {@const all = format({ a: '}' })}{format(all)}{format(rows)}
{/each}
<svelte:head><title>{format("a")}</title></svelte:head>
"""}  # fmt: skip
    assert uses(texts, "src/List.svelte") == {
        ("load", "format", 2), ("save", "load", 9), ("List", "Card", 12), ("List", "save", 12),
        ("List", "format", 13), ("List", "format", 14), ("List", "format", 16),
    }  # fmt: skip
    named = uses(texts, "src/List.svelte", "references")
    assert {("List", "Row.open", 12), ("List", "count", 13), ("List", "tip", 12)} <= named


def test_a_page_of_astro_uses_what_its_frontmatter_imports() -> None:
    texts = {**TEXTS, "src/pages/about-us.astro": """\
---
import Card from '../Card.vue'
import { format } from '../format'
const rows = [1]
---
<html class={format(1)}>
  {rows.map((row) => <Card client:load row={format(row)} />)}
  <Card />
</html>
<script>
  import { format as f } from '../format'
  f(2)
</script>
"""}  # fmt: skip
    assert uses(texts, "src/pages/about-us.astro") == {
        ("AboutUs", "Card", 7), ("AboutUs", "Card", 8), ("AboutUs", "format", 6),
        ("AboutUs", "format", 7), ("AboutUs", "format", 12),
    }  # fmt: skip


@pytest.mark.parametrize(
    "load",
    [
        "defineAsyncComponent(() => import('./Card.vue'))",
        "defineAsyncComponent(() => { return import('./Card.vue') })",
    ],
)
def test_a_component_that_is_loaded_when_it_is_shown_is_called(load: str) -> None:
    texts = {**TEXTS, "src/Late.vue": f"<script setup>\nconst Late = {load}\n</script>\n<Late/>"}
    assert "src/Card.vue:Card" in targets(texts, "calls", "src/Late.vue:Late")


NUXT = {
    "nuxt.config.ts": "export default defineNuxtConfig({})",
    "app/components/status/StatusCard.vue": "<script setup>\nconst hidden = 1\n</script>",
    "app/components/status/Link.vue": "<template><StatusCard/></template>",
    "app/composables/users.ts": "export function useUser() { return hidden }\nfunction secret() {}",
    "app/pages/index.vue": "<script setup>\nconst user = useUser(); secret()\n</script>\n"
    "<template><StatusCard/> <StatusLink/> <NuxtLink/> {{ hidden }}</template>",
    "app/plugins/a.ts": "import { useUser as use } from '#imports'\nimport '~/composables/users'\nuse()",
}


def test_nuxt_imports_components_and_composables_by_itself() -> None:
    calls = {(it.target, it.target_path, it.line) for it in resolved(NUXT)["app/pages/index.vue"].edges
             if it.kind == "calls"}  # fmt: skip
    assert calls == {
        ("useUser", "app/composables/users.ts", 2), ("secret", None, 2),
        ("StatusCard", "app/components/status/StatusCard.vue", 4),
        ("Link", "app/components/status/Link.vue", 4),
    }  # fmt: skip
    assert uses(NUXT, "app/pages/index.vue", "references") == set()  # what another component calls `hidden`
    assert targets(NUXT, "calls", "app/plugins/a.ts:") == {"app/composables/users.ts:useUser"}
    plain = {path: text for path, text in NUXT.items() if path != "nuxt.config.ts"}
    assert targets(plain, "calls", "app/pages/index.vue:Index") == {
        "useUser",
        "secret",
        "StatusCard",
        "StatusLink",
    }


EDITS = [
    ("nuxt.config.ts", None),
    ("nuxt.config.ts", "export default { alias: { '~x': './app/composables' } }"),
    ("app/components/status/StatusCard.vue", None),
    ("app/components/StatusLink.vue", "<template><StatusCard/></template>"),
    ("app/composables/users.ts", "export function secret() { return useUser }"),
    ("app/composables/more.ts", "export function useUser() {}\nexport const hidden = 1"),
    ("app/pages/index.vue", "<template><StatusLink @click='secret'/></template>"),
    ("app/components/status/Link.vue", CARD),
]


def test_an_edit_of_components_or_settings_leaves_what_a_full_run_gives() -> None:
    generator = random.Random(3)
    for _ in range(12):
        texts, kept = dict(NUXT), Kept()
        kept.update(texts)
        for path, text in generator.sample(EDITS, len(EDITS)):
            texts = {key: value for key, value in {**texts, path: text}.items() if value is not None}
            kept.update(texts)
            assert kept.edges == edges_of(texts), path


@pytest.mark.parametrize("suffix", ["vue", "svelte", "astro"])
def test_broken_components_keep_what_can_be_read(suffix: str) -> None:
    for text in ("", "<", "<script>", "---", "{{", "<a :b=\"", "{#each", "<script lang='ts'>function f() {}",
                 "<!--", "<script lang='coffee'>f = ->",
                 "<template lang='pug'>\na(@click='b')", '<script type="text/json">{"a": }</script>',
                 "{" * 300, "<script setup>\nconst a = (\n</script>\n{{ ) }}\n<B/>"):  # fmt: skip
        facts = Files({f"a/b-c.{suffix}": text}).facts(f"a/b-c.{suffix}")
        assert [it.name for it in facts.definitions][:1] == ["BC"]
        assert facts.language == suffix
    texts = {f"A.{suffix}": "<B/>{{ a( }}<script>\nfunction f() { f() }\n</script>\n"}
    assert ("f", "f", 2) in uses(texts, f"A.{suffix}")


@pytest.mark.parametrize(
    ("suffix", "piece"),
    [
        ("vue", '<B :a="c"/>{{ d }}'), ("vue", '<script "'), ("vue", ' v-for="a' + " " * 50), ("vue", "<!--"),
        ("svelte", "{#each a as b}<C {d}/>{/each}"), ("svelte", "{"), ("astro", "{a.map(b => <C/>)}"),
        ("astro", '{"'), ("vue", " :a=" + "'"),
    ],
)  # fmt: skip
def test_reading_a_component_takes_work_in_proportion_to_its_length(suffix: str, piece: str) -> None:
    assert_in_proportion(f"a.{suffix}", suffix, f"{piece}\n" * 60)
