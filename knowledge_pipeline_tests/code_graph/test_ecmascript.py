"""What JavaScript's and TypeScript's files say, and which definitions their names lead to."""

from __future__ import annotations

import pytest

from knowledge_pipeline_tests.code_graph.files import targets

SHOP = {
    "src/base.ts": """export abstract class Base<Row> {
  protected rows: Row[] = [];
  constructor(readonly name: string) {}
  first(): Row | undefined { return this.rows[0]; }
  get size(): Size { return new Size(); }
}
export class Size { show() {} }
""",
    "src/model.ts": """export interface Item { weigh(): void; part: Part; on: (event: Part) => void }
export type Part = { turn(): void; of: Item };
export type Visit = (item: Item) => Part;
export enum Mode { Fast, Slow = 2 }
""",
    "src/store.ts": """import { Base } from './base';
import type { Item, Part as Piece, Visit } from './model';
import * as model from './model';
export class Store extends Base<Item> implements Iterable<Item> {
  static async open(name: string): Promise<Store> { return new Store(name); }
  private cache = new Map<string, Item>();
  constructor(name: string, private piece?: Piece) { super(name); }
  get(key: string): Item { return this.cache.get(key)!; }
  each(visit: (item: Item, place: number) => void): void { for (const item of this.rows) visit(item, 0); }
  walk = (visit: Visit) => { visit(this.get('a')).turn(); };
  *[Symbol.iterator]() { yield this.get('x'); }
  turned() { this.piece?.turn(); return this.size.show(); }
  mode() { return model.Mode.Fast; }
}
export const shelf = { top: { lift() { this.lower(); }, lower() {} }, count: () => 1 };
export function helper() { return { stop() {} }; }
export { helper as assist };
export default Store;
""",
    "src/index.ts": "export * from './store.js';\nexport { Base as Root } from './base';\n"
    "export { default } from './store';\n",
    "src/app.ts": """import Shop, { assist, Root, shelf, Store } from './index';
import { Mode } from '@/model';
export async function main() {
  const store = await Store.open('a');
  store.get('b').weigh();
  store.each((item) => item.part.turn());
  store.walk(i => { i.weigh(); return i.part; });
  for (const one of store) one.weigh();
  [...[store]].map((s) => s.turned());
  assist().stop();
  shelf.top.lift();
  const { part: { of } } = store.get('c');
  of.weigh();
  return Mode.Slow;
}
class Own extends Root<Store> { run() { this.first(); super.first(); } }
export const make = () => new Shop('x');
make().turned();
""",
    "tsconfig.json": '{\n// aliases\n"compilerOptions": {"baseUrl": ".", "paths": {"@/*": ["src/*"],}}}',
}


@pytest.mark.parametrize(
    ("kind", "source", "expected"),
    [
        ("calls", "src/app.ts:main", """
            src/store.ts:Store.open src/store.ts:Store.get src/model.ts:Item.weigh src/store.ts:Store.each
            src/model.ts:Part.turn src/store.ts:Store.walk src/store.ts:Store.turned src/store.ts:helper
            src/store.ts:helper.stop src/store.ts:shelf.top.lift"""),
        ("calls", "src/app.ts:Own.run", "src/base.ts:Base.first"),
        ("calls", "src/app.ts:make", "src/store.ts:Store"),
        ("calls", "src/app.ts:", "src/app.ts:make src/store.ts:Store.turned"),
        ("calls", "src/store.ts:Store.constructor", "src/base.ts:Base"),
        ("calls", "src/store.ts:Store.turned", "src/model.ts:Part.turn src/base.ts:Size.show"),
        ("calls", "src/store.ts:Store.walk", "src/store.ts:Store.get src/model.ts:Part.turn"),
        ("calls", "src/store.ts:shelf.top.lift", "src/store.ts:shelf.top.lower"),
        ("extends", "src/store.ts:Store", "src/base.ts:Base"),
        ("extends", "src/app.ts:Own", "src/base.ts:Base"),
        ("references", "src/store.ts:Store.mode", "src/model.ts:Mode src/model.ts:Mode.Fast"),
        ("imports", "src/app.ts:", """
            src/index.ts: src/store.ts:Store src/store.ts:helper src/base.ts:Base src/store.ts:shelf
            src/model.ts: src/model.ts:Mode"""),
        ("imports", "src/index.ts:", "src/store.ts: src/base.ts: src/base.ts:Base src/store.ts:Store"),
    ],
)  # fmt: skip
def test_names_lead_to_their_definitions(kind: str, source: str, expected: str) -> None:
    found = targets(SHOP, kind, source)
    assert {each for each in found if each.startswith("src/")} == set(expected.split())


def test_elements_of_jsx_call_their_components() -> None:
    texts = {
        "button.tsx": "export const Button = (props: { on: () => void }) => <b/>;\n"
        "export const Menu = { Row() { return null } };",
        "page.jsx": "import { Button, Menu } from './button';\n"
        "export function Page() { return <div><Button on={stop}><Menu.Row/></Button></div> }\n"
        "function stop() {}",
    }
    assert targets(texts, "calls", "page.jsx:Page") == {"button.tsx:Button", "button.tsx:Menu.Row"}
    assert targets(texts, "references", "page.jsx:Page") >= {"page.jsx:stop"}


COMMON = {
    "lib/cart.js": """function Cart(name) { this.name = name; }
Cart.prototype.clear = function clear() { this.reset(); };
Cart.prototype.reset = function () {};
module.exports = Cart;
module.exports.total = total;
function total() {}
""",
    "lib/shared.js": "const one = () => 1;\nmodule.exports = { one, two() { return one(); }, three: one };\n",
    "lib/late.js": "exports.late = function () {};\n",
    "lib/index.js": """const Cart = require('./cart');
const { one: first, two } = require('./shared');
var three = require('./shared').three;
function run() { first(); two(); three(); Cart.total(); require('./late').late(); new Cart('a'); }
async function load() { const { late } = await import('./late.js'); late(); }
exports = module.exports = run;
""",
    "lib/user.js": "const run = require('.');\nrun();\n",
}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("lib/index.js:run", """lib/shared.js:one lib/shared.js:two lib/cart.js:total lib/late.js:late
            lib/cart.js:Cart"""),
        ("lib/index.js:load", "lib/late.js:late"),
        ("lib/user.js:", "lib/index.js:run"),
        ("lib/cart.js:Cart.clear", "lib/cart.js:Cart.reset"),
    ],
)  # fmt: skip
def test_modules_of_commonjs_are_followed(source: str, expected: str) -> None:
    assert targets(COMMON, "calls", source) == set(expected.split())


def test_a_name_that_a_function_has_itself_hides_an_import() -> None:
    texts = {
        "a.ts": "export function go() {}\nexport const table = { go() {} };",
        "b.ts": "import { go, table } from './a';\n"
        "export function one() { return { go: () => go() } }\n"
        "export function two(go: Other) { go.run(); }\nclass Other { run() {} }\ntable.go();",
    }
    assert targets(texts, "calls", "b.ts:one.go") == {"a.ts:go"}
    assert targets(texts, "calls", "b.ts:two") == {"b.ts:Other.run"}
    assert targets(texts, "calls", "b.ts:") == {"a.ts:table.go"}


def test_types_are_followed_by_their_other_names() -> None:
    texts = {
        "a.ts": """interface Row { show(): void }
type Named = Row & { name: Label };
type Label = { print(): void };
type Many = Readonly<Named>[];
interface Wide extends Named { }
interface Call { (row: Row): Label }
namespace Inner { export class Deep { dig() {} } export const deep = new Deep(); }
function use(one: Named, many: Many, wide: Wide, call: Call, made: ReturnType<typeof make>) {
  one.show(); one.name.print(); many[0].show(); wide.name.print(); call(one).print(); made.dig();
  Inner.deep.dig();
}
function make() { return new Inner.Deep(); }
"""
    }
    expected = "Row.show Label.print Inner.Deep.dig"
    found = {each.partition(":")[2] for each in targets(texts, "calls", "a.ts:use")}
    assert found - {"call"} == set(expected.split())
    assert targets(texts, "extends", "a.ts:Wide") == {"a.ts:Named"}


def test_the_parameter_of_a_short_arrow_hides_a_function_of_its_name() -> None:
    texts = {
        "src/a.ts": "import { pay } from './pay';\n"
        "export function all(list) { return list.map(pay => pay()); }\n"
        "export const short = pay => pay();\nexport function one() { return pay(); }\n",
        "src/pay.ts": "export function pay() {}\n",
    }
    for name in ("all", "short"):
        assert "src/pay.ts:pay" not in targets(texts, "calls", f"src/a.ts:{name}")
    assert targets(texts, "calls", "src/a.ts:one") == {"src/pay.ts:pay"}
