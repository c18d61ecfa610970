"""Go's names lead to the definitions that its specification says."""

from __future__ import annotations

from knowledge_pipeline.code_graph import full_name
from knowledge_pipeline_tests.code_graph.files import Files, Kept, edges_of, targets

APP = {
    "go.mod": "module example.com/app // shop\n\ngo 1.21\n",
    "store/store.go": """package store

import (
 "fmt"
 m "example.com/app/model"
)

type Store struct {
 Base
 *m.Tagged
 rows  map[string][]*m.Item
 index func(string) (*m.Item, error)
 Mode  Mode
}

type Base struct{ size int }

type Mode int

const (
 Fast Mode = iota
 Slow
)

type Rows []*m.Item

type Shelf interface {
 fmt.Stringer
 Sized
 Take(n int) Rows
}

type Sized interface{ Size() int }

func New(items ...*m.Item) (*Store, error) { return &Store{rows: nil, Mode: Slow}, nil }
""",
    "store/methods.go": """package store

import "example.com/app/model"

func (b *Base) Close() error { return nil }
func (m Mode) String() string { return "" }
func (s *Store) Get(key string) *model.Item {
 for _, row := range s.rows[key] {
  row.Weigh()
 }
 if found, err := s.index(key); err == nil {
  found.Weigh()
 }
 s.Mode.String()
 return s.rows[key][0]
}
func (s *Store) All() Rows { return nil }
func (r Rows) First() *model.Item { r[0].Weigh(); return r[0] }
func helper() {}
""",
    "store/store_test.go": "package store\n\nfunc fixture() *Store { helper(); return nil }\n",
    "model/item.go": """package model

type Item struct{ Weight Weight }
type Weight struct{ kilos int }
type Tagged struct{ tags []string }

func (i *Item) Weigh() *Item { i.Weight.Kilos(); return i }
func (w Weight) Kilos() int { return w.kilos }
func (t *Tagged) Tag(name string) *Tagged { return t }
func Parse(text string) (Item, error) { return Item{Weight: Weight{}}, nil }
""",
    "cmd/main.go": """package main

import (
 "net/url"

 . "example.com/app/model"
 "example.com/app/store"
)

type Handler func(s *store.Store) *Item

func main() {
 shop, err := store.New()
 shop.Get("a").Weigh().Weigh()
 shop.Tag("x").Tag("y")
 shop.Close()
 shop.Base.Close()
 url, err := url.Parse("x")
 url.String()
 item, _ := Parse("x")
 item.Weigh()
 mode := store.Mode(1)
 mode.String()
 shop.All().First()
 all := append([]*Item{}, new(Item))
 all[0].Weigh()
 channel := make(chan *store.Store)
 (<-channel).Close()
 var handler Handler
 handler(shop).Weigh()
 get := shop.Get
 switch each := any(item).(type) {
 case *store.Base:
  each.Close()
 }
 run(get, err, func() { helper() })
}

func helper() {}
""",
}

STORE, METHODS, ITEM = "store/store.go", "store/methods.go", "model/item.go"


def test_methods_lie_in_any_file_of_the_package_and_are_had_from_what_is_embedded() -> None:
    found = targets(APP, "calls", "cmd/main.go:main")
    assert found >= {
        f"{STORE}:New", f"{METHODS}:Store.Get", f"{ITEM}:Item.Weigh", f"{ITEM}:Tagged.Tag",
        f"{METHODS}:Base.Close", f"{METHODS}:Mode.String", f"{METHODS}:Store.All", f"{METHODS}:Rows.First",
        f"{ITEM}:Parse", "cmd/main.go:helper", "net/url.Parse",
    }  # fmt: skip
    assert f"{STORE}:Mode" not in found  # a conversion is no call
    assert f"{STORE}:Mode" in targets(APP, "references", "cmd/main.go:main")


def test_loops_results_and_fields_are_of_their_declared_types() -> None:
    assert targets(APP, "calls", f"{METHODS}:Store.Get") == {
        f"{ITEM}:Item.Weigh", f"{STORE}:Store.index", f"{METHODS}:Mode.String",
    }  # fmt: skip
    assert targets(APP, "calls", f"{METHODS}:Rows.First") == {f"{ITEM}:Item.Weigh"}
    assert targets(APP, "calls", f"{ITEM}:Item.Weigh") == {f"{ITEM}:Weight.Kilos"}


def test_what_is_embedded_is_extended() -> None:
    assert targets(APP, "extends", f"{STORE}:Store") == {f"{STORE}:Base", f"{ITEM}:Tagged"}
    assert targets(APP, "extends", f"{STORE}:Shelf") == {f"{STORE}:Sized", "fmt.Stringer"}


def test_an_import_leads_to_the_file_that_stands_for_the_package() -> None:
    assert targets(APP, "imports", "cmd/main.go:") == {f"{STORE}:", f"{ITEM}:", "net/url"}


def test_keys_of_a_literal_are_fields_and_constants_go_on_with_their_type() -> None:
    found = targets(APP, "references", f"{STORE}:New")
    assert found >= {f"{STORE}:Store.rows", f"{STORE}:Store.Mode", f"{STORE}:Slow", f"{STORE}:Store"}
    text = "package a\ntype T int\nconst (\n\tA T = iota\n\tB\n)\nfunc (t T) M() {}\nfunc f() { B.M() }\n"
    assert targets({"a.go": text}, "calls", "a.go:f") == {"a.go:T.M"}


def test_names_of_tests_are_seen_in_tests_alone() -> None:
    assert targets(APP, "calls", "store/store_test.go:fixture") == {f"{METHODS}:helper"}
    texts = APP | {"store/more.go": "package store\n\nfunc more() { fixture() }\n"}
    assert targets(texts, "calls", "store/more.go:more") == {"fixture"}


def test_a_full_name_is_the_import_path_and_the_symbol() -> None:
    files = Files(APP)
    assert full_name(METHODS, "Store.Get", files) == "example.com/app/store.Store.Get"
    assert full_name("cmd/main.go", "", files) == "example.com/app/cmd"
    assert full_name("a/b.go", "F", Files({"a/b.go": "package a\nfunc F() {}\n"})) == "a.F"


def test_a_module_within_another_and_a_vendored_package_are_found() -> None:
    texts = {
        "go.mod": "module example.com/app\n",
        "tools/go.mod": "module example.com/app/tools\n",
        "tools/lint/lint.go": "package lint\nfunc Run() {}\n",
        "vendor/github.com/x/y/y.go": "package y\nfunc Do() {}\n",
        "main.go": 'package main\nimport (\n"example.com/app/tools/lint"\n"github.com/x/y"\n)\n'
        "func main() { lint.Run(); y.Do() }\n",
    }
    assert targets(texts, "calls", "main.go:main") == {
        "tools/lint/lint.go:Run", "vendor/github.com/x/y/y.go:Do",
    }  # fmt: skip


def test_an_edit_of_a_method_redoes_those_who_call_it_and_no_others() -> None:
    kept = Kept()
    kept.update(APP)
    text = APP[METHODS].replace("func (s *Store) All() Rows", "func (s *Store) All() *model.Item")
    after = APP | {METHODS: text}
    kept.update(after)
    assert kept.edges == edges_of(after)
    assert set(kept.resolved) == {METHODS, "cmd/main.go"}
    body = APP | {METHODS: APP[METHODS].replace("row.Weigh()", "row.Weigh().Weigh()")}
    kept.update(APP)
    kept.update(body)
    assert kept.resolved == [METHODS]


def test_what_is_converted_to_a_slice_holds_what_the_slice_does() -> None:
    texts = {
        "a.go": "package a\ntype Other struct{}\nfunc (o *Other) Put() {}\ntype Row struct{}\n"
        "func (r *Row) Put() {}\nfunc f(given any) { for _, each := range []*Row(given) { each.Put() } }\n"
    }
    assert targets(texts, "calls", "a.go:f") == {"a.go:Row.Put"}
