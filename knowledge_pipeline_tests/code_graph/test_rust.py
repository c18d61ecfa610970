"""Rust's names lead to the definitions that its reference says."""

from __future__ import annotations

from knowledge_pipeline.code_graph import full_name, resolve
from knowledge_pipeline_tests.code_graph.files import Files, Kept, edges_of, targets

SHOP = {
    "shop/Cargo.toml": '[package]\nname = "shop-core"\nversion = "0.1.0"\n',
    "shop/src/lib.rs": """pub mod model;
mod store;
#[macro_use]
mod macros;
pub use crate::store::{Store, open as open_store};
pub use model::*;

pub fn start() -> Store {
    let mut store = Store::new();
    store.put(Item { weight: 1 });
    shout!(store.get(1));
    store
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts() {
        assert_eq!(start().count(), 1);
        self::fixture();
        super::start();
    }

    fn fixture() -> Item { Item { weight: 2 } }
}
""",
    "shop/src/macros.rs": "macro_rules! shout { ($x:expr) => { $x }; }\n",
    "shop/src/model.rs": """use std::fmt;

pub trait Weighed {
    fn weight(&self) -> u32;
    fn double(&self) -> u32 { self.weight() * 2 }
}

pub trait Labelled: Weighed + fmt::Display {}

pub struct Item { pub weight: u32 }

impl Item {
    pub fn heavier(self, by: u32) -> Self { Self { weight: self.weight + by } }
}

impl Weighed for Item {
    fn weight(&self) -> u32 { self.weight }
}

pub enum Mode { Fast, Slow(Item) }

impl Mode {
    pub fn name(&self) -> &str { "" }
}
""",
    "shop/src/store/mod.rs": """mod extra;
use super::model::{Item, Mode, Weighed as Heavy};
use std::collections::HashMap;

pub type Rows = Vec<Item>;

pub struct Store { rows: Vec<Item>, by_key: HashMap<u32, Box<Item>>, mode: Mode }

impl Store {
    pub fn new() -> Self { Store { rows: Vec::new(), by_key: HashMap::new(), mode: Mode::Fast } }
    pub fn put(&mut self, item: Item) -> Option<&Item> {
        self.rows.push(item);
        self.rows.last()
    }
    pub fn get(&self, key: u32) -> Result<&Item, String> {
        for row in self.rows.iter() { row.double(); }
        if let Some(found) = self.by_key.get(&key) { found.double(); }
        self.mode.name();
        let all: Vec<u32> = self.rows.iter().map(|one| one.weight()).collect();
        self.find(key).ok_or(String::new())
    }
}

pub fn open<T: Heavy>(of: &T) -> Result<Store, String> {
    of.double();
    Ok(Store::new())
}
""",
    "shop/src/store/extra.rs": """use crate::model::Item;
use super::Store;

impl Store {
    pub fn find(&self, key: u32) -> Option<&Item> { None }
    pub fn count(&self) -> usize { 0 }
}
""",
    "app/Cargo.toml": '[package]\nname = "app"\n\n[dependencies]\nshop-core = { path = "../shop" }\n',
    "app/src/main.rs": """use shop_core::{open_store, Item, Mode::{self, Slow}};
use serde_json::Value;

fn main() -> Result<(), String> {
    let item = Item { weight: 1 };
    let store = open_store(&item)?;
    let found = store.get(1)?;
    found.double();
    shop_core::start().find(2).unwrap().weight();
    match Slow(item.heavier(1)) {
        Mode::Slow(each) => run(each),
        other => { other.name(); }
    }
    let value: Value = serde_json::from_str("1").unwrap();
    undefined_function();
    Ok(())
}

fn run(item: Item) { item.heavier(2).heavier(3); }
""",
}
LIB, MODEL, STORE, EXTRA = (f"shop/src/{each}.rs" for each in ("lib", "model", "store/mod", "store/extra"))


def test_calls_go_through_crates_reexports_results_and_impls_of_other_files() -> None:
    assert targets(SHOP, "calls", "app/src/main.rs:main") >= {
        f"{STORE}:open", f"{STORE}:Store.get", f"{MODEL}:Weighed.double", f"{LIB}:start",
        f"{EXTRA}:Store.find", f"{MODEL}:Item.weight", f"{MODEL}:Item.heavier", f"{MODEL}:Mode.Slow",
        f"{MODEL}:Mode.name", "app/src/main.rs:run", "undefined_function", "serde_json::from_str",
    }  # fmt: skip


def test_fields_loops_closures_and_self_are_of_their_types() -> None:
    assert targets(SHOP, "calls", f"{STORE}:Store.get") >= {
        f"{MODEL}:Weighed.double", f"{MODEL}:Mode.name", f"{EXTRA}:Store.find",
    }  # fmt: skip
    assert f"{MODEL}:Item.weight" in targets(SHOP, "calls", f"{STORE}:Store.get") | targets(
        SHOP, "calls", "app/src/main.rs:main"
    )
    assert targets(SHOP, "calls", f"{MODEL}:Weighed.double") == {f"{MODEL}:Weighed.weight"}
    assert targets(SHOP, "calls", f"{STORE}:open") >= {f"{MODEL}:Weighed.double", f"{STORE}:Store.new"}


def test_traits_are_implemented_and_extended() -> None:
    assert targets(SHOP, "implements", f"{MODEL}:Item") == {f"{MODEL}:Weighed"}
    assert targets(SHOP, "extends", f"{MODEL}:Labelled") == {f"{MODEL}:Weighed", "std::fmt::Display"}


def test_imports_lead_to_files_and_to_what_is_named() -> None:
    assert targets(SHOP, "imports", "app/src/main.rs:") >= {
        f"{LIB}:", f"{STORE}:open", f"{MODEL}:Item", f"{MODEL}:Mode", "serde_json::Value",
    }  # fmt: skip
    assert targets(SHOP, "imports", f"{LIB}:") >= {f"{MODEL}:", f"{STORE}:", f"{STORE}:Store"}
    assert targets(SHOP, "imports", f"{EXTRA}:") == {
        f"{MODEL}:", f"{MODEL}:Item", f"{STORE}:", f"{STORE}:Store",
    }  # fmt: skip


def test_modules_within_a_file_and_arguments_of_macros_are_read() -> None:
    found = targets(SHOP, "calls", f"{LIB}:tests.starts")
    assert found == {f"{LIB}:start", f"{EXTRA}:Store.count", f"{LIB}:tests.fixture"}
    assert "shop/src/macros.rs:shout" in targets(SHOP, "references", f"{LIB}:start")
    assert f"{STORE}:Store.get" in targets(SHOP, "calls", f"{LIB}:start")


def test_a_full_name_starts_with_the_crate() -> None:
    files = Files(SHOP)
    assert full_name(EXTRA, "Store.find", files) == "shop_core::store::extra::Store::find"
    assert full_name(LIB, "", files) == "shop_core"
    aliases = {each.full_name for each in resolve(LIB, files).aliases}
    assert aliases >= {"shop_core::Store", "shop_core::open_store", "shop_core::Item"}


def test_an_impl_belongs_to_the_type_that_its_file_means() -> None:
    texts = {
        "Cargo.toml": '[package]\nname = "two"\n',
        "src/lib.rs": "mod a;\nmod b;\nmod more;\n",
        "src/a.rs": "pub struct Error;\npub fn f(e: Error) { e.explain() }\n",
        "src/b.rs": "pub struct Error;\nimpl Error { pub fn explain(&self) {} }\n",
        "src/more.rs": "use crate::a::Error;\nimpl Error { pub fn explain(&self) {} }\n",
    }
    assert targets(texts, "calls", "src/a.rs:f") == {"src/more.rs:Error.explain"}


def test_an_edit_redoes_what_depends_on_it_and_gives_the_edges_of_a_full_run() -> None:
    kept = Kept()
    kept.update(SHOP)
    after = SHOP | {EXTRA: SHOP[EXTRA].replace("Option<&Item>", "Option<u32>")}
    kept.update(after)
    assert kept.edges == edges_of(after)
    kept.update(SHOP)
    kept.update(SHOP | {MODEL: SHOP[MODEL].replace("* 2", "* 3")})
    assert kept.resolved == [MODEL] or kept.resolved == []


CRATES = {
    "Cargo.toml": '[workspace]\nmembers = ["core", "app"]\n[workspace.dependencies]\n'
    'base = { package = "real-core", path = "core" }\n',
    "core/Cargo.toml": '[package]\nname = "real-core"\n',
    "core/src/lib.rs": "mod macros;\nmod store;\npub mod prelude {\n    pub use crate::store::*;\n"
    "    pub use super::store::Item as Thing;\n}\n",
    "core/src/store.rs": "pub struct Store;\nimpl Store { pub fn open(&self) {} }\npub struct Item;\n"
    "impl Item { pub fn weigh(&self) {} }\n",
    "core/src/macros.rs": "#[macro_export]\nmacro_rules! shout { () => {}; }\n"
    "macro_rules! own { () => {}; }\n",
    "app/Cargo.toml": '[package]\nname = "app"\n[dependencies]\nbase.workspace = true\n'
    '[target."cfg(unix)".dependencies]\nother = { package = "real-core", path = "../core" }\n',
    "app/src/main.rs": "use base::prelude::*;\nuse other::shout;\n"
    "fn run(s: Store, t: Thing) {\n    s.open();\n    t.weigh();\n"
    "    shout!();\n    base::own!();\n}\nfn more() { base::shout!(); }\n",
}


def test_preludes_exported_macros_and_renamed_crates_lead_to_definitions() -> None:
    assert targets(CRATES, "calls", "app/src/main.rs:run") == {
        "core/src/store.rs:Store.open", "core/src/store.rs:Item.weigh",
    }  # fmt: skip
    for name in ("run", "more"):
        found = targets(CRATES, "references", f"app/src/main.rs:{name}")
        assert "core/src/macros.rs:shout" in found and "core/src/macros.rs:own" not in found
    aliases = {alias.full_name for alias in resolve("core/src/lib.rs", Files(CRATES)).aliases}
    assert "real_core::prelude::Thing" in aliases


def test_edits_of_manifests_and_preludes_leave_what_a_full_run_gives() -> None:
    kept, texts = Kept(), CRATES
    kept.update(texts)
    edits = {
        "Cargo.toml": "[workspace]\n",
        "core/src/lib.rs": CRATES["core/src/lib.rs"].replace("Item as Thing", "Store as Thing"),
        "app/Cargo.toml": '[package]\nname = "app"\n[dependencies]\nbase = { package = "real-core" }\n',
        "core/src/macros.rs": "macro_rules! shout { () => {}; }\n",
        "core/Cargo.toml": '[package]\nname = "base"\n',
    }
    for path, text in edits.items():
        texts = texts | {path: text}
        kept.update(texts)
        assert kept.edges == edges_of(texts)


PLACED = {
    "app/Cargo.toml": '[package]\nname = "app"\n',
    "app/src/main.rs": "mod screen;\nmod api;\n",
    "app/src/screen.rs": "pub struct Screen;\nimpl Screen { pub fn draw(&self) {} }\n"
    '#[path = "./unit/screen_tests.rs"]\n#[cfg(test)]\npub(crate) mod tests;\n'
    '// #[path = "a.rs"]\nmod other;\n',
    "app/src/unit/screen_tests.rs": "use super::Screen;\nuse crate::api::made::event::Event;\n"
    "fn check(s: Screen, e: Event) {\n    s.draw();\n    e.send();\n}\n",
    "app/src/api.rs": "pub mod made {\n"
    '    include!(concat!(env!("CARGO_MANIFEST_DIR"), "/assets/made.rs"));\n}\n',
    "app/assets/made.rs": 'pub mod event { include!("event.rs"); }\ninclude!("gone.rs");\n',
    "app/assets/event.rs": "pub struct Event;\nimpl Event { pub fn send(&self) {} }\n",
}


def test_modules_with_a_path_and_included_files_are_where_they_are_named() -> None:
    tests = "app/src/unit/screen_tests.rs"
    assert targets(PLACED, "calls", f"{tests}:check") == {
        "app/src/screen.rs:Screen.draw", "app/assets/event.rs:Event.send",
    }  # fmt: skip
    assert full_name(tests, "check", Files(PLACED)) == "app::screen::tests::check"
    assert f"{tests}:" in targets(PLACED, "imports", "app/src/screen.rs:")


def test_a_module_whose_path_changes_is_resolved_as_in_a_full_run() -> None:
    kept = Kept()
    kept.update(PLACED)
    moved = PLACED | {"app/src/screen.rs": PLACED["app/src/screen.rs"].replace("./unit/", "./other/")}
    kept.update(moved)
    assert kept.edges == edges_of(moved)
