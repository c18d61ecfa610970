"""Which files the names of modules lead to in JavaScript and TypeScript, and full names."""

from __future__ import annotations

import json

import pytest

from knowledge_pipeline.code_graph import full_name
from knowledge_pipeline_tests.code_graph.files import Files, Kept, edges_of, resolved, targets

ROOMS = {
    "package.json": json.dumps({"name": "rooms", "private": True, "workspaces": ["packages/*"]}),
    "tsconfig.base.json": json.dumps({"compilerOptions": {"paths": {"~/*": ["packages/app/src/*"]}}}),
    "packages/app/tsconfig.json": '{"extends": "../../tsconfig.base.json"} // no more',
    "packages/app/package.json": json.dumps({"name": "@rooms/app", "main": "./dist/main.js"}),
    "packages/app/src/main.ts": "export function main() {}",
    "packages/app/src/parts/index.tsx": "export const part = 1;",
    "packages/app/src/parts/wall.mts": "export const wall = 1;",
    "packages/app/src/types.d.ts": "export interface Plan {}",
    "packages/core/package.json": json.dumps({
        "name": "@rooms/core",
        "exports": {
            ".": {"types": "./dist/index.d.ts", "import": "./dist/index.js"},
            "./tools/*": "./dist/tools/*.js",
        },
    }),
    "packages/core/src/index.ts": "export class Core { go() {} }",
    "packages/core/src/tools/saw.ts": "export class Saw {}",
}  # fmt: skip


@pytest.mark.parametrize(
    ("written", "path", "expected"),
    [
        ("./parts", "packages/app/src/main.ts", "packages/app/src/parts/index.tsx"),
        ("./parts/index.js", "packages/app/src/main.ts", "packages/app/src/parts/index.tsx"),
        ("./wall.mjs", "packages/app/src/parts/index.tsx", "packages/app/src/parts/wall.mts"),
        ("..", "packages/core/src/tools/saw.ts", "packages/core/src/index.ts"),
        ("./types", "packages/app/src/main.ts", "packages/app/src/types.d.ts"),
        ("~/parts", "packages/app/src/main.ts", "packages/app/src/parts/index.tsx"),
        ("~/parts", "packages/core/src/index.ts", ""),
        ("@rooms/core", "packages/app/src/main.ts", "packages/core/src/index.ts"),
        ("@rooms/core/tools/saw", "packages/app/src/main.ts", "packages/core/src/tools/saw.ts"),
        ("@rooms/app", "packages/core/src/index.ts", "packages/app/src/main.ts"),
        ("../../../../../etc", "packages/app/src/main.ts", ""),
    ],
)
def test_names_of_modules_lead_to_files(written: str, path: str, expected: str) -> None:
    texts = {**ROOMS, path: f"import '{written}';"}
    found = {each for each in targets(texts, "imports", f"{path}:") if each != written}
    assert found == ({f"{expected}:"} if expected else set())


def test_of_several_aliases_that_fit_the_one_that_says_most_leads() -> None:
    aliases = {"@/*": ["src/*"], "@/kit/*": ["kit/*"]}
    texts = {
        "tsconfig.json": json.dumps({"compilerOptions": {"paths": aliases}}),
        "src/kit/saw.ts": "export const saw = 1;",
        "kit/saw.ts": "export const saw = 2;",
        "a.ts": "import '@/kit/saw';",
    }
    assert targets(texts, "imports", "a.ts:") == {"kit/saw.ts:"}


def test_what_lies_outside_has_its_full_name() -> None:
    texts = {"a.ts": "import React, { useState } from 'react';\nimport { join } from 'node:path';\n"
             "useState(); React.memo(); join();"}  # fmt: skip
    assert targets(texts, "calls", "a.ts:") == {"react.useState", "react.memo", "path.join"}


def test_definitions_are_known_by_their_package_and_file() -> None:
    files = Files(ROOMS)
    assert full_name("packages/core/src/index.ts", "Core.go", files) == "@rooms/core.Core.go"
    assert full_name("packages/core/src/tools/saw.ts", "Saw", files) == "@rooms/core/src/tools/saw.Saw"
    assert full_name("packages/app/src/types.d.ts", "", files) == "@rooms/app/src/types"
    assert full_name("a/b.js", "c", Files({"a/b.js": ""})) == "a/b.c"


def test_a_manifest_that_is_none_says_nothing() -> None:
    for text in (
        "",
        "{",
        "[]",
        '"x"',
        '{"compilerOptions": 3}',
        '{"name": 3, "exports": [[[]]]}',
        "[" * 9000,
    ):
        files = Files({"package.json": text, "tsconfig.json": text, "a.ts": "import 'b';"})
        assert all(not each for each in files.facts("package.json").settings.values())
        assert targets({"package.json": text, "a.ts": "import 'b'"}, "imports", "a.ts:") == {"b"}


def test_a_package_that_names_itself_as_its_entry_lies_outside() -> None:
    texts = {"package.json": '{"name": "me", "main": "."}', "src/a.js": "import 'me';"}
    assert targets(texts, "imports", "src/a.js:") == {"me"}


def test_of_two_packages_with_one_name_the_outer_one_is_imported() -> None:
    named = json.dumps({"name": "core"})
    texts = {
        "core/examples/a/package.json": named,
        "core/examples/a/index.js": "export const inner = 1;",
        "core/package.json": named,
        "core/index.js": "export const outer = 1;",
        "z/core/old/package.json": named,
        "z/core/old/index.js": "export const old = 1;",
        "app.js": "import 'core';",
    }
    assert targets(texts, "imports", "app.js:") == {"core/index.js:"}


def test_an_edit_of_an_alias_redoes_what_asked_for_it() -> None:
    kept = Kept()
    kept.update({**ROOMS, "packages/app/src/main.ts": "import '~/parts';"})
    changed = {**ROOMS, "packages/app/src/main.ts": "import '~/parts';", "tsconfig.base.json": "{}"}
    kept.update(changed)
    assert kept.edges == edges_of(changed)
    assert "packages/app/src/main.ts" in kept.resolved


def imported(texts: dict[str, str], path: str, module: str) -> set[str]:
    """The files that a name means; {"unresolved"} where calls of what is imported are."""
    whole = {**texts, path: f"import {{ f }} from '{module}';\nf();"}
    calls = {it for it in resolved(whole)[path].edges if it.kind == "calls"}
    (call,) = calls
    return {call.target_path or ("outside" if call.confidence else "unresolved")}


F = "export function f() {}"


def test_a_solution_refers_to_projects_of_which_the_nearest_counts() -> None:
    config = {
        "files": [],
        "references": [{"path": "./tsconfig.app.json"}, {"path": "./api/tsconfig.api.json"}, {}],
    }
    aliases = {"compilerOptions": {"paths": {"@/*": ["./src/*"]}}}
    texts = {
        "tsconfig.json": json.dumps(config),
        "tsconfig.app.json": json.dumps(aliases),
        "api/tsconfig.api.json": json.dumps(aliases),
        "src/a.ts": F, "api/src/a.ts": F, "src/b.ts": F,
    }  # fmt: skip
    assert imported(texts, "src/x.ts", "@/a") == {"src/a.ts"}
    assert imported(texts, "api/src/x.ts", "@/a") == {"api/src/a.ts"}
    assert imported(texts, "api/src/x.ts", "@/b") == {"src/b.ts"}


@pytest.mark.parametrize(
    "extends",
    ["@acme/tsconfig/base.json", "@acme/tsconfig/base", "@acme/tsconfig", "@acme/tsconfig/tsconfig.json"],
)
def test_a_tsconfig_extends_one_of_a_workspace_package(extends: str) -> None:
    base = json.dumps({"compilerOptions": {"paths": {"@kit/*": ["../../kit/src/*"]}}})
    texts = {
        "packages/tsconfig/package.json": '{"name": "@acme/tsconfig"}',
        "packages/tsconfig/base.json": base,
        "packages/tsconfig/tsconfig.json": base,
        "kit/src/a.ts": F,
        "app/tsconfig.json": json.dumps({"extends": extends}),
    }
    assert imported(texts, "app/x.ts", "@kit/a") == {"kit/src/a.ts"}


VITE = """
import path, { resolve } from 'node:path'
const root = path.resolve(__dirname, 'src')
export default defineConfig({ resolve: { alias: %s } })
"""


@pytest.mark.parametrize(
    "alias",
    [
        "{ '@': path.resolve(__dirname, 'src') }",
        "{ '@': resolve(__dirname, './src/') }",
        "{ '@/': `${root}/` }",
        "{ '@': root }",
        "{ '@': '/src' }",
        "{ '@': fileURLToPath(new URL('./src', import.meta.url)) }",
        "{ '@': new URL('./src', import.meta.url).pathname }",
        "[{ find: '@', replacement: root }]",
        "[{ find: /^@\\//, replacement: root + '/' }]",
        "[{ find: /^@\\/(.*)$/, replacement: path.join(root, '$1') }]",
        "{ '@': path.join(path.dirname(fileURLToPath(import.meta.url)), 'src') }",
    ],
)
def test_an_alias_of_vite_leads_to_files_or_is_unresolved(alias: str) -> None:
    texts = {"web/vite.config.ts": VITE % alias, "web/src/lib/a.ts": F}
    assert imported(texts, "web/src/x.ts", "@/lib/a") == {"web/src/lib/a.ts"}
    assert imported(texts, "web/src/x.ts", "@/lib/gone") == {"unresolved"}
    assert imported(texts, "web/src/x.ts", "@acme/a") == {"outside"}
    assert imported(texts, "x.ts", "@/lib/a") == {"outside"}  # the configuration does not lie around it


@pytest.mark.parametrize(
    "alias", ["{ vue: 'vue/dist/vue.js' }", "{ vue: require.resolve('vue') }", "{ ...other }"]
)
def test_an_alias_of_vite_for_a_package_lies_outside(alias: str) -> None:
    assert imported({"vite.config.mjs": VITE % alias}, "x.ts", "vue") == {"outside"}


def test_frameworks_have_aliases_of_their_own() -> None:
    texts = {
        "web/nuxt.config.ts": "export default defineNuxtConfig({ srcDir: 'client' })",
        "web/client/a.ts": F, "web/b.ts": F, "web/app/c.ts": F, "web/shared/d.ts": F,
        "kit/svelte.config.js": "export default { kit: { alias: { $p: 'src/parts', '$x/*': 'src/x/*' } } }",
        "kit/src/lib/index.ts": F, "kit/src/lib/a.ts": F, "kit/src/parts/b.ts": F, "kit/src/x/c.ts": F,
    }  # fmt: skip
    names = ["~/a", "@/b", "~/c", "~~/b", "#shared/d", "~/gone", "#app"]
    assert [imported(texts, "web/client/x.ts", name) for name in names] == [
        {"web/client/a.ts"}, {"web/b.ts"}, {"web/app/c.ts"}, {"web/b.ts"}, {"web/shared/d.ts"},
        {"unresolved"}, {"outside"},
    ]  # fmt: skip
    names = ["$lib", "$lib/a", "$p/b", "$x/c", "$lib/gone", "$app/stores"]
    assert [imported(texts, "kit/src/routes/x.ts", name) for name in names] == [
        {"kit/src/lib/index.ts"}, {"kit/src/lib/a.ts"}, {"kit/src/parts/b.ts"}, {"kit/src/x/c.ts"},
        {"unresolved"}, {"outside"},
    ]  # fmt: skip


def test_a_catch_all_of_a_tsconfig_leaves_packages_outside() -> None:
    paths = {"*": ["./types/*"], "old": ["./node_modules/new"]}
    texts = {"tsconfig.json": json.dumps({"compilerOptions": {"paths": paths}})}
    assert imported(texts, "x.ts", "react") == imported(texts, "x.ts", "old") == {"outside"}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("vite.config.ts", VITE % "{ '@': root + '/lib' }"),
        ("vite.config.ts", VITE % "{ '#': root }"),
        ("vite.config.ts", None),
        ("nuxt.config.ts", "export default {}"),
        ("tsconfig.json", '{"references": [{"path": "./tsconfig.app.json"}]}'),
        ("tsconfig.json", '{"extends": "acme/base"}'),
        ("src/lib/a.ts", None),
        ("src/a.ts", F),
    ],
)
def test_an_edit_of_what_names_lead_by_is_seen(path: str, text: str | None) -> None:
    texts = {
        "vite.config.ts": VITE % "{ '@': root }", "src/lib/a.ts": F,
        "src/x.ts": "import { f } from '@/lib/a'\nf()",
        "tsconfig.app.json": '{"compilerOptions": {"paths": {"@/lib/*": ["./src/*"]}}}',
        "tsconfig/package.json": '{"name": "acme"}',
        "tsconfig/base.json": '{"compilerOptions": {"paths": {"@/lib/*": ["../src/*"]}}}',
    }  # fmt: skip
    kept = Kept()
    kept.update(texts)
    changed = {key: value for key, value in {**texts, path: text}.items() if value is not None}
    kept.update(changed)
    assert kept.edges == edges_of(changed)


SHARED = {
    "app/tsconfig.json": "{}",
    "app/js/types.d.ts": "declare module '*.vue'\ninterface Song { artist: Artist }\n"
    "interface Artist { play(): Song }\n",
    "app/js/window.ts": "import x from 'x'\nexport const y = x\ninterface Own {}\n"
    "declare global { interface Window { song: Song } }\n",
    "app/js/lib.d.ts": "import x from 'x'\ninterface Hidden {}\n",
    "app/js/play.ts": "export const play = (song: Song) => song.artist.play()\n"
    "let w: Window, h: Hidden, o: Own\n",
    "app/js/Card.vue": "<script setup lang='ts'>\nconst props = defineProps<{ song: Song }>()\n</script>\n",
    "app/js/own.ts": "import { Song } from './other'\ninterface Artist {}\nlet s: Song, a: Artist\n",
    "app/js/other.ts": "export interface Song {}\n",
    "app/tests/tsconfig.json": "{}",
    "app/tests/a.ts": "let s: Song",
    "web/a.ts": "let s: Song",
}


def _named_types(path: str) -> set[str]:
    edges = resolved(SHARED)[path].edges
    return {
        f"{it.target_path}:{it.target}"
        for it in edges
        if it.kind in ("references", "calls") and it.target_path
    }


def test_what_a_file_declares_for_all_needs_no_import() -> None:
    types = "app/js/types.d.ts:"
    assert _named_types("app/js/play.ts") == {
        f"{types}Song", f"{types}Song.artist", f"{types}Artist.play", "app/js/window.ts:Window"
    }  # fmt: skip
    assert {f"{types}Song"} <= _named_types("app/js/Card.vue")
    assert all(it.confidence == 1.0 for it in resolved(SHARED)["app/tests/a.ts"].edges if it.target == "Song")


def test_what_a_file_declares_for_all_holds_in_its_project_where_nothing_nearer_has_the_name() -> None:
    assert _named_types("app/js/own.ts") == {"app/js/other.ts:Song", "app/js/own.ts:Artist"}
    assert _named_types("app/tests/a.ts") == {"app/js/types.d.ts:Song"}
    assert not _named_types("web/a.ts")


def test_a_file_that_declares_no_longer_for_all_is_asked_again() -> None:
    kept = Kept()
    kept.update(SHARED)
    module = {**SHARED, "app/js/types.d.ts": SHARED["app/js/types.d.ts"] + "export {}\n"}
    kept.update(module)
    assert kept.edges == edges_of(module)
