"""What is found in one realistic file per language; the lists are read from the files by eye."""

from __future__ import annotations

from itertools import pairwise

import pytest

from knowledge_pipeline.file_languages import PARSED_LANGUAGES as NAMES
from knowledge_pipeline.syntax.grammars import GRAMMARS, parse
from knowledge_pipeline.syntax.outline import Outline
from knowledge_pipeline_tests.chunking.code_samples import (
    FILES,
    WITHOUT_FUNCTIONS,
    code_chunks,
    sample,
    uncovered,
)

# kind, symbol, line
DEFINITIONS = {
    "python": """
        constant MAX_SESSIONS 13
        constant DEFAULT_TTL_S 14
        class Expired 17
        class SessionStore 22
        method SessionStore.size 32
        method SessionStore.get 38
        class SessionStore.Cursor 51
        method SessionStore.Cursor.__next__ 52
        function dump 56
        function dump.plain 59
        function fast_dump 69
    """,
    "javascript": """
        constant TAX_RATE 10
        class Item 13
        method Item.constructor 17
        method Item.price 22
        method Item.onClick 26
        function total 32
        function format 44
        function pages 48
        method Cart.clear 52
        method render 58
        class default 63
    """,
    "typescript": """
        type UserId 5
        interface User 8
        method User.greet 10
        enum Role 13
        class Users 19
        method Users.constructor 22
        method Users.find 28
        method Users.load 38
        function parse 41
        function parse 42
        module Errors 46
        class Errors.NotFound 47
        module legacy 50
        function legacy.old 51
        function toLabel 54
    """,
    "tsx": """
        interface PanelProps 4
        function Panel 10
        function Panel.toggle 12
        function Row 26
    """,
    "go": """
        constant DefaultPort 12
        constant StateIdle 15
        constant StateBusy 16
        interface Handler 22
        method Handler.Handle 24
        struct Server 28
        type Option 35
        struct Route 36
        function New 40
        method Server.Listen 49
        function Map 62
    """,
    "java": """
        class Repository 11
        method Repository.Repository 19
        method Repository.find 25
        method Repository.close 35
        class Repository.Cursor 41
        interface Finder 46
        method Finder.find 47
        method Finder.has 49
        enum Color 54
        method Color.next 57
        class Point 62
        method Point.Point 63
        interface Marker 68
    """,
    "rust": """
        constant CAPACITY 7
        constant NAME 8
        type Result 10
        struct Job 14
        enum QueueError 20
        trait Wait 26
        method Wait.wait 27
        method Wait.patient 29
        struct Queue 34
        impl Queue 38
        method Queue.new 40
        method Queue.push 45
        impl Job 57
        method Job.fmt 58
        macro job 63
        function drain 69
        module tests 78
        function tests.pushes 82
    """,
    "c": """
        constant MAX_NODES 8
        macro SQUARE 9
        struct list_t 11
        enum order 16
        struct pair 18
        function list_push 25
        function list_name 36
        function list_print 42
    """,
    "cpp": """
        module geometry 8
        class geometry.Shape 13
        method geometry.Shape.Shape 15
        method geometry.Shape.~Shape 16
        method geometry.Shape.scaled 21
        struct geometry.Point 29
        method geometry.Point.operator== 31
        enum geometry.Color 34
        function geometry.largest 37
        method geometry.Circle.area 45
        function main 54
    """,
    "c_sharp": """
        module Shop.Orders 5
        enum Shop.Orders.Problem 8
        type Shop.Orders.Changed 10
        interface Shop.Orders.IOrders 12
        method Shop.Orders.IOrders.Find 14
        struct Shop.Orders.Money 17
        class Shop.Orders.Order 22
        class Shop.Orders.Orders 26
        method Shop.Orders.Orders.Orders 31
        property Shop.Orders.Orders.Count 36
        method Shop.Orders.Orders.Find 40
        method Shop.Orders.Orders.Dispose 53
    """,
    "ruby": """
        module Mail 7
        constant Mail.VERSION 8
        class Mail.Inbox 11
        method Mail.Inbox.initialize 15
        method Mail.Inbox.each 20
        method Mail.Inbox.open 28
        method Mail.Inbox.reset! 32
        method Mail.Inbox.empty 37
        function main 44
    """,
    "php": """
        constant VERSION 10
        interface Handler 12
        method Handler.handle 14
        trait Counts 17
        method Counts.increment 21
        enum Method 27
        class Router 37
        constant Router.LIMIT 41
        method Router.__construct 43
        method Router.handle 48
        method Router.count 58
        function route 64
    """,
    "kotlin": """
        constant LIMIT 6
        type Tokens 8
        class Token 11
        interface Visitor 13
        method Visitor.visit 14
        method Visitor.done 15
        enum Kind 18
        class Node 20
        object Registry 22
        method Registry.visit 23
        class Parser 32
        method Parser.constructor 35
        method Parser.parse 39
        object Parser.Companion 52
        method Parser.Companion.of 53
        function tokens 57
        function main 59
    """,
    "swift": """
        constant maximumAmount 4
        type Amount 6
        interface Balanced 9
        method Balanced.deposit 11
        enum AccountError 14
        class Account 21
        method Account.init 24
        method Account.deposit 30
        method Account.deinit 42
        struct Transfer 47
        method Transfer.run 50
        extension Account 60
        property Account.description 61
        method Account.close 63
        function total 68
    """,
    "scala": """
        class Product 7
        trait Finder 9
        method Finder.find 10
        method Finder.has 12
        class Catalog 19
        method Catalog.find 23
        method Catalog.close 34
        object Catalog 41
        method Catalog.apply 44
        enum Color 47
    """,
    "bash": """
        constant TIMEOUT_S 8
        function usage 12
        function build 19
        function deploy 27
    """,
    "lua": """
        constant MAX_SESSIONS 6
        constant Session 8
        method Session.new 13
        method Session.add 18
        function encode 30
        method Session.dump 34
        constant handlers 38
        function handlers.open 39
        function handlers.close 43
        function on_error 50
    """,
    "elixir": """
        module Shop.Cart 1
        module Shop.Cart.Full 16
        function Shop.Cart.add 22
        function Shop.Cart.add 26
        function Shop.Cart.total 29
        function Shop.Cart.describe 37
        function Shop.Cart.limit 44
        module Shop.Priced 47
        function Shop.Priced.price 49
        impl Shop.Item 52
        method Shop.Item.price 53
    """,
    "haskell": """
        type Amount 12
        type Account 15
        type Entry 20
        class Summed 23
        impl Account 26
        method Account.summed 27
        function balance 31
        function balance 32
        function largest 38
    """,
    "ocaml": """
        module Names 4
        type Full 7
        type entry 9
        type state 14
        interface STORE 16
        type STORE.t 17
        method STORE.find 18
        constant capacity 21
        function is_old 24
        module Bounded 27
        constant Bounded.size 28
        function Bounded.put 31
        class counter 37
        method counter.next 39
    """,
    "powershell": """
        enum Level 8
        class Backup 14
        method Backup.Backup 17
        method Backup.IsOld 21
        function Remove-OldBackup 33
        function Select-Large 43
    """,
    "sql": """
        table shop.orders 3
        index orders_by_customer 9
        view paid 12
        type mood 18
        function total 20
    """,
    "zig": """
        constant capacity 5
        enum Problem 8
        enum State 10
        struct Ring 13
        method Ring.push 18
        method Ring.clear 26
        struct Value 31
        function describe 33
        function main 40
        function a ring holds what was pushed 48
    """,
    "hcl": """
        block terraform 2
        block variable.region 6
        block locals 11
        block resource.aws_vpc.main 17
        block resource.aws_security_group.web 25
        block data.aws_ami.latest 37
        block module.dns 41
        block output.vpc 46
    """,
    "terraform": """
        block terraform 2
        block variable.region 6
        block locals 11
        block resource.aws_vpc.main 17
        block resource.aws_security_group.web 25
        block data.aws_ami.latest 37
        block module.dns 41
        block output.vpc 46
    """,
    "dockerfile": """
        stage build 5
        stage python:${PYTHON}-slim 12
    """,
}

# a chunk's symbol: its complexity, counted by hand
COMPLEXITY = {
    "python": {"SessionStore.get": 6, "dump": 3},  # if, and, for, if, except; conditional, comprehension
    "javascript": {"total": 6},  # for, if, &&, if, ?:
    "typescript": {"Users.find": 3, "toLabel": 2},  # ??, case; ||
    "tsx": {"Panel": 4},  # if, &&, ?:
    "go": {"New": 2, "Server.Listen": 4},  # for; if, ||, case
    "java": {"Repository.find": 4, "Repository.close": 2},  # for, if, ||; while
    "rust": {"Queue.push": 4, "drain": 2},  # if and two arms; for
    "c": {"list_push": 4, "list_print": 2},  # if, ||, for; case
    "cpp": {"geometry.Shape.scaled": 3, "geometry.largest": 3, "geometry.Circle.area": 2},
    "c_sharp": {"Shop.Orders.Orders.Find": 5},  # if, ||, foreach, if
    "ruby": {"Mail.Inbox.each": 4, "main": 2},  # unless, if, &&; when
    "php": {"Router.handle": 4, "route": 2},  # foreach, if, &&; ?:
    "kotlin": {"Parser.parse": 6},  # for, if, ||, two of when
    "swift": {"Account.deposit": 5, "Transfer.run": 3},  # guard, &&, for, if; two of switch
    "scala": {"Catalog.find": 5, "Catalog.close": 2},  # if, ||, two cases; for
    "bash": {"build": 5, "deploy": 5},  # for, if, &&, ||; three cases, while
    "lua": {"Session.add": 5, "handlers.close": 2},
    "elixir": {"Shop.Cart.total": 4, "Shop.Cart.describe": 3},
    "haskell": {"balance": 3, "largest": 3},
    "ocaml": {"is_old": 3, "Bounded.put": 3},
    "powershell": {"Backup.IsOld": 3, "Remove-OldBackup": 4, "Select-Large": 2},
    "sql": {"paid": 2},
    "zig": {"Ring.push": 3, "Ring.clear": 2, "describe": 3, "main": 2},
    "hcl": {"locals": 2, "resource.aws_security_group.web": 2},
    "terraform": {"locals": 2, "resource.aws_security_group.web": 2},
    "dockerfile": {},
}

BASES = {
    "python": {"SessionStore": ["Base", "Mapping"]},
    "javascript": {"Item": ["Product"], "default": ["Item"]},
    "typescript": {"User": ["Named", "Dated"], "Users": ["Service", "Finder", "Disposable"]},
    "tsx": {},
    "go": {"Server": ["http.Server"], "Handler": ["http.Handler"]},
    "java": {"Repository": ["Base", "Finder", "AutoCloseable"]},
    "rust": {"Wait": ["Send", "fmt::Debug"], "Job": ["fmt::Display"]},
    "c": {},
    "cpp": {"geometry.Shape": ["Named", "detail::Counted"]},
    "c_sharp": {"Shop.Orders.Orders": ["Repository", "IOrders"], "Shop.Orders.IOrders": ["IDisposable"]},
    "ruby": {"Mail.Inbox": ["Box"]},
    "php": {"Router": ["Base", "Handler", "\\Countable"]},
    "kotlin": {"Parser": ["Base", "Visitor"], "Registry": ["Visitor"], "Visitor": ["Closeable"]},
    "swift": {"Account": ["Base", "Balanced"], "Balanced": ["AnyObject"], "AccountError": ["Error"]},
    "scala": {"Catalog": ["Base", "Finder"], "Finder": ["AutoCloseable"]},
    "bash": {},
    "lua": {},
    "elixir": {"Shop.Item": ["Shop.Priced"]},
    "haskell": {"Account": ["Summed"]},
    "ocaml": {},
    "powershell": {"Backup": ["Base"]},
    "sql": {},
    "zig": {},
    "hcl": {},
    "terraform": {},
    "dockerfile": {},
}

IMPORTS = {
    "python": ["__future__", "json", "logging", "collections.abc", "typing", "datetime", "orjson"],
    "javascript": ["node:fs", "node:path", "lodash"],
    "typescript": ["express", "@angular/core", "axios"],
    "tsx": ["react", "./Button"],
    "go": ["fmt", "net/http", "github.com/rs/zerolog/v2"],
    "java": ["java.util.List", "java.util.Optional", "java.util.Objects.requireNonNull"],
    "rust": ["std::collections", "std::fmt", "serde::Serialize"],
    "c": ["stdio.h", "node.h"],
    "cpp": ["memory", "vector", "shape.hpp", "std::vector"],
    "c_sharp": ["System", "System.Collections.Generic", "System.Text.Json"],
    "ruby": ["json", "message"],
    "php": ["App\\Http\\Request", "Psr\\Log\\LoggerInterface"],
    "kotlin": ["java.io.File", "kotlin.math.max"],
    "swift": ["Foundation", "UIKit.UIView"],
    "scala": ["scala.collection.mutable", "scala.util"],
    "bash": ["./lib/log.sh", "$HOME/.profile"],
    "lua": ["json", "app.log", "app.setup"],
    "elixir": ["GenServer", "Shop", "Ecto.Query", "Logger"],
    "haskell": ["Data.Map.Strict", "Data.Maybe"],
    "ocaml": ["Printf"],
    "powershell": ["System.IO", "Storage", "$PSScriptRoot/log.ps1"],
    "sql": [],
    "zig": ["std", "log.zig"],
    "hcl": [],
    "terraform": [],
    "dockerfile": [],
}

# a chunk's symbol: the modules whose names it uses
DEPENDENCIES = {
    "python": {"SessionStore.get": ["logging"], "dump": ["json"]},
    "javascript": {"format": ["lodash"], "render": ["node:fs", "node:path"]},
    "typescript": {"Users.find": ["axios"]},
    "tsx": {"Panel": ["react", "./Button"], "Row": ["react"]},
    "go": {"Server.Listen": ["fmt", "github.com/rs/zerolog/v2"]},
    "java": {"Repository.find": ["java.util.Optional"]},
    "rust": {"drain": ["std::collections"], "Job.fmt": ["std::fmt"]},
    "php": {"Router.__construct": ["Psr\\Log\\LoggerInterface"]},
    "kotlin": {"Parser.parse": ["kotlin.math.max"], "Parser": ["java.io.File"]},
    "lua": {"encode": ["json"], "on_error": ["app.log"]},
    "haskell": {"largest": ["Data.Map.Strict", "Data.Maybe"]},
    "zig": {"main": ["std"]},
}

EXPORTS = {
    "python": ["MAX_SESSIONS", "DEFAULT_TTL_S", "Expired", "SessionStore", "dump", "fast_dump"],
    "javascript": ["TAX_RATE", "Item", "total", "render", "default"],
    "typescript": ["UserId", "User", "Role", "Users", "parse", "Errors", "NotFound", "old", "toLabel"],
    "tsx": ["Panel"],
    "go": [
        "DefaultPort",
        "StateIdle",
        "StateBusy",
        "Handler",
        "Server",
        "Option",
        "Route",
        "New",
        "Listen",
        "Map",
    ],
    "java": ["Repository"],
    "rust": ["CAPACITY", "Result", "Job", "QueueError", "Wait", "Queue", "drain"],
    "c": ["MAX_NODES", "SQUARE", "list_t", "order", "pair", "list_push", "list_print"],
    "swift": ["Account"],
    "kotlin": ["LIMIT", "Tokens", "Token", "Visitor", "Kind", "Node", "Registry", "Parser", "tokens", "main"],
    "bash": ["TIMEOUT_S", "usage", "build", "deploy"],
    "haskell": ["Amount", "Account", "Entry", "Summed", "balance", "largest"],
}

IMPORT_LINES = {
    "python": [3, 5, 6, 7, 8],
    "javascript": [6, 7, 8],
    "typescript": [1, 2, 3],
    "tsx": [1, 2],
    "go": [4, 5, 6, 8, 9],
    "java": [3, 4, 5],
    "rust": [3, 4, 5, 79],
    "c": [5, 6],
    "cpp": [2, 3, 4, 6],
    "c_sharp": [1, 2, 3],
    "ruby": [3, 4],
    "php": [7, 8],
    "kotlin": [3, 4],
    "swift": [1, 2],
    "scala": [3, 4],
    "bash": [5, 6],
    "lua": [2, 3, 4],
    "elixir": [7, 8, 9, 10],
    "haskell": [8, 9],
    "ocaml": [3],
    "powershell": [2, 3, 4],
    "sql": [],
    "zig": [2, 3],
    "hcl": [],
    "terraform": [],
    "dockerfile": [],
}

languages = pytest.mark.parametrize("language", FILES)


def test_every_language_of_the_table_has_a_grammar_and_a_sample():
    assert set(GRAMMARS) - {"ocaml_interface"} == set(NAMES) == set(FILES)


@languages
def test_every_definition_is_found_with_its_kind_name_and_line(language):
    text = sample(language)
    syntax = parse(text, language)
    assert syntax is not None
    found = [
        f"{each.kind} {each.symbol} {text.count(chr(10), 0, each.start_char) + 1}"
        for each in Outline(syntax).definitions
    ]
    assert found == [line.strip() for line in DEFINITIONS[language].strip().splitlines()]


@languages
@pytest.mark.parametrize("granularity", ["file", "class", "function", "method"])
def test_every_character_of_a_sample_is_in_one_chunk(language, granularity):
    text = sample(language)
    chunks = code_chunks(text, language, max_tokens=100, min_tokens=30, granularity=granularity)
    assert uncovered(text, chunks) == ""
    assert all(first.end_char <= second.start_char for first, second in pairwise(chunks))
    assert max(chunk.tokens for chunk in chunks) <= 100


@languages
def test_every_function_with_a_body_is_a_chunk_of_its_own(language):
    text = sample(language)
    syntax = parse(text, language)
    assert syntax is not None
    symbols = [
        each.symbol
        for each in Outline(syntax).definitions
        if each.kind in ("function", "method", "property")
        and each.body_start_char is not None
        and (each.parent is None or each.parent.kind not in ("function", "method"))
    ]
    functions = list(dict.fromkeys(symbols))  # Haskell's clauses are as many definitions
    assert functions or language in WITHOUT_FUNCTIONS
    chunks = code_chunks(text, language, max_tokens=1000)
    cut = [each.metadata["symbol"] for each in chunks if "function_name" in each.metadata]
    assert list(dict.fromkeys(symbol for symbol in cut if symbol in functions)) == functions


@languages
def test_complexity_counts_branches(language):
    chunks = code_chunks(sample(language), language, max_tokens=1000)
    found = {chunk.metadata.get("symbol"): chunk.metadata["complexity"] for chunk in chunks}
    assert {symbol: found[symbol] for symbol in COMPLEXITY[language]} == COMPLEXITY[language]


@languages
def test_bases_are_named_without_their_arguments(language):
    syntax = parse(sample(language), language)
    assert syntax is not None
    found = {each.symbol: each.bases for each in reversed(Outline(syntax).definitions) if each.bases}
    assert {symbol: found[symbol] for symbol in BASES[language]} == BASES[language]


@languages
def test_imports_of_the_file_are_on_every_chunk(language):
    chunks = code_chunks(sample(language), language)
    assert all(chunk.metadata.get("imports", []) == IMPORTS[language] for chunk in chunks)


@pytest.mark.parametrize("language", DEPENDENCIES)
def test_dependencies_are_the_imports_that_a_chunk_uses(language):
    chunks = code_chunks(sample(language), language, max_tokens=1000)
    found = {chunk.metadata.get("symbol"): chunk.metadata.get("dependencies") for chunk in chunks}
    expected = DEPENDENCIES[language]
    assert {symbol: found[symbol] for symbol in expected} == expected


@pytest.mark.parametrize("language", EXPORTS)
def test_exports_are_the_public_names_of_a_file(language):
    chunks = code_chunks(sample(language), language, max_tokens=1000)
    exported = [name for chunk in chunks for name in chunk.metadata.get("exports", ())]
    assert list(dict.fromkeys(exported)) == EXPORTS[language]


@languages
def test_imports_can_be_left_out(language):
    text = sample(language)
    chunks = code_chunks(text, language, include_imports=False)
    lines = text.splitlines()
    imports = "".join(lines[number - 1] for number in IMPORT_LINES[language])
    assert uncovered(text, chunks) == "".join(imports.split())
