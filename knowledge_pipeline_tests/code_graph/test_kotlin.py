"""Kotlin's names lead to the definitions that its specification says: small projects with known edges."""

from __future__ import annotations

from knowledge_pipeline.code_graph import full_name
from knowledge_pipeline_tests.code_graph.files import Files, targets

STORE, MODEL, MAIN, TOOLS, OLD = (
    "shop/Store.kt",
    "model/Model.kt",
    "Main.kt",
    "tools/Tools.kt",
    "old/Old.java",
)
SHOP = {
    STORE: """package com.acme.shop

import com.acme.model.*
import com.acme.model.Weight as W

open class Base(val size: Int) {
    open fun close() {}
}

interface Shelf<T> {
    fun tidy()
}

class Store(size: Int, private val first: Item) : Base(size), Shelf<Item> {
    private val rows = mutableMapOf<String, List<Item>>()
    val spare by lazy { Item(W()) }
    val best: Item
        get() = spare.weigh()
    constructor() : this(MOST, Item(W()))
    fun get(key: String): Item? {
        val item = rows[key]?.first() ?: return null
        for (each in rows.values) {
            each.forEach { it.weigh() }
        }
        first.let { one -> one.self() }
        best.self()
        return item.weigh()
    }
    fun find(given: Any): Item {
        if (given is Special) {
            given.only()
        }
        when (given) {
            is Shelf<*> -> given.tidy()
        }
        val find = find(given)
        super.close()
        return (given as Item).also { println(it) }
    }
    inner class Cursor {
        fun next() = get("a")
        fun all() = this@Store.spare
    }
    companion object {
        const val MOST = 3
        fun create(): Store = Store(MOST, Item(W()))
    }
}

object Registry {
    fun add(store: Store) {
        store.close()
    }
}
""",
    MODEL: """package com.acme.model

class Weight {
    fun kilos() = 1
}

open class Item(val weight: Weight) {
    fun weigh(): Item {
        weight.kilos()
        return this
    }
    fun self() = this
}

class Special(weight: Weight) : Item(weight) {
    fun only() {}
}

data class Two(val a: Item, val b: Weight)

enum class Mode(val item: Item) {
    FAST(Item(Weight())),
    SLOW(Item(Weight()));

    fun speed() = item.self()
}

typealias Goods = Item
""",
    TOOLS: """package com.acme.tools

import com.acme.model.Item

fun Item.heavy(): Boolean = weigh().self() === this

val Item.twice: Item
    get() = this.self()

fun helper() {}
""",
    MAIN: """package com.acme

import com.acme.model.Goods
import com.acme.model.Mode
import com.acme.model.Special
import com.acme.model.Two
import com.acme.old.Old
import com.acme.shop.Registry
import com.acme.shop.Store
import com.acme.tools.heavy
import com.acme.tools.twice

val shared: Store = Store.create()

fun main() {
    val store = Store.create()
    store.get("a")?.heavy()
    store.best.twice.weigh()
    store.Cursor().next()
    Registry.add(store)
    val (a, b) = Two(store.best, store.best.weight)
    a.self()
    b.kilos()
    Mode.FAST.speed()
    val goods: Goods = store.best
    goods.weigh()
    com.acme.tools.helper()
    Old().greet(store).tidy()
    val reference = Store::find
    shared.close()
}

fun listed(items: List<Special>) = items.filter { it.only() }.map { each -> each.self() }
""",
    OLD: """package com.acme.old;
import com.acme.shop.Store;
public class Old { public Store greet(Store store) { store.get("a").weigh(); return store; } }
""",
}


def test_members_lambdas_casts_and_elements_are_followed() -> None:
    assert targets(SHOP, "calls", f"{STORE}:Store.get") == {f"{MODEL}:Item.weigh", f"{MODEL}:Item.self"}
    assert targets(SHOP, "calls", f"{STORE}:Store.find") == {
        f"{MODEL}:Special.only", f"{STORE}:Shelf.tidy", f"{STORE}:Store.find", f"{STORE}:Base.close",
    }  # fmt: skip
    assert f"{STORE}:Store.best" in targets(SHOP, "references", f"{STORE}:Store.get")
    assert targets(SHOP, "calls", f"{STORE}:Store.best") == {f"{MODEL}:Item.weigh"}


def test_extensions_companions_objects_and_components_are_found() -> None:
    assert targets(SHOP, "calls", f"{MAIN}:main") == {
        f"{STORE}:Store.create", f"{STORE}:Store.get", f"{TOOLS}:heavy", f"{MODEL}:Item.weigh",
        f"{STORE}:Store.Cursor", f"{STORE}:Store.Cursor.next", f"{STORE}:Registry.add", f"{MODEL}:Two",
        f"{MODEL}:Item.self", f"{MODEL}:Weight.kilos", f"{MODEL}:Mode.speed", f"{TOOLS}:helper",
        f"{OLD}:Old", f"{OLD}:Old.greet", f"{STORE}:Shelf.tidy", f"{STORE}:Base.close",
    }  # fmt: skip
    assert {f"{TOOLS}:twice", f"{STORE}:Store.find"} <= targets(SHOP, "references", f"{MAIN}:main")


def test_an_extension_names_members_of_its_receiver() -> None:
    assert targets(SHOP, "calls", f"{TOOLS}:heavy") == {f"{MODEL}:Item.weigh", f"{MODEL}:Item.self"}
    assert targets(SHOP, "calls", f"{TOOLS}:twice") == {f"{MODEL}:Item.self"}


def test_what_lambdas_are_given_is_known() -> None:
    assert targets(SHOP, "calls", f"{MAIN}:listed") >= {f"{MODEL}:Special.only", f"{MODEL}:Item.self"}


def test_this_is_the_class_around_or_what_is_extended() -> None:
    texts = {
        "a.kt": "class Other { fun put() {} }\nclass Shop { fun put() {}\n fun add() { this.put() }\n}\n"
        "fun Shop.more() { this.put() }\n"
    }
    for each in ("Shop.add", "more"):
        assert targets(texts, "calls", f"a.kt:{each}") == {"a.kt:Shop.put"}


def test_inner_classes_see_what_is_around_them() -> None:
    assert targets(SHOP, "calls", f"{STORE}:Store.Cursor.next") == {f"{STORE}:Store.get"}
    assert f"{STORE}:Store.spare" in targets(SHOP, "references", f"{STORE}:Store.Cursor.all")


def test_bases_and_imports_with_other_names() -> None:
    assert targets(SHOP, "extends", f"{STORE}:Store") == {f"{STORE}:Base"}
    assert targets(SHOP, "implements", f"{STORE}:Store") == {f"{STORE}:Shelf"}
    assert targets(SHOP, "imports", f"{STORE}:") == {f"{MODEL}:Weight"}
    assert f"{TOOLS}:heavy" in targets(SHOP, "imports", f"{MAIN}:")


def test_java_and_kotlin_meet() -> None:
    assert targets(SHOP, "calls", f"{OLD}:Old.greet") == {f"{STORE}:Store.get", f"{MODEL}:Item.weigh"}
    assert full_name(STORE, "Store.create", Files(SHOP)) == "com.acme.shop.Store.create"
