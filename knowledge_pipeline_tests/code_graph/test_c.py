"""Names of C and C++ lead to the definitions that includes, linking and classes say."""

from __future__ import annotations

from knowledge_pipeline.code_graph import full_name
from knowledge_pipeline_tests.code_graph.files import Files, Kept, edges_of, targets

LIST = {
    "include/list.h": """#ifndef LIST_H
#define LIST_H
#define LIST_MAX 10
#define LIST_EACH(l, n) for (node *n = (l)->head; n; n = n->next)
enum order { UP, DOWN };
typedef struct node { int value; struct node *next; } node;
typedef struct list list;
struct list { node *head; int (*compare)(int, int); enum order order; };
list *list_new(void);
void list_add(list *self, int value);
static inline int list_empty(const list *self) { return self->head == 0; }
extern int list_count;
#endif
""",
    "src/list.c": """#include <stdlib.h>
#include "list.h"

int list_count = 0;
static int helper(int x) { return x; }
static int ascending(int a, int b) { return a - b; }
list *list_new(void) {
    list *made = malloc(sizeof(list));
    made->compare = ascending;
    list_count++;
    return made;
}
void list_add(list *self, int value) {
    node *added = malloc(sizeof(node));
    added->value = helper(value);
    if (self->compare(1, 2)) self->order = DOWN;
    added->next = self->head;
}
""",
    "src/main.c": """#include <list.h>
#include "missing/thing.h"

static int helper(int x) { return list_new()->head->value + LIST_MAX; }
static const struct { int (*run)(int); } table[] = { { helper } };
int main(void) {
    struct list *all = list_new();
    list_add(all, table[0].run(1));
    if (list_empty(all)) return unknown_thing(list_count);
    LIST_EACH(all, n) {}
    return 0;
}
""",
    "src/other.c": "int uses(void) { return helper(1); }\n",
}
HEADER, LIST_C, MAIN = "include/list.h", "src/list.c", "src/main.c"

GEO = {
    "geo/shape.hpp": """#pragma once
#include <memory>
#include <vector>
namespace geo {
class Shape {
public:
    virtual ~Shape() {}
    virtual double area() const = 0;
    double twice() const { return area() * 2 + scale(); }
    double scale() const;
protected:
    int id;
};
template <typename T> T clamp(T value) { return value; }
namespace inner { void deep(); }
}
""",
    "geo/circle.hpp": """#include "shape.hpp"
namespace geo {
class Circle : public Shape {
public:
    Circle(double radius);
    double area() const override;
    static Circle *unit();
private:
    double radius;
    std::vector<Shape *> parts;
    std::unique_ptr<Circle> next;
};
using Round = Circle;
}
""",
    "geo/circle.cpp": """#include "circle.hpp"
namespace geo {
Circle::Circle(double r) : radius(r) {}
double Circle::area() const {
    for (auto &part : parts) part->twice();
    next->scale();
    this->twice();
    return clamp(radius) + scale();
}
Circle *Circle::unit() { return new Circle(1); }
double Shape::scale() const { return id; }
namespace inner { void deep() {} }
}
""",
    "app/main.cpp": """#include "geo/circle.hpp"
using namespace geo;
int main() {
    Round *one = Circle::unit();
    one->area();
    auto two = std::make_unique<geo::Circle>(2);
    two->twice();
    geo::Circle three(3);
    three.scale();
    geo::inner::deep();
    static_cast<Shape *>(one)->scale();
}
""",
}
CIRCLE, CIRCLE_H, SHAPE = "geo/circle.cpp", "geo/circle.hpp", "geo/shape.hpp"


def test_what_a_header_declares_leads_to_the_one_definition() -> None:
    found = targets(LIST, "calls", f"{MAIN}:main")
    assert found >= {
        f"{LIST_C}:list_new", f"{LIST_C}:list_add", f"{HEADER}:list_empty", f"{HEADER}:LIST_EACH",
        "unknown_thing",
    }  # fmt: skip
    assert f"{LIST_C}:list_count" in targets(LIST, "references", f"{MAIN}:main")


def test_static_functions_are_of_their_file_alone() -> None:
    assert targets(LIST, "calls", f"{LIST_C}:list_add") == {f"{LIST_C}:helper", f"{HEADER}:list.compare"}
    assert targets(LIST, "calls", "src/other.c:uses") == {"helper"}
    assert f"{LIST_C}:ascending" in targets(LIST, "references", f"{LIST_C}:list_new")


def test_fields_constants_and_macros_are_referred_to() -> None:
    assert targets(LIST, "references", f"{MAIN}:helper") >= {
        f"{HEADER}:LIST_MAX", f"{HEADER}:list.head", f"{HEADER}:node.value",
    }  # fmt: skip
    assert f"{HEADER}:order.DOWN" in targets(LIST, "references", f"{LIST_C}:list_add")


def test_includes_lead_to_files_of_the_source() -> None:
    assert targets(LIST, "imports", f"{MAIN}:") == {f"{HEADER}:", "missing/thing.h"}
    assert targets(GEO, "imports", "app/main.cpp:") == {f"{CIRCLE_H}:"}


def test_methods_lead_to_their_bodies_through_namespaces_aliases_and_pointers() -> None:
    assert targets(GEO, "calls", "app/main.cpp:main") >= {
        f"{CIRCLE}:Circle.unit", f"{CIRCLE}:Circle.area", f"{SHAPE}:Shape.twice", f"{CIRCLE}:Shape.scale",
        f"{CIRCLE}:deep",
    }  # fmt: skip


def test_members_are_seen_without_this() -> None:
    assert targets(GEO, "calls", f"{SHAPE}:Shape.twice") == {f"{SHAPE}:Shape.area", f"{CIRCLE}:Shape.scale"}
    assert targets(GEO, "calls", f"{CIRCLE}:Circle.area") == {
        f"{SHAPE}:Shape.twice", f"{CIRCLE}:Shape.scale", f"{SHAPE}:clamp",
    }  # fmt: skip
    assert f"{CIRCLE_H}:Circle.radius" in targets(GEO, "references", f"{CIRCLE}:Circle.area")


def test_bases_are_extended() -> None:
    assert targets(GEO, "extends", f"{CIRCLE_H}:Circle") == {f"{SHAPE}:Shape"}


def test_a_full_name_has_the_namespace() -> None:
    assert full_name(CIRCLE, "Circle.area", Files(GEO)).endswith("Circle::area")
    assert full_name(SHAPE, "Shape.twice", Files(GEO)).startswith("geo::")
    assert full_name(LIST_C, "list_new", Files(LIST)) == "list_new"


def test_an_edit_redoes_what_depends_on_it_and_gives_the_edges_of_a_full_run() -> None:
    kept = Kept()
    kept.update(GEO)
    after = GEO | {CIRCLE: GEO[CIRCLE].replace("Circle *Circle::unit()", "Shape *Circle::unit()")}
    kept.update(after)
    assert kept.edges == edges_of(after)
    kept.update(LIST)
    kept.update(LIST | {LIST_C: LIST[LIST_C].replace("helper(value)", "value")})
    assert kept.resolved == [LIST_C]


LEVEL = {
    "db/iterator.h": """#define DB_EXPORT __attribute__((visibility("default")))
namespace level {
class DB_EXPORT Iterator {
 public:
  virtual ~Iterator();
  virtual bool Valid() const = 0;
  DB_EXPORT Iterator* Next() { return this; }
};
namespace port { bool Compress(); }
namespace log { class DB_EXPORT Writer { public: void Add() {} }; }
class LOCKABLE Mutex { public: void Lock() EXCLUSIVE_LOCK_FUNCTION() {} };
}
""",
    "db/list.h": """#include "db/iterator.h"
namespace level {
class DB_EXPORT ListIterator final : public Iterator {
 public:
  bool Valid() const override { return size_ > 0; }
  void Fill() EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    mutex_.Lock();
    Next();
#ifdef WITH_PORT
    if (port::Compress()) {
#else
    if (Valid()) {
#endif
      writer_->Add();
    }
  }
 private:
  Mutex mutex_;
  int size_ GUARDED_BY(mutex_) = 0;
  log::Writer* writer_ DB_GUARDED_BY(mutex_);
};
}
""",
    "db/port.cc": """#include "db/iterator.h"
namespace level { namespace port { bool Compress() { return true; } } }
""",
    "db/list_test.cc": """#include "db/list.h"
namespace level {
class ListTest : public testing::Test {
 public:
  void Reopen() {}
  ListIterator list_;
};
TEST_F(ListTest, Empty) {
  Reopen();
  list_.Fill();
}
}
""",
}


def test_export_macros_and_annotations_hide_no_class_and_no_member() -> None:
    assert targets(LEVEL, "extends", "db/list.h:ListIterator") == {"db/iterator.h:Iterator"}
    assert targets(LEVEL, "calls", "db/list.h:ListIterator.Fill") == {
        "db/iterator.h:Mutex.Lock", "db/iterator.h:Iterator.Next", "db/port.cc:Compress",
        "db/iterator.h:Writer.Add",
    }  # fmt: skip
    fields = {one.name for one in Files(LEVEL).facts("db/list.h").definitions if one.kind == "variable"}
    assert fields == {"ListIterator.mutex_", "ListIterator.size_", "ListIterator.writer_"}


def test_a_macro_is_still_defined_where_its_uses_are_blanked() -> None:
    assert "DB_EXPORT" in {one.name for one in Files(LEVEL).facts("db/iterator.h").definitions}


def test_a_test_of_googletest_has_the_members_of_its_fixture() -> None:
    assert targets(LEVEL, "calls", "db/list_test.cc:ListTest.Empty") == {
        "db/list_test.cc:ListTest.Reopen", "db/list.h:ListIterator.Fill",
    }  # fmt: skip
