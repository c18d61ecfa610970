"""Scala's names lead to the definitions that its specification says: small projects with known edges."""

from __future__ import annotations

from knowledge_pipeline.code_graph import full_name
from knowledge_pipeline_tests.code_graph.files import Files, targets

STORE, MODEL, MAIN, TOOLS = "shop/Store.scala", "model/Model.scala", "Main.scala", "tools/Tools.scala"
SHOP = {
    STORE: """package com.acme
package shop

import com.acme.model.{Item, Weight => W, Special}

abstract class Base(val size: Int) {
  def close(): Unit = ()
}

trait Shelf[T] {
  def tidy(): Unit
}

class Store(size: Int, first: Item) extends Base(size) with Shelf[Item] {
  private val rows: Map[String, List[Item]] = Map.empty
  lazy val spare = new Item(new W)
  def this() = this(3, new Item(new W))
  def best = spare.weigh()
  def tidy(): Unit = shut()
  def get(key: String): Option[Item] = {
    val item = rows(key).head
    for (each <- rows(key); other = each.self) yield other.weigh()
    rows(key).map(_.weigh()).foreach(one => one.self)
    Option(item.weigh())
  }
  def find(found: Any, others: Item*): Item = {
    found match {
      case special: Special => special.only()
      case _ => super.close()
    }
    others.head.self
    def local(one: Item) = one.weigh()
    local(best)
    found.asInstanceOf[Item].self
  }
  class Cursor {
    def next = get("a")
    def all = Store.this.spare
  }
}

object Store {
  val Max = 3
  def apply(first: Item): Store = new Store(Max, first)
  def create(): Store = Store(new Item(new W))
}
""",
    MODEL: """package com.acme.model

class Weight {
  def kilos: Int = 1
}

class Item(val weight: Weight) {
  def weigh(): Item = {
    weight.kilos
    this
  }
  def self: Item = this
}

class Special(weight: Weight) extends Item(weight) {
  def only(): Unit = ()
}

case class Two(a: Item, b: Weight)
""",
    "package.scala": "package com.acme\n\nclass Around\n\ndef shut(): Unit = ()\n",
    TOOLS: """package com.acme.tools

import com.acme.model._

object Helpers {
  def help(): Unit = ()
}

implicit class RichItem(val item: Item) {
  def rich(): Item = item.weigh()
}

extension (item: Item)
  def heavy(n: Int): Boolean = item.self == item
""",
    MAIN: """package com.acme.app

import com.acme.shop.Store
import com.acme.model.{Two, _}
import com.acme.tools.Helpers.help
import com.acme.tools._

object Main {
  def main(args: Array[String]): Unit = {
    val store = Store(new Item(new Weight))
    store.get("a").map(_.rich()).foreach(each => each.self)
    store.best.heavy(2)
    store.close()
    Store.create().tidy()
    help()
    Two(store.best, null).a.weigh()
    com.acme.tools.Helpers.help()
    val reference = store.find _
    val max = Store.Max
  }
}
""",
}


def test_members_comprehensions_and_placeholders_are_followed() -> None:
    assert {each for each in targets(SHOP, "calls", f"{STORE}:Store.get") if ".scala:" in each} == {
        f"{MODEL}:Item.weigh", f"{STORE}:Store.rows",
    }  # fmt: skip
    assert f"{MODEL}:Item.self" in targets(SHOP, "references", f"{STORE}:Store.get")
    assert targets(SHOP, "calls", f"{STORE}:Store.best") == {f"{MODEL}:Item.weigh"}
    assert f"{MODEL}:Weight.kilos" in targets(SHOP, "references", f"{MODEL}:Item.weigh")


def test_patterns_casts_and_local_functions() -> None:
    assert targets(SHOP, "calls", f"{STORE}:Store.find") == {
        f"{MODEL}:Special.only", f"{STORE}:Base.close", f"{STORE}:Store.find.local",
    }  # fmt: skip
    assert f"{STORE}:Store.best" in targets(SHOP, "references", f"{STORE}:Store.find")
    assert targets(SHOP, "calls", f"{STORE}:Store.find.local") == {f"{MODEL}:Item.weigh"}
    assert f"{STORE}:Store.spare" in targets(SHOP, "references", f"{STORE}:Store.Cursor.all")


def test_companions_extensions_and_imports_lead_to_definitions() -> None:
    assert targets(SHOP, "calls", f"{MAIN}:Main.main") >= {
        f"{STORE}:Store", f"{MODEL}:Item", f"{STORE}:Store.get", f"{TOOLS}:RichItem.rich", f"{TOOLS}:heavy",
        f"{STORE}:Base.close", f"{STORE}:Store.create", f"{STORE}:Store.tidy", f"{TOOLS}:Helpers.help",
        f"{MODEL}:Two", f"{MODEL}:Item.weigh",
    }  # fmt: skip
    references = targets(SHOP, "references", f"{MAIN}:Main.main")
    assert references >= {f"{STORE}:Store.find", f"{STORE}:Store.Max", f"{STORE}:Store.best"}
    assert f"{TOOLS}:Helpers.help" in targets(SHOP, "imports", f"{MAIN}:")


def test_members_of_a_value_are_imported_from_no_module() -> None:
    taken = "import context._\n    import com.acme.tools.Helpers\n"
    text = f"object A {{\n  def f(context: C): Unit = {{\n    {taken}  }}\n}}\n"
    assert targets({"A.scala": text}, "imports", "A.scala:A.f") == {"com.acme.tools.Helpers"}


def test_packages_around_are_seen() -> None:
    assert targets(SHOP, "calls", f"{STORE}:Store.tidy") == {"package.scala:shut"}


def test_bases_are_extended_or_mixed_in() -> None:
    assert targets(SHOP, "extends", f"{STORE}:Store") == {f"{STORE}:Base"}
    assert targets(SHOP, "implements", f"{STORE}:Store") == {f"{STORE}:Shelf"}
    assert targets(SHOP, "imports", f"{STORE}:") == {
        f"{MODEL}:Item", f"{MODEL}:Weight", f"{MODEL}:Special",
    }  # fmt: skip


def test_full_names_are_package_type_and_member() -> None:
    files = Files(SHOP)
    assert full_name(STORE, "Store.get", files) == "com.acme.shop.Store.get"
    assert full_name(TOOLS, "heavy", files) == "com.acme.tools.heavy"
