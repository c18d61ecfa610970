"""Ruby's names lead to the definitions that constants, mixins and files say."""

from __future__ import annotations

from knowledge_pipeline.code_graph import full_name
from knowledge_pipeline_tests.code_graph.files import Files, Kept, edges_of, targets

SHOP = {
    "lib/shop/item.rb": """module Shop
  class Item
    attr_reader :unit
    LIMIT = 3

    def initialize(unit)
      @unit = Unit.new(unit)
    end

    def weigh
      unit.label
      @unit.label
      LIMIT
    end
  end

  class Unit
    def label = "kg"
  end
end
""",
    "lib/shop/walk.rb": """module Shop
  module Walk
    def walk
      total
    end
  end
end
""",
    "lib/shop/store.rb": """require_relative "item"
require "shop/walk"
require "json"

module Shop
  class Base
    def total
      0
    end
  end

  class Store < Base
    include Walk

    def initialize
      @rows = []
    end

    def put(weight)
      item = Item.new(weight)
      item.weigh
      helper(item)
      self.walk
      total
      super
    end

    def self.open
      Store.new
    end

    private

    def helper(item)
      undefined_thing(item)
    end
  end
end
""",
    "bin/run.rb": """require "shop/store"

def main
  store = Shop::Store.open
  store.put(1)
  Shop::Item::LIMIT
end

main()
""",
}
ITEM, WALK, STORE = (f"lib/shop/{each}.rb" for each in ("item", "walk", "store"))


def test_constants_are_found_by_nesting_and_new_makes_instances() -> None:
    assert targets(SHOP, "calls", "bin/run.rb:main") >= {
        f"{STORE}:Shop.Store.open",
        f"{STORE}:Shop.Store.put",
    }
    assert f"{ITEM}:Shop.Item.LIMIT" in targets(SHOP, "references", "bin/run.rb:main")
    assert targets(SHOP, "calls", f"{STORE}:Shop.Store.open") == {f"{STORE}:Shop.Store"}
    assert targets(SHOP, "references", f"{STORE}:Shop.Store.open") == set()  # it is called, and counts once


def test_methods_are_of_the_class_its_base_and_what_it_includes() -> None:
    assert targets(SHOP, "calls", f"{STORE}:Shop.Store.put") >= {
        f"{ITEM}:Shop.Item", f"{ITEM}:Shop.Item.weigh", f"{STORE}:Shop.Store.helper",
        f"{STORE}:Shop.Base.total", f"{WALK}:Shop.Walk.walk",
    }  # fmt: skip
    assert targets(SHOP, "calls", f"{STORE}:Shop.Store.helper") == {"undefined_thing"}
    assert f"{ITEM}:Shop.Unit.label" in targets(SHOP, "calls", f"{ITEM}:Shop.Item.weigh")


def test_a_superclass_is_extended_and_a_module_implemented() -> None:
    assert targets(SHOP, "extends", f"{STORE}:Shop.Store") == {f"{STORE}:Shop.Base"}
    assert targets(SHOP, "implements", f"{STORE}:Shop.Store") == {f"{WALK}:Shop.Walk"}


def test_files_are_loaded_from_beside_and_from_lib() -> None:
    assert targets(SHOP, "imports", f"{STORE}:") == {f"{ITEM}:", f"{WALK}:", "json"}
    assert targets(SHOP, "imports", "bin/run.rb:") == {f"{STORE}:"}


def test_a_file_named_by_no_text_is_not_loaded() -> None:
    assert targets({"a.rb": "require name\nload\n", "name.rb": "X = 1\n"}, "imports", "a.rb:") == set()


def test_a_full_name_is_as_rubys_documentation_writes_it() -> None:
    assert full_name(STORE, "Shop.Store.put", Files(SHOP)) == "Shop::Store#put"
    assert full_name(STORE, "Shop.Store", Files(SHOP)) == "Shop::Store"


def test_an_edit_gives_the_edges_of_a_full_run() -> None:
    kept = Kept()
    kept.update(SHOP)
    after = SHOP | {STORE: SHOP[STORE].replace("Store.new", "Item.new")}
    kept.update(after)
    assert kept.edges == edges_of(after)
