"""Swift's names lead to the definitions that its reference says: small projects with known edges."""

from __future__ import annotations

from knowledge_pipeline.code_graph import full_name
from knowledge_pipeline_tests.code_graph.files import Files, Kept, edges_of, targets

MODEL, MODE, STORE, MORE, MAIN, TEST = (
    "Sources/Model/Item.swift",
    "Sources/Model/Mode.swift",
    "Sources/Shop/Store.swift",
    "Sources/Shop/Store+More.swift",
    "Sources/App/main.swift",
    "Tests/ShopTests/StoreTests.swift",
)
SHOP = {
    MODEL: """import Foundation

public class Item: Weighed {
    public let weight: Weight
    public var other: Item?
    public init(weight: Weight) { self.weight = weight }
    public func weigh() -> Item { weight.kilos(); return self }
    public func same() -> Self { self }
}
public final class Special: Item {
    public func only() {}
    override public func weigh() -> Item { super.weigh() }
}
public struct Weight {
    public func kilos() -> Int { 1 }
    public static func none() -> Weight { .init() }
}
public protocol Weighed { func tidy() }
extension Weighed { public func tidy() {} }
fileprivate func helper() {}
func shared() { helper() }
""",
    MODE: """public enum Mode {
    case fast, slow
    case custom(Item, by: Weight)
    public var speed: Int { 1 }
    public static var usual: Mode { .slow }
}
func helper() {}
""",
    STORE: """import Foundation
import Model

protocol Shelf { associatedtype Element: Item
    var best: Element { get }
    func sweep(_ mode: Mode) -> Element?
}
class Base { func close() {}
    class func make() -> Self { fatalError() } }
class Store<T: Item>: Base, Shelf {
    static let main = Store()
    private let rows: [String: [Item]] = [:]
    var spare = Item(weight: Weight.none()), kept: T?
    weak var parent: Store?
    lazy var lazily: Item = { Item(weight: .none()) }()
    var best: Item { rows["a"]!.first! }
    var mode: Mode = .usual
    subscript(place: Int) -> Special { fatalError() }
    convenience init(spare: Item) { self.init(); self.spare = spare }
    deinit { spare.weigh() }
    func sweep(_ mode: Mode) -> Item? { nil }
    func get(_ key: String) -> Item? {
        guard let item = rows[key]?.first, let above = parent else { return nil }
        above.close()
        if let other = item.other { other.same() }
        for row in rows.values { row.forEach { $0.tidy() } }
        for (_, some) in rows { some.last?.weigh() }
        return item.weigh()
    }
    func patterns(_ given: Any) {
        if case .custom(let one, let heavy) = mode { one.weigh(); heavy.kilos() }
        switch mode {
        case .fast, .slow: mode.speed
        case let .custom(one, by: heavy): one.same(); heavy.kilos()
        }
        switch given {
        case let special as Special: special.only()
        case is Weight: break
        default: break
        }
        do { try work() } catch let wrong as Wrong { wrong.report() } catch { print(error) }
        let (first, second) = pair()
        first.same()
        second.kilos()
        (given as? Special)?.only()
        self[0].only()
        kept?.weigh()
    }
    func pair() -> (Item, Weight) { (spare, .none()) }
    func each(do body: @escaping (Special) -> Void) {}
}
struct Wrong: Error { func report() {} }
""",
    MORE: """import Model

extension Store: CustomStringConvertible {
    struct Cursor { var at: Item
        func next() -> Item { at.weigh() } }
    func again() { get("a"); self.sweep(.fast); spare.same(); Self.make().close() }
    var twice: Item { spare.same() }
}
extension Array where Element == Item {
    func heavy() -> Item { self[0] }
}
extension Item { func packed() -> Special { fatalError() } }
typealias Goods = Item
""",
    MAIN: """import Shop
import struct Model.Weight
import Model

let store = Store<Special>.make()
func run(_ store: Store<Item>, items: [Item]) {
    let fresh = Store(spare: Item(weight: Weight()))
    fresh.again()
    fresh.twice.packed().only()
    Store.main.sweep(.usual)
    Store.Cursor(at: fresh.spare).next()
    store.each { $0.only() }
    store.each(do: { special in special.weigh() })
    items.heavy()
    items.filter { $0.weigh() === nil }.map { one in one.same() }
    let chosen = items.first ?? store.best
    chosen.tidy()
    Model.Item(weight: .none()).tidy()
    Mode.custom(fresh.spare, by: .init()).speed
    let goods: Goods = store.lazily
    goods.packed()
    URLSession.shared.dataTask()
}
""",
    TEST: """@testable import Shop
import XCTest
final class StoreTests: XCTestCase {
    func testGet() { let store = Store(spare: make()); store.get("a")?.weigh() }
    private func make() -> Item { fatalError() }
}
""",
}


def test_members_patterns_closures_and_elements_are_followed() -> None:
    assert targets(SHOP, "calls", f"{STORE}:Store.get") == {
        f"{STORE}:Base.close", f"{MODEL}:Item.same", f"{MODEL}:Weighed.tidy", f"{MODEL}:Item.weigh",
    }  # fmt: skip
    assert targets(SHOP, "calls", f"{STORE}:Store.patterns") == {
        f"{MODEL}:Item.weigh", f"{MODEL}:Weight.kilos", f"{MODEL}:Item.same", f"{MODEL}:Special.only",
        f"{STORE}:Wrong.report", f"{STORE}:Store.pair", "work",
    }  # fmt: skip
    assert {f"{MODE}:Mode.custom", f"{MODE}:Mode.fast", f"{MODE}:Mode.speed"} <= targets(
        SHOP, "references", f"{STORE}:Store.patterns"
    )


def test_properties_computed_or_not_and_initialisers_are_found() -> None:
    assert f"{STORE}:Store.rows" in targets(SHOP, "references", f"{STORE}:Store.best")
    assert targets(SHOP, "calls", f"{STORE}:Store.deinit") == {f"{MODEL}:Item.weigh"}
    assert targets(SHOP, "calls", f"{STORE}:Store.init") == {f"{STORE}:Store.init"}
    assert targets(SHOP, "calls", f"{STORE}:Store") >= {f"{MODEL}:Item", f"{MODEL}:Weight.none"}
    assert targets(SHOP, "calls", f"{MODEL}:Special.weigh") == {f"{MODEL}:Item.weigh"}
    assert targets(SHOP, "calls", f"{MODEL}:Weight.none") == {f"{MODEL}:Weight"}
    assert f"{MODE}:Mode.slow" in targets(SHOP, "references", f"{MODE}:Mode.usual")


def test_a_class_that_reads_like_a_property_because_its_syntax_is_broken_is_a_class() -> None:
    text = """open class Encoder: @unchecked Sendable, Codec {
    public static var pretty: Encoder {
    }
    @available(macOS 10.13, *)
    public static var sorted: Encoder {
}
    public static func json(inner: Inner = Inner()) -> Encoder {
        Encoder(inner: inner)
}
        } else {
"""
    assert f"{STORE}:Encoder" in targets({STORE: text}, "calls", f"{STORE}:Encoder.json")


def test_an_extension_in_another_file_adds_members_and_sees_them() -> None:
    assert targets(SHOP, "calls", f"{MORE}:Store.again") == {
        f"{STORE}:Store.get", f"{STORE}:Store.sweep", f"{MODEL}:Item.same", f"{STORE}:Base.make",
        f"{STORE}:Base.close",
    }  # fmt: skip
    assert f"{MODE}:Mode.fast" in targets(SHOP, "references", f"{MORE}:Store.again")


def test_other_modules_are_seen_by_import() -> None:
    assert targets(SHOP, "calls", f"{MAIN}:run") >= {
        f"{STORE}:Store", f"{MORE}:Store.again", f"{MORE}:Item.packed", f"{MODEL}:Special.only",
        f"{STORE}:Store.sweep", f"{MORE}:Store.Cursor", f"{MORE}:Store.Cursor.next", f"{STORE}:Store.each",
        f"{MODEL}:Special.weigh", f"{MORE}:Array.heavy", f"{MODEL}:Item.weigh", f"{MODEL}:Item.same",
        f"{MODEL}:Weighed.tidy", f"{MODEL}:Item", f"{MODEL}:Weight", f"{MODEL}:Weight.none",
    }  # fmt: skip
    assert f"{MODE}:Mode.usual" in targets(SHOP, "references", f"{MAIN}:run")
    assert f"{MODEL}:Weight" in targets(SHOP, "imports", f"{MAIN}:")
    assert targets(SHOP, "imports", f"{TEST}:") == {"XCTest"}
    assert targets(SHOP, "calls", f"{TEST}:StoreTests.testGet") >= {
        f"{STORE}:Store.get",
        f"{MODEL}:Item.weigh",
    }


def test_bases_are_extended_or_implemented_by_what_they_are() -> None:
    assert targets(SHOP, "extends", f"{STORE}:Store") == {f"{STORE}:Base"}
    assert targets(SHOP, "implements", f"{STORE}:Store") == {f"{STORE}:Shelf"}
    assert targets(SHOP, "implements", f"{MODEL}:Item") == {f"{MODEL}:Weighed"}
    assert targets(SHOP, "extends", f"{MODEL}:Special") == {f"{MODEL}:Item"}


def test_what_is_private_to_a_file_is_not_seen_by_its_neighbours() -> None:
    assert targets(SHOP, "calls", f"{MODEL}:shared") == {f"{MODEL}:helper"}
    assert targets(
        {**SHOP, MODEL: SHOP[MODEL].replace("helper()", "other()", 1)}, "calls", f"{MODEL}:shared"
    ) == {f"{MODE}:helper"}
    only = {"A.swift": "private func one() {}", "B.swift": "func two() { one() }"}
    assert targets(only, "calls", "B.swift:two") == {"one"}


def test_modules_lie_where_the_package_says() -> None:
    package = 'let package = Package(name: "Net", targets: [.target(name: "Net", path: "Source"), \
.testTarget(name: "NetTests", dependencies: ["Net"], path: "Checks")])'
    texts = {
        "Package.swift": package,
        "Source/Core/Session.swift": "public class Session { public func send() {} }",
        "Checks/SessionTests.swift": "import Net\nfunc test() { Session().send() }",
        "Other/Session.swift": "class Session { func send() {} }",
    }
    found = targets(texts, "calls", "Checks/SessionTests.swift:test")
    assert found == {"Source/Core/Session.swift:Session", "Source/Core/Session.swift:Session.send"}
    assert full_name("Source/Core/Session.swift", "Session.send", Files(texts)) == "Net.Session.send"
    assert full_name(STORE, "Store.get", Files(SHOP)) == "Shop.Store.get"


HELP, DEEP = "Tests/Helpers/Make.swift", "Tests/ShopTests/Sub/Sources/DeepTests.swift"
TESTS = SHOP | {
    HELP: "@testable import Shop\nfunc makeStore() -> Store<Item> { fatalError() }\nfunc own() {}\n"
    "enum Test {}",
    DEEP: "final class DeepTests { @Test func testIt() { makeStore().again(); own(); shown() } }",
    "Tests/ShopTests/Own.swift": "func shown() {}",
    "Tests/OtherTests/Own.swift": "func shown() {}",
}


def test_folders_beside_the_test_targets_are_compiled_into_each_of_them() -> None:
    assert targets(TESTS, "calls", f"{DEEP}:DeepTests.testIt") == {
        f"{HELP}:makeStore", f"{MORE}:Store.again", f"{HELP}:own", "Tests/ShopTests/Own.swift:shown",
    }  # fmt: skip
    assert f"{HELP}:Test" not in targets(TESTS, "references", f"{DEEP}:DeepTests.testIt")
    declared = TESTS | {"Package.swift": 'targets: [.target(name: "Helpers")]'}
    assert f"{HELP}:own" not in targets(declared, "calls", f"{DEEP}:DeepTests.testIt")
    kept = Kept()
    for texts in (TESTS, declared, TESTS):
        kept.update(texts)
        assert kept.edges == edges_of(texts)
