"""C#'s names lead to the definitions that its specification says: small projects with known edges."""

from __future__ import annotations

from knowledge_pipeline.code_graph import full_name
from knowledge_pipeline_tests.code_graph.files import Files, Kept, edges_of, targets

STORE, MORE, MODEL = "Shop/Store.cs", "Shop/Store.More.cs", "Model/Item.cs"
TOOLS, MAIN, USINGS = "Tools/Extensions.cs", "App/Main.cs", "App/Usings.cs"
SHOP = {
    STORE: """using System.Collections.Generic;
using System.Linq;
using Acme.Model;
namespace Acme.Shop
{
    public class Base
    {
        protected int Size;
        public Base(int size) { Size = size; }
        public virtual void Close() { }
    }
    public interface IShelf { void Tidy(); Item Top { get; } }
    public partial class Store : Base, IShelf
    {
        private readonly Dictionary<string, List<Item>> rows = new();
        public const int Most = 3;
        public Item First { get; set; } = new Item(null, "x");
        public Item Best => First.Weigh();
        public Item this[int place] => First;
        public Store(int size) : base(size) { this.First = null; }
        public Store() : this(Most) { }
        public Item Get(string key)
        {
            var item = rows[key].First();
            item?.Weigh()!.Self();
            foreach (var each in rows[key]) { each.Weigh(); }
            rows[key].Where(one => one.Self() != null).ToList();
            return Best.Self() ?? First;
        }
        public Item Find(object given)
        {
            if (given is Special special) { special.Only(); }
            (given as Store).Tidy();
            ((Item)given).Self();
            switch (given) { case Special again: again.Only(); break; }
            int Local(Item one) { one.Weigh(); return Size; }
            Local(First);
            base.Close();
            Helper();
            return new List<Item>()[0];
        }
        class Cursor { Item Next(Store of) { return of[0].Self(); } }
    }
}
""",
    MORE: """namespace Acme.Shop;
using Acme.Model;
public partial class Store
{
    public void Tidy() { Get("a").Weight.Kilos(); }
    public Item Top => First;
    void Helper() { }
}
""",
    MODEL: """namespace Acme.Model;
public class Weight { public int Kilos() { return 1; } }
public record Item(Weight Weight, string Label)
{
    public Item Weigh() { Weight.Kilos(); return this; }
    public Item Self() => this;
}
public record Special(Weight Weight) : Item(Weight, "s") { public void Only() { } }
public class MarkAttribute : System.Attribute { }
public enum Mode { Fast, Slow }
""",
    TOOLS: """namespace Acme.Tools;
using Acme.Model;
public static class Extensions
{
    public static Item Heavy(this Item item, int n) => item.Weigh();
    public static bool Blank(this string text) => text.Length == 0;
}
public static class Helpers { public static void Help() { } }
""",
    USINGS: "global using Acme.Model;\nglobal using Loads = Acme.Model.Weight;\n",
    MAIN: """using Acme.Shop;
using static Acme.Tools.Helpers;
namespace Acme
{
    public class Program
    {
        [Mark]
        public static async Task<Store> Main(string[] arguments)
        {
            Store store = new(3);
            store.Get("a").Heavy(2).Self();
            store.Tidy();
            store.Close();
            Help();
            Shop.Store other = new Acme.Shop.Store();
            other.Best.Self();
            Loads weight = store.First.Weight;
            weight.Kilos();
            arguments[0].Blank();
            Item item = null;
            item.Weigh();
            var made = await Made();
            made.Close();
            System.Func<string, Item> find = store.Get;
            Mode mode = Mode.Slow;
            return store;
        }
        static Task<Store> Made() => null;
    }
}
""",
}


def test_members_elements_and_null_conditional_chains_are_followed() -> None:
    assert targets(SHOP, "calls", f"{STORE}:Store.Get") == {
        f"{MODEL}:Item.Weigh", f"{MODEL}:Item.Self",
    } | _linq(STORE, "Store.Get")  # fmt: skip
    assert f"{STORE}:Store.Best" in targets(SHOP, "references", f"{STORE}:Store.Get")
    assert targets(SHOP, "calls", f"{STORE}:Store.Best") == {f"{MODEL}:Item.Weigh"}


def _linq(path: str, name: str) -> set[str]:
    """What is left of calls of the standard library."""
    return {each for each in targets(SHOP, "calls", f"{path}:{name}") if ".cs:" not in each}


def test_patterns_casts_and_local_functions() -> None:
    assert targets(SHOP, "calls", f"{STORE}:Store.Find") >= {
        f"{MODEL}:Special.Only", f"{MORE}:Store.Tidy", f"{MODEL}:Item.Self", f"{STORE}:Store.Find.Local",
        f"{STORE}:Base.Close", f"{MORE}:Store.Helper",
    }  # fmt: skip
    assert targets(SHOP, "calls", f"{STORE}:Store.Find.Local") == {f"{MODEL}:Item.Weigh"}
    assert targets(SHOP, "calls", f"{STORE}:Store.Cursor.Next") == {f"{MODEL}:Item.Self"}


def test_a_default_has_the_type_of_its_sides_and_a_comparison_has_not() -> None:
    said = "var best = one ?? two; best.Go(); var same = one == two; same.Stop();"
    texts = {"A.cs": f"class A {{ void Go() {{}} void Stop() {{}} void F(A one, A two) {{ {said} }} }}"}
    assert targets(texts, "calls", "A.cs:A.F") == {"A.cs:A.Go"}


def test_a_property_may_have_the_name_of_its_type() -> None:
    assert targets(SHOP, "calls", f"{MODEL}:Item.Weigh") == {f"{MODEL}:Weight.Kilos"}
    assert targets(SHOP, "calls", f"{MORE}:Store.Tidy") == {f"{STORE}:Store.Get", f"{MODEL}:Weight.Kilos"}


def test_extensions_usings_and_namespaces_lead_to_definitions() -> None:
    found = targets(SHOP, "calls", f"{MAIN}:Program.Main")
    assert found >= {
        f"{STORE}:Store.Get", f"{TOOLS}:Extensions.Heavy", f"{MODEL}:Item.Self", f"{MORE}:Store.Tidy",
        f"{STORE}:Base.Close", f"{TOOLS}:Helpers.Help", f"{STORE}:Store", f"{MODEL}:Weight.Kilos",
        f"{TOOLS}:Extensions.Blank", f"{MODEL}:Item.Weigh", f"{MAIN}:Program.Made",
    }  # fmt: skip
    references = targets(SHOP, "references", f"{MAIN}:Program.Main")
    assert references >= {f"{STORE}:Store.Get", f"{MODEL}:Mode.Slow", f"{STORE}:Store.Best"}
    assert f"{MODEL}:MarkAttribute" in targets(SHOP, "references", f"{MAIN}:Program")


def test_constructors_call_those_of_their_class_and_of_its_base() -> None:
    assert targets(SHOP, "calls", f"{STORE}:Store.Store") == {f"{STORE}:Base", f"{STORE}:Store"}


def test_bases_are_extended_or_implemented() -> None:
    assert targets(SHOP, "extends", f"{STORE}:Store") == {f"{STORE}:Base"}
    assert targets(SHOP, "implements", f"{STORE}:Store") == {f"{STORE}:IShelf"}
    assert targets(SHOP, "extends", f"{MODEL}:Special") == {f"{MODEL}:Item"}


def test_full_names_are_namespace_type_and_member() -> None:
    files = Files(SHOP)
    assert full_name(STORE, "Store.Get", files) == "Acme.Shop.Store.Get"
    assert full_name(MORE, "Store.Tidy", files) == "Acme.Shop.Store.Tidy"


def test_what_a_global_using_brings_is_resolved_again_when_it_changes() -> None:
    kept = Kept()
    kept.update(SHOP)
    less = SHOP | {USINGS: "global using Acme.Model;\n"}
    kept.update(less)
    assert kept.edges == edges_of(less)
    assert MAIN in kept.resolved
