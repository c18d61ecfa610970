"""Which files the names of modules lead to in JavaScript and TypeScript, and full names."""

from __future__ import annotations

import json

import pytest

from knowledge_pipeline.code_graph import full_name
from knowledge_pipeline_tests.code_graph.files import Files, Kept, edges_of, targets

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
