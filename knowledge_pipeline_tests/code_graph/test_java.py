"""Java's names lead to the definitions that its specification says."""

from __future__ import annotations

from knowledge_pipeline.code_graph import full_name
from knowledge_pipeline_tests.code_graph.files import Files, Kept, edges_of, targets

SHOP = {
    "src/com/acme/store/Store.java": """package com.acme.store;
import com.acme.model.*;
import java.util.*;
public class Store extends Base<Item> implements Shelf {
    public static final int MOST = 3;
    private final Map<String, List<Item>> rows = new HashMap<>();
    Item first;
    public Store(int size) { super(size); }
    public Store() { this(MOST); }
    public Item get(String key) {
        Item item = item();
        item.weigh();
        for (var each : rows.get(key)) { each.weigh(); }
        for (Item each : rows.get(key)) each.name();
        return this.first;
    }
    public Item item() { return first; }
    public String item(int place) { return log("x"); }
    class Cursor { Item next() { return get("a").self().weigh(); } void end() { Store.this.close(); } }
    enum Mode {
        FAST { int speed() { return fastest(); } }, SLOW;
        int speed() { return 1; }
        static int fastest() { return 2; }
    }
}
""",
    "src/com/acme/store/Base.java": """package com.acme.store;
abstract class Base<T> {
    int size;
    Base(int size) { this.size = size; }
    protected String log(String text) { return text; }
    void close() {}
}
""",
    "src/com/acme/store/Shelf.java": "package com.acme.store;\ninterface Shelf { default void tidy() {} }\n",
    "src/com/acme/model/Item.java": """package com.acme.model;
public record Item(Weight weight, String label) {
    public Item weigh() { weight.kilos(); weight().kilos(); return this; }
    public Item self() { return this; }
    String name() { return label(); }
    @interface Mark { String value() default ""; }
}
""",
    "src/com/acme/model/Weight.java": "package com.acme.model;\nclass Weight { int kilos() { return 1; } }\n",
    "app/com/acme/Main.java": """package com.acme;
import static com.acme.store.Store.MOST;
import static com.acme.Tools.*;
import com.acme.store.Store;
import com.acme.store.Store.Cursor;
import com.acme.model.Item;
import java.util.function.Supplier;
class Main {
    @Item.Mark("x") void run(Object given, Supplier<Store> shops) {
        var store = new Store(MOST);
        store.get("a").weigh().self();
        store.tidy();
        Cursor cursor = store.new Cursor();
        cursor.next();
        if (given instanceof Item item) { item.self(); }
        ((Store) given).item();
        shops.get().item(1);
        help();
        com.acme.Tools.help();
        List.of(store).forEach(each -> each.close());
        given.hashCode();
    }
    Supplier<Item> later(Store store) { return store::item; }
    Runnable made() { return new Runnable() { public void run() { help(); } }; }
}
""",
    "app/com/acme/Tools.java": "package com.acme;\nclass Tools { static void help() {} }\n",
}

STORE, MAIN, ITEM = "src/com/acme/store/Store.java", "app/com/acme/Main.java", "src/com/acme/model/Item.java"
BASE, WEIGHT, TOOLS = (
    "src/com/acme/store/Base.java",
    "src/com/acme/model/Weight.java",
    "app/com/acme/Tools.java",
)


def test_a_chain_of_calls_follows_declared_results() -> None:
    found = targets(SHOP, "calls", f"{MAIN}:Main.run")
    assert {f"{STORE}:Store.get", f"{ITEM}:Item.weigh", f"{ITEM}:Item.self"} <= found


def test_calls_lead_to_overloads_inherited_members_and_those_of_what_a_generic_type_holds() -> None:
    found = targets(SHOP, "calls", f"{MAIN}:Main.run")
    assert found == {
        f"{STORE}:Store", f"{STORE}:Store.get", f"{ITEM}:Item.weigh", f"{ITEM}:Item.self",
        "src/com/acme/store/Shelf.java:Shelf.tidy", f"{STORE}:Store.Cursor", f"{STORE}:Store.Cursor.next",
        f"{STORE}:Store.item", f"{TOOLS}:Tools.help", "java.util.function.Supplier.get",
    }  # fmt: skip


def test_a_method_is_found_where_a_variable_has_its_name() -> None:
    found = targets(SHOP, "calls", f"{STORE}:Store.get")
    assert f"{STORE}:Store.item" in found
    assert f"{ITEM}:Item.weigh" in found
    assert f"{ITEM}:Item.name" in found


def test_a_nested_class_calls_members_of_those_around_it_and_of_their_bases() -> None:
    assert f"{STORE}:Store.get" in targets(SHOP, "calls", f"{STORE}:Store.Cursor.next")
    assert targets(SHOP, "calls", f"{STORE}:Store.Cursor.end") == {f"{BASE}:Base.close"}
    assert targets(SHOP, "calls", f"{STORE}:Store.item") == {f"{BASE}:Base.log"}
    assert targets(SHOP, "calls", f"{STORE}:Store.Mode.speed") == {f"{STORE}:Store.Mode.fastest"}


def test_constructors_call_those_of_their_class_and_of_its_base() -> None:
    assert targets(SHOP, "calls", f"{STORE}:Store.Store") == {f"{BASE}:Base", f"{STORE}:Store"}


def test_a_component_of_a_record_is_a_field_and_a_method() -> None:
    assert targets(SHOP, "calls", f"{ITEM}:Item.weigh") == {f"{WEIGHT}:Weight.kilos", f"{ITEM}:Item.weight"}
    assert targets(SHOP, "references", f"{ITEM}:Item.weigh") == {f"{ITEM}:Item.weight", f"{ITEM}:Item"}


def test_bases_are_extended_or_implemented() -> None:
    assert targets(SHOP, "extends", f"{STORE}:Store") == {f"{BASE}:Base"}
    assert targets(SHOP, "implements", f"{STORE}:Store") == {"src/com/acme/store/Shelf.java:Shelf"}


def test_imports_lead_to_types_members_and_types_within_types() -> None:
    assert targets(SHOP, "imports", f"{MAIN}:") == {
        f"{STORE}:Store.MOST", f"{TOOLS}:Tools", f"{STORE}:Store", f"{STORE}:Store.Cursor", f"{ITEM}:Item",
        "java.util.function.Supplier",
    }  # fmt: skip


def test_annotations_method_references_and_fields_are_referred_to() -> None:
    assert f"{ITEM}:Item.Mark" in targets(SHOP, "references", f"{MAIN}:Main")
    assert f"{STORE}:Store.item" in targets(SHOP, "references", f"{MAIN}:Main.later")
    assert f"{STORE}:Store.first" in targets(SHOP, "references", f"{STORE}:Store.get")
    assert f"{STORE}:Store.MOST" in targets(SHOP, "references", f"{MAIN}:Main.run")


def test_a_full_name_is_package_type_and_member() -> None:
    files = Files(SHOP)
    assert full_name(STORE, "Store.Cursor.next", files) == "com.acme.store.Store.Cursor.next"
    assert full_name(STORE, "", files) == "com.acme.store"


def test_what_two_packages_define_under_one_name_is_told_apart() -> None:
    texts = {
        "a/X.java": "package a;\nclass X { void go() {} }\n",
        "b/X.java": "package b;\nclass X { void go() {} }\n",
        "b/Y.java": """package b;
class Y { void at(X x, a.X other) { x.go(); other.go(); } void in(a.X x) { x.go(); } }
""",
    }
    assert targets(texts, "calls", "b/Y.java:Y.in") == {"a/X.java:X.go"}
    assert targets(texts, "calls", "b/Y.java:Y.at") == {"a/X.java:X.go", "b/X.java:X.go"}


def test_a_new_type_in_the_package_changes_what_a_name_means() -> None:
    texts = {
        "a/X.java": "package a;\npublic class X { public void go() {} }\n",
        "b/Y.java": "package b;\nimport a.*;\nclass Y { void at(X x) { x.go(); } }\n",
        "c/Z.java": "package c;\nclass Z { }\n",
    }
    kept = Kept()
    kept.update(texts)
    assert targets(texts, "calls", "b/Y.java:Y.at") == {"a/X.java:X.go"}
    moved = texts | {"a/X.java": texts["a/X.java"].replace("package a", "package d")}
    kept.update(moved)
    assert kept.edges == edges_of(moved)
    assert "c/Z.java" not in kept.resolved
