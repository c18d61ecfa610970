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


def _project(*references: str, usings: str = "") -> str:
    items = "".join(f'<ProjectReference Include="..\\{one}\\{one}.csproj" />' for one in references)
    return f'<Project Sdk="Microsoft.NET.Sdk"><ItemGroup>{items}{usings}</ItemGroup></Project>'


STORES, WEB = "Core/Stores.cs", "Web/Page.cs"
PROJECTS = {
    "Core/Core.csproj": _project(),
    STORES: "namespace Acme.Core; public class Store { public void Open() {} } public class Only {}",
    "Core/Tools.cs": "namespace Acme.Tools; static class T { public static void Pack(this string s) {} }",
    "Shop/Shop.csproj": _project("Core", usings='<Using Include="Acme.Core" />'),
    "Shop/Shop.cs": "namespace Acme.Shop; public class Till { Store store; void F() { store.Open(); } }",
    "Web/Web.csproj": _project("Shop"),
    WEB: "namespace Acme.Web; class Page { void F(string a) { new Store(); a.Pack(); new Till(); } }",
    "Web/Usings.cs": "global using Acme.Shop;",
    "Other/Other.csproj": _project(),
    "Other/Else.cs": "using Acme.Core; class Else { void F() { new Store(); new Till(); new Only(); } }",
    "Other/Usings.cs": "global using Acme.Core; global using Acme.Shop;",
}


def test_a_project_sees_what_it_refers_to_and_its_own_global_usings() -> None:
    assert targets(PROJECTS, "calls", "Shop/Shop.cs:Till.F") == {f"{STORES}:Store.Open"}
    assert targets(PROJECTS, "calls", f"{WEB}:Page.F") == {
        "Store", "Core/Tools.cs:T.Pack", "Shop/Shop.cs:Till",
    }  # fmt: skip
    assert not {name for name in targets(PROJECTS, "calls", "Other/Else.cs:Else.F") if ".cs:" in name}


def test_a_method_out_of_sight_is_not_guessed() -> None:
    texts = PROJECTS | {
        "Core/Shelf.cs": "class Shelf { public void Mend() {} }",
        "Other/More.cs": "class More { void F(Unknown it) { it.Mend(); } }",
    }
    assert targets(texts, "calls", "Other/More.cs:More.F") == {"it.Mend"}
    seeing = texts | {"Other/Other.csproj": _project("Core")}
    assert targets(seeing, "calls", "Other/More.cs:More.F") == {"Core/Shelf.cs:Shelf.Mend"}


def test_properties_above_a_project_give_it_usings_and_references() -> None:
    properties = '<Project><ItemGroup><Using Include="Acme.Core" /></ItemGroup></Project>'
    texts = PROJECTS | {"Directory.Build.props": properties}
    assert f"{STORES}:Store" in targets(texts, "calls", f"{WEB}:Page.F")
    assert f"{STORES}:Store" not in targets(texts, "calls", "Other/Else.cs:Else.F")
    nearer = texts | {"Web/Directory.Build.props": "<Project></Project>"}
    assert f"{STORES}:Store" not in targets(nearer, "calls", f"{WEB}:Page.F")
    going_on = texts | {"Web/Directory.Build.props": '<Project><Import Project="$(Above)" /></Project>'}
    assert f"{STORES}:Store" in targets(going_on, "calls", f"{WEB}:Page.F")


def test_a_web_project_sees_what_lies_in_the_namespaces_that_its_sdk_uses() -> None:
    texts = {
        "Web/Web.csproj": '<Project Sdk="Microsoft.NET.Sdk.Web"></Project>',
        "Web/Hosts.cs": "namespace Microsoft.AspNetCore.Hosting; class Seeder {}",
        "Web/Main.cs": "class Main { void F() { new Seeder(); } }",
    }
    assert targets(texts, "calls", "Web/Main.cs:Main.F") == {"Web/Hosts.cs:Seeder"}
    plain = texts | {"Web/Web.csproj": texts["Web/Web.csproj"].replace(".Web", "")}
    assert targets(plain, "calls", "Web/Main.cs:Main.F") == {"Seeder"}


def test_a_type_of_the_own_project_is_meant_before_one_of_another() -> None:
    texts = PROJECTS | {"Web/Till.cs": "namespace Acme.Shop; class Till {}"}
    assert {name for name in targets(texts, "calls", f"{WEB}:Page.F") if "Till" in name} == {
        "Web/Till.cs:Till"
    }


def test_edits_of_projects_and_properties_leave_what_a_full_run_gives() -> None:
    kept, texts = Kept(), PROJECTS
    kept.update(texts)
    edits = {
        "Other/Other.csproj": _project("Web"),
        "Shop/Shop.csproj": _project("Core"),
        "Directory.Build.props": '<Project><ItemGroup><Using Include="Acme.Core" /></ItemGroup></Project>',
        "Web/Web.csproj": None,
        "Core/Core.csproj": None,
    }
    for path, text in edits.items():
        texts = {one: old for one, old in texts.items() if one != path} | ({path: text} if text else {})
        kept.update(texts)
        assert kept.edges == edges_of(texts)


def test_an_initialiser_names_members_of_what_it_makes() -> None:
    text = """class Bar { public void Go() {} } class Foo { public Bar Inner; public int Size; }
class Else { int Size; Bar Inner; void F(Services all) {
    var one = new Foo { Inner = new Bar(), Size = 2 };
    one.Inner.Go();
    var two = one with { Size = 1 };
    var list = new List<Foo> { one };
    list[0].Inner.Go();
} }"""
    texts = {"A.cs": text}
    assert "A.cs:Bar.Go" in targets(texts, "calls", "A.cs:Else.F")
    found = targets(texts, "references", "A.cs:Else.F")
    assert {"A.cs:Foo.Inner", "A.cs:Foo.Size"} <= found and not {"A.cs:Else.Size", "A.cs:Else.Inner"} & found


def test_what_is_asked_of_a_container_by_its_type_is_of_that_type() -> None:
    text = """class Bar { public Bar Go() => this; } class Pub { public void Go() {} }
class Else { void F(IServiceProvider all) { var bar = all.GetService<Bar>(); bar.Go(); }
void G(IServiceProvider all) { all.GetRequiredService<Bar>().Go(); } }"""
    for method in "FG":
        assert "A.cs:Bar.Go" in targets({"A.cs": text}, "calls", f"A.cs:Else.{method}")
