"""PHP's names lead to the definitions that its manual says."""

from __future__ import annotations

from knowledge_pipeline.code_graph import full_name
from knowledge_pipeline_tests.code_graph.files import Files, Kept, edges_of, targets

SHOP = {
    "src/Model/Item.php": r"""<?php
namespace App\Model;

abstract class Base { public function weigh(): int { return 1; } }

final class Item extends Base implements \JsonSerializable
{
    use Tagged;
    const HEAVY = 3;
    public static ?Item $last = null;
    public function __construct(private Unit $unit) { parent::weigh(); }
    public static function of(int $weight): static { return new static(Unit::Kilo); }
    public function jsonSerialize(): mixed { return $this->unit->label() . self::HEAVY; }
}

trait Tagged { public function tag(string $name): self { return $this; } }

enum Unit { case Kilo; public function label(): string { return ''; } }
""",
    "src/Store.php": r"""<?php
namespace App;

use App\Model\{Item, Unit as Measure};
use Psr\Log\LoggerInterface;
use function App\Text\shout;

require_once __DIR__ . '/functions.php';

class Store
{
    private array $items = [];
    protected ?Item $first;

    public function __construct(private LoggerInterface $logger, private readonly Item $spare) {}

    public function put(Item $item): static
    {
        $this->items[] = $item;
        $this->spare->tag('x')->weigh();
        $this->logger->info(shout('put'));
        foreach ($this->items as $key => $each) { $each->weigh(); }
        plain(Measure::Kilo->label());
        return $this;
    }

    public function first(): ?Item { return $this->first; }
}
""",
    "src/Text/shout.php": "<?php\nnamespace App\\Text;\nfunction shout(string $x) { return $x; }\n",
    "src/functions.php": "<?php\nfunction plain($x) { return $x; }\n",
    "bin/run.php": r"""<?php
require '../src/functions.php';
use App\Store;

function main(Store $given) {
    $store = new Store(null, App\Model\Item::of(2));
    $store->put(new \App\Model\Item(null))->first()?->weigh();
    $all = [$store];
    $all[0]->first();
    if ($given instanceof Store) { missing(App\Model\Item::HEAVY); }
    try { $given->put(null); } catch (App\Model\Base $e) { $e->weigh(); }
}
""",
}
ITEM, STORE = "src/Model/Item.php", "src/Store.php"


def test_calls_go_through_namespaces_results_and_properties() -> None:
    assert targets(SHOP, "calls", "bin/run.php:main") >= {
        f"{STORE}:Store", f"{STORE}:Store.put", f"{STORE}:Store.first", f"{ITEM}:Base.weigh", f"{ITEM}:Item",
        f"{ITEM}:Item.of", "missing",
    }  # fmt: skip
    assert targets(SHOP, "calls", f"{STORE}:Store.put") >= {
        f"{ITEM}:Tagged.tag", f"{ITEM}:Base.weigh", "src/Text/shout.php:shout", "src/functions.php:plain",
        f"{ITEM}:Unit.label",
    }  # fmt: skip


def test_self_static_and_parent_are_the_class_and_what_it_extends() -> None:
    assert targets(SHOP, "calls", f"{ITEM}:Item.__construct") == {f"{ITEM}:Base.weigh"}
    assert targets(SHOP, "calls", f"{ITEM}:Item.jsonSerialize") == {f"{ITEM}:Unit.label"}
    assert f"{ITEM}:Item.HEAVY" in targets(SHOP, "references", f"{ITEM}:Item.jsonSerialize")


def test_classes_extend_implement_and_use_traits() -> None:
    assert targets(SHOP, "extends", f"{ITEM}:Item") == {f"{ITEM}:Base", f"{ITEM}:Tagged"}
    assert targets(SHOP, "implements", f"{ITEM}:Item") == {"JsonSerializable"}


def test_imports_lead_to_classes_functions_and_files() -> None:
    assert targets(SHOP, "imports", f"{STORE}:") == {
        f"{ITEM}:Item", f"{ITEM}:Unit", r"Psr\Log\LoggerInterface", "src/Text/shout.php:shout",
        "src/functions.php:",
    }  # fmt: skip
    assert targets(SHOP, "imports", "bin/run.php:") == {f"{STORE}:Store", "src/functions.php:"}


def test_a_full_name_starts_with_the_namespace() -> None:
    assert full_name(STORE, "Store.put", Files(SHOP)) == r"App\Store::put"
    assert full_name("bin/run.php", "main", Files(SHOP)) == "main"


def test_an_edit_gives_the_edges_of_a_full_run() -> None:
    kept = Kept()
    kept.update(SHOP)
    after = SHOP | {STORE: SHOP[STORE].replace("first(): ?Item", "first(): ?Store")}
    kept.update(after)
    assert kept.edges == edges_of(after)


def test_what_lies_in_no_namespace_meets_its_own_languages_alone() -> None:
    texts = {
        "web.ts": "export function render() {}\nexport class Song {}\n",
        "Tool.java": "class Tool { void render() {} }\n",
        "Main.kt": "fun main() { Tool().render() }\n",
        "a.php": "<?php\nfunction go() { render(); new Song(); new Tool(); own(); }\n",
        "b.php": "<?php\nfunction own() {}\n",
    }
    edges = edges_of(texts)
    assert {
        (it.target_path, it.target) for it in edges["a.php"] if it.kind == "calls" and it.target_path
    } == {("b.php", "own")}
    assert "Tool.java" in {it.target_path for it in edges["Main.kt"]}
