"""Where code declares or uses a route, topic, table, variable or feature flag.

Frameworks and clients of all languages call them alike: a name, then a text as an argument. So a table of
calls is looked for in the text; no grammar is needed, and what varies in an address is seen as such.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from operator import itemgetter
from typing import NamedTuple

from knowledge_pipeline.code_graph.facts import SystemKind
from knowledge_pipeline.system_names import ANY_METHOD, METHODS, build_name, build_route, has_word


class FoundUse(NamedTuple):
    """A place in a text that declares or uses a system name."""

    kind: SystemKind
    name: str
    at: int  # its first character
    percent: int = 100  # how sure it is
    is_mark: bool = False  # a decorator, an annotation: it belongs to the definition that follows


class _Call(NamedTuple):
    """What a call of a name says, where what it is called on fits."""

    of: str  # a kind of system names, or "prefix"
    kind: SystemKind
    arguments: tuple[str, ...]  # positions and keywords: the first that is a text counts
    receiver: re.Pattern[str]  # "@": it is a decorator or an annotation


_SERVERS = r"(?:app|application|router|routes?|server|fastify|blueprint|bp|mux|engine|group|[egr]|v\d+|api)$"
_CLIENTS = r"(?:axios|requests?|httpx?|https|client|session|got|ky|agent|api|rest|template|web|page|\))$"
_BROKERS = (
    r"(?:chan|channel|ch|producer|consumer|template|redis\w{0,60}|client|r|p|\w{0,60}[ps]ub|conn|broker|nc)$"
)
_VERBS = "get post put patch delete head options"
_CALLS_TABLE = f"""
route  declares 0,path,value,template,route @  {_VERBS} route api_route Route websocket
route  declares 0,path,value @           GetMapping PostMapping PutMapping PatchMapping DeleteMapping
route  declares 0,path,value @           RequestMapping Path Endpoint
route  declares 0,template   @           HttpGet HttpPost HttpPut HttpPatch HttpDelete
route  declares 0            @           Get Post Put Patch Delete All Head Options Controller
route  declares 0            {_SERVERS}  {_VERBS} all any match add_url_rule add_api_route route
route  declares 0            {_SERVERS}  GET POST PUT PATCH DELETE Any Get Post Put Patch Delete
route  declares 0            {_SERVERS}|http$  Handle HandleFunc
route  declares 0            .           MapGet MapPost MapPut MapPatch MapDelete
route  declares 0            \\)$        Path PathPrefix
route  declares 0,route      ^$          path re_path
route  declares 0            ^$          {_VERBS}
route  uses     0,url,uri    {_CLIENTS}  {_VERBS} Get Post Put Patch Delete Head
route  uses     1,0,url,uri  ^$|{_CLIENTS}  request NewRequest NewRequestWithContext HttpRequestMessage
route  uses     0,url,uri    .|^$        fetch useFetch urlopen http axios
route  uses     0,url,uri    ^$          HttpGet HttpPost HttpPut HttpPatch HttpDelete got ky superagent
route  uses     0            .           getForObject getForEntity postForObject postForEntity exchange
route  uses     0            \\)$        uri
route  uses     0            .           GetAsync PostAsync PutAsync PatchAsync DeleteAsync GetStringAsync
route  uses     0            .           GetFromJsonAsync PostAsJsonAsync PutAsJsonAsync PatchAsJsonAsync
prefix declares 0,prefix,url_prefix | APIRouter Blueprint Group MapGroup Router use include_router
topic  declares 0,topic,QueueUrl {_BROKERS} send Send produce send_message
topic  declares routing_key,channel,TopicArn,exchange,1,0 {_BROKERS} publish basic_publish Publish
topic  declares 1,0          {_BROKERS}  convertAndSend
topic  declares 0            {_BROKERS}  sendToQueue rpush lpush RPush LPush rPush lPush xadd XAdd
topic  declares 0            {_BROKERS}  ListLeftPushAsync ListRightPushAsync
topic  declares 0,Topic      .|^$        ProducerRecord ProducerMessage
topic  uses     0,topics,topic,queues,queueNames,value @  KafkaListener RabbitListener SqsListener JmsListener
topic  uses     0,topic,topics,queue {_BROKERS} subscribe Subscribe consume Consume basic_consume psubscribe
topic  uses     0,1          {_BROKERS}  blpop brpop lpop rpop BLPop BRPop xread ListLeftPopAsync
topic  uses     0,queue      {_BROKERS}  queue_declare QueueDeclare assertQueue
topic  uses     0            .|^$        setQueueNames Queue NewTopic KafkaConsumer
topic  uses     QueueName,QueueUrl {_BROKERS}  get_queue_by_name receive_message
table  declares 0,name       .|^$        create_table createTable Table ToTable
table  declares name,0       @           Table Entity
table  uses     0            .           collection getCollection get_collection
flag   uses     0,flagKey    .|^$        variation boolVariation BoolVariation stringVariation getTreatment
flag   uses     0            .|^$        getBooleanValue getStringValue get_boolean_value IsEnabledAsync
flag   uses     0            .|^$        isFeatureEnabled feature_enabled useFeatureFlag isEnabled is_enabled
flag   uses     1            ^$|waffle$  flag_is_active switch_is_active
"""


_CALLS: dict[str, list[_Call]] = {}
for _of, _kind, _arguments, _receiver, *_names in map(str.split, _CALLS_TABLE.strip().splitlines()):
    _role: SystemKind = "declares" if _kind == "declares" else "uses"
    for _name in _names:
        _call = _Call(_of, _role, tuple(_arguments.split(",")), re.compile(_receiver, re.IGNORECASE))
        _CALLS.setdefault(_name, []).append(_call)

_BY_LETTER = {
    first: [name[1:] for name in _CALLS if name[0] == first] for first in {name[0] for name in _CALLS}
}
_NAMES = "|".join(
    f"{first}(?:{'|'.join(rest)})" for first, rest in sorted(_BY_LETTER.items())
)  # found faster so
_CALL = re.compile(rf"\b({_NAMES})(?:<(?:[^<>()\n]|<[^<>()\n]{{0,80}}>){{0,200}}>)?\s?(?:\(|(?<=Message)\{{)")
_BARE_MARK = re.compile(
    r"[@[]((?:Get|Post|Put|Patch|Delete)Mapping|Http(?:Get|Post|Put|Patch|Delete)|Get|Post)(?=[ \t]*[\n\]])"
)
_BEFORE_CHARS, _ARGUMENT_CHARS, _AFTER_CHARS, _SCOPE_CHARS = 120, 700, 300, 1_500
_RECEIVER = re.compile(r"([\w$]{1,60}|[)\]])\s{0,40}\??(?:\.|->|::|!\.)\s{0,40}$")
_MARK = re.compile(r"(?:@(?:[\w.]{1,60}\.)?|#\[)$")
_CSHARP_MARK = re.compile(r"(?:^|[\s(])\[(?:\w{1,40}(?:\([^()\n]{0,60}\))?,\s?)?$")
_COMMENT = re.compile(r"[ \t]*(?://|#(?!\[)|\*(?![ \t]*@)|--|>>>|<!--)")
_TOKEN = re.compile(r"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|`[^`]*`|[()\[\]{},]")
_KEYWORD = re.compile(r"\s*([\"']?)(?P<key>[\w-]+)\1\s*(?::(?!:)|=(?![=>]))\s*")
_TEXT = re.compile(
    r"(?:\b[frbuFRB]{1,2}|[$@]{1,2})?(?:\"((?:[^\"\\\n]|\\.)*)\"|'((?:[^'\\\n]|\\.)*)'|`([^`]*)`)"
)
_STARTS_TEXT = (  # or joins one, or formats it
    r"[ \t]*(?=[frbu$@]{0,2}[\"'`]"
    r"|[\w.]{1,40}[ \t]*(?:\+[ \t]*|\((?:[\w.]{1,80},\s{0,80})?)[fu$@]{0,2}[\"'`])"
)
_DYNAMIC = re.compile(r"[$#]?\{[^{}]*(?:\{[^{}]*\}[^{}]*)?\}|\$[A-Za-z_]\w*|\\\([^()]*\)|%[sdvq]")
_NAME = re.compile(r"(?:[\w$]+(?:\.|->|::))*([\w$]+)")
_SUBSCRIPT = re.compile(r"[\w.]{1,60}\[[\"'](\w{1,60})[\"']\]")
_GIVEN = re.compile(rf"(?:[\"']\])?[ \t]*(?::[ \t]*\w+[ \t]*)?:?={_STARTS_TEXT}")  # behind a name
_SET = re.compile(r"[ \t]*(?::[ \t]*\w+[ \t]*)?:?=(?![=>])")
_IN_NAME = re.compile(r"\w")
_NAMED_URL = re.compile(
    rf"(?:[uU](?:rl|ri|RL|RI)|[eE]ndpoint|ENDPOINT|href)[\"']?[ \t]*(?::(?![:=])|:=|=(?![=>])){_STARTS_TEXT}"
)
_HTTP_TEXT = re.compile(r"[\"'`]https?://[\w.:{}$%-]{1,100}/\w")
_RELATIVE = re.compile(r"[A-Za-z][\w-]*/[\w{]")
OUTER_HOST = re.compile(
    r"https?://(?:localhost|127\.|0\.0\.|[\w-]+(?:\.[\w-]+)*\.(?!local\b|internal\b|svc\b|cluster\b)[a-z]{2,20}(?:[:/]|$))"
)
_CLASS = re.compile(r"\b(?:class|interface)\s+(\w+)")
_MARKS = re.compile(r"[@\[][\w.]+(?:\([^()]*\))?\]?|\{[^{}\n]*\}")
_NOT_CLASS = re.compile(r"[;{]|\b(?:def|func|fn|function|fun|void|return|async)\b")
_METHOD = re.compile(rf"\b({'|'.join(METHODS)})\b", re.IGNORECASE)
_METHOD_SET = re.compile(r"\bmethods?\b[\"']?\s*[:=]\s*([^\n]{1,60})|(?:HttpMethod|RequestMethod)\.(\w+)")
_CHAINED_METHOD = rf"\.(?:[Mm]ethods?\(([^()\n]{{1,60}})\)|({_VERBS.replace(' ', '|')})\(\))"
_METHOD_AFTER = re.compile(rf"\s*{_CHAINED_METHOD}")
_METHOD_BEFORE = re.compile(rf"{_CHAINED_METHOD}\s*\.\s*$")
_METHOD_FIRST = re.compile(rf"(?:^|[\s\"'.])(?:Method)?({'|'.join((*METHODS, *map(str.title, METHODS)))})\b")
_METHOD_NAME = re.compile(rf"(?:Http(?!R)|Map)?({'|'.join(METHODS)})(?!Mapped)", re.IGNORECASE)
_METHOD_PATH = re.compile(rf"({'|'.join(METHODS)}) /")  # Go's "GET /orders"
_GET_SERVERS, _GET_CLIENTS = ("route", "websocket"), ("fetch", "request", "urlopen")
_ASSIGNED = re.compile(r"(\w{1,60})[ \t]{0,20}:?=[ \t]{0,20}(?:await )?[\w.()]{0,60}$")
_HANDLERS = re.compile(r"\b(get|post|put|patch|delete)\(")
_HANDLER = re.compile(
    r"=>|\bfunc(?:tion)?\b|\}\s*$|^\s*[A-Za-z_$][\w$.]*(?:\([\w., ]*\))?\s*$|\b(?:get|post|put)\("
)
_VARIABLE = re.compile(r"(?:[\"']|\.env\.|\"\$\{)([A-Z][A-Z0-9_]{2,60})\b")
_READS_VARIABLE = re.compile(
    r"(?:environ(?:\.get|\.setdefault)?|[gG]et_?[eE]nv(?:ironmentVariable)?|LookupEnv|env::var(?:_os)?|\bENV(?:\.fetch)?"
    r"|\$_ENV|\$_SERVER|\benv|env\.get|mustMapEnv)\s?[\[(]\s?(?:&?[\w.]{1,60},\s?)?[\"']$|\.env\.$|@Value\(\s?\"\$\{$"
)
_SETTINGS = re.compile(r"^class \w{1,80}\([^()\n]{0,200}\bBaseSettings\b[^()\n]{0,100}\):", re.MULTILINE)
_SETTINGS_PREFIX = re.compile(r"\benv_prefix[\"']?\s?[=:]\s?[\"'](\w{1,60})[\"']")
_SETTINGS_FIELD = re.compile(r"^(?: {4}|\t)([A-Za-z]\w{2,60})[ \t]?:[ \t]", re.MULTILINE)
_DEDENT = re.compile(r"\n(?=[^\s#)])")
_SQL_START = re.compile(
    r"[\"'`]\s{0,200}(?:SELECT\s|INSERT\s+INTO\s|UPDATE\s+\S{1,60}\s+SET\s|DELETE\s+FROM\s|CREATE\s+TABLE\s|MERGE\s+INTO\s"
    r"|ALTER\s+TABLE\s|WITH\s+\w{1,60}\s+AS\s|select\s|insert\s+into\s|update\s+\S{1,60}\s+set\s|delete\s+from\s)"
)
_SQL_CHARS, _MAX_USES = 3_000, 2_000  # of one statement, and of one file
_SQL_TABLE = re.compile(
    r"\b(CREATE\s+TABLE(?:\s+IF\s+NOT\s+EXISTS)?|FROM|JOIN|INTO|UPDATE(?:\s+ONLY)?|ALTER\s+TABLE(?:\s+ONLY)?|REFERENCES)"
    r"\s+(?!(?:select|set|dual|where|values|lateral|unnest|only|on|table|the|a)\b)"
    r"([\"`\[]?[A-Za-z_][\w$]*[\"`\]]?(?:\.[\"`\[]?[A-Za-z_][\w$]*[\"`\]]?){0,2})",
    re.IGNORECASE,
)
_SQL_LOCAL = re.compile(r"\b(\w+)\s+AS\s*\(", re.IGNORECASE)  # WITH name AS (…)
_MODEL = re.compile(
    r"(?:__tablename__|\bdb_table|\$table|\.table_name)\s*=\s*[\"'](\w+)[\"']"
    r"|TableName\(\) string \{\s*return \"(\w+)\"|^class (\w+)\([^)\n]{0,99}\btable\s*=\s*True|\bDbSet<(\w+)>"
    r"|@Entity\b(?!\s*\()(?![^{}]{0,300}@Table)[^{};]{0,300}?\bclass (\w+)",
    re.MULTILINE,
)


_MODEL_WORDS = (
    "tablename__",
    "db_table",
    "$table",
    "able_name",
    "ableName",
    "table=True",
    "DbSet<",
    "@Entity",
)  # without which looking for a model takes time for nothing


def find_system_uses(text: str, language: str) -> list[FoundUse]:
    """The places of code that declare or use a system name, in their order, each once."""
    uses = [*_CodeReader(text, language).read(), *_find_tables(text)]
    for match in _VARIABLE.finditer(text):
        if _READS_VARIABLE.search(text[max(0, match.start() - 80) : match.start(1)]):
            uses.append(FoundUse("uses", f"variable {match[1]}", match.start()))
    if language == "python":
        uses += _read_settings_classes(text)
    surest = {(use.kind, use.name, use.at): use for use in sorted(uses, key=lambda use: use.percent)}
    return sorted(surest.values(), key=lambda use: (use.at, use.name))[:_MAX_USES]


def _read_settings_classes(text: str) -> Iterator[FoundUse]:
    """The variables that the fields of pydantic's settings are read from."""
    for start in _SETTINGS.finditer(text):
        dedent = _DEDENT.search(text, start.end())
        span = start.end(), dedent.start() if dedent else len(text)
        prefix = _SETTINGS_PREFIX.search(text, *span)
        for field in _SETTINGS_FIELD.finditer(text, *span):
            name = f"{prefix[1] if prefix else ''}{field[1]}".upper()
            if field[1] != "model_config":
                yield FoundUse("uses", f"variable {name}", field.start(1), 90)


def _find_tables(text: str) -> Iterator[FoundUse]:
    """Tables of SQL in texts, and of models that say their table's name or are called like it."""
    end = 0
    for match in _SQL_START.finditer(text):
        if (start := match.start()) >= end:
            quote = text[start]
            marks = quote * 3 if text.startswith(quote * 2, start - 2) and quote != "`" else quote
            end = text.find(marks, match.end(), match.end() + _SQL_CHARS)
            end = match.end() + _SQL_CHARS if end < 0 else end
            yield from (use._replace(at=start + use.at) for use in read_sql(text[start:end]))
    for match in _MODEL.finditer(text) if any(word in text for word in _MODEL_WORDS) else ():
        written, of_class = match[1] or match[2], match[3] or match[4] or match[5] or ""
        name = build_name("table", written or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", of_class))
        if name:
            yield FoundUse("declares", name, match.start(), 100 if written else 60)


def read_sql(sql: str) -> Iterator[FoundUse]:
    """The tables that statements make, read or write."""
    local = {name.lower() for name in _SQL_LOCAL.findall(sql)}
    for match in _SQL_TABLE.finditer(sql):
        name = build_name("table", match[2])
        if name and name[6:] not in local:
            yield FoundUse("declares" if match[1][:6].upper() == "CREATE" else "uses", name, match.start(2))


class _Arguments(NamedTuple):
    """The arguments of a call as they are written."""

    text: str
    end: int  # after the closing bracket
    positional: list[str]
    keywords: dict[str, str]


def _split_parts(text: str) -> tuple[list[str], int]:
    """What stands between commas, up to the bracket that closes, and where that is."""
    parts, start, depth = list[str](), 0, 0
    for token in _TOKEN.finditer(text):
        depth += (token[0] in "([{") - (token[0] in ")]}")
        if depth < 0:
            return [*parts, text[start : token.start()]], token.start()
        if token[0] == "," and not depth:
            parts.append(text[start : token.start()])
            start = token.end()
    return [*parts, text[start:]], len(text)


def _split(text: str, at: int = 0) -> _Arguments:
    """The arguments of a call, up to the bracket that closes; the keys of an object are keywords, too."""
    parts, end = _split_parts(text)
    arguments = _Arguments(text[:end], at + end + 1, [], {})
    for part in parts:
        if keyword := _KEYWORD.match(part):
            arguments.keywords[keyword["key"]] = part[keyword.end() :]
        elif part := part.strip():
            arguments.positional.append(part)
            if part.startswith("{"):
                arguments.keywords.update(_split(part[1:-1]).keywords)
    return arguments


class _Site(NamedTuple):
    """A call in its text."""

    name: str
    start: int
    before: str
    called_on: str  # the last name before its dot
    arguments: _Arguments
    after: str


class _CodeReader:
    """Reads the calls of one text."""

    def __init__(self, text: str, language: str) -> None:
        self._text, self._language = text, language
        self._uses: list[FoundUse] = []
        self._spans: list[tuple[int, int]] = []  # of calls that a route was found in, in their order
        self._prefixes: dict[str, str] = {}  # of routes that are declared on a name
        self._class_prefix = ""
        self._assignments: dict[tuple[str, int], tuple[list[tuple[int, str | None]], str | None]] = {}

    def read(self) -> list[FoundUse]:
        """Routes, topics, tables and flags of calls; then addresses that have a name, or a host within."""
        calls = [*_CALL.finditer(self._text), *_BARE_MARK.finditer(self._text)]
        for match in sorted(calls, key=lambda match: match.start()):
            if not self._is_comment(match.start()):
                self._read_call(match)
        starts = {match.end() for match in _NAMED_URL.finditer(self._text)}
        starts |= {match.start() for match in _HTTP_TEXT.finditer(self._text)}
        for at in sorted(starts):
            span = bisect_right(self._spans, (at, len(self._text))) - 1
            if (span < 0 or self._spans[span][1] <= at) and not self._is_comment(at):
                self._read_address(at)
        return self._uses

    def _is_comment(self, at: int) -> bool:
        start = max(self._text.rfind("\n", 0, at) + 1, at - _BEFORE_CHARS)
        return _COMMENT.match(self._text, start) is not None

    def _read_line(self, at: int) -> str:
        """The expression that starts somewhere: up to the end of its statement, or of a place in a list."""
        return re.split(
            r";|\n(?!\s*[+.])", _split_parts(self._text[at : at + _ARGUMENT_CHARS])[0][0], maxsplit=1
        )[0]

    def _read_address(self, at: int) -> None:
        address = self._shape(self._read_line(at), at)
        nearby = _METHOD_SET.search(self._text, at, at + _AFTER_CHARS)
        method = _METHOD.search(nearby[1] or nearby[2]) if nearby else None
        has_base = address and (address.startswith("{}/") or "://" in address)
        if not address or (
            not (method and address[0] == "/") and (not has_base or OUTER_HOST.match(address))
        ):
            return  # a page, or a document
        for written, percent in ((address, 80 if method else 60), (f"{address.rstrip('/')}/{{}}", 50)):
            name = build_route(method[1] if method else ANY_METHOD, written)
            if name and has_word(name) and "." not in name.rpartition("/")[2]:
                self._uses.append(FoundUse("uses", name, at, percent))
            if method:
                return  # else it may be the base of routes with an id

    def _read_call(self, match: re.Match[str]) -> None:
        name, start, end = match[match.lastindex or 0], match.start(match.lastindex or 0), match.end()
        before, is_bare = self._text[max(0, start - _BEFORE_CHARS) : start], match.re is _BARE_MARK
        arguments = _split("" if is_bare else self._text[end : end + _ARGUMENT_CHARS], end)
        pattern, receiver = _CSHARP_MARK if self._language == "c_sharp" else _MARK, _RECEIVER.search(before)
        mark, called_on = is_bare or pattern.search(before) is not None, receiver[1] if receiver else ""
        after = self._text[arguments.end - is_bare : arguments.end + _AFTER_CHARS]
        site = _Site(name, start, before, called_on, arguments, after)
        for call in _CALLS[name]:
            is_known = mark or (call.kind == "declares" and called_on in self._prefixes)
            if mark != (call.receiver.pattern == "@") or not (is_known or call.receiver.search(called_on)):
                continue
            texts = self._list_texts(call, arguments, start)
            if call.of == "prefix":
                self._note_prefix(site, texts)
            elif call.of == "route":
                if self._read_route(call, site, texts):
                    return
            else:
                names = (build_name(call.of, re.split(r"://.*/|arn:.*:", text)[-1]) for text in texts)
                plain = [name for name in names if name and "{" not in name]
                self._uses += [FoundUse(call.kind, name, start, 90, mark) for name in plain]

    def _list_texts(self, call: _Call, arguments: _Arguments, at: int) -> list[str]:
        """The texts of the first argument that is one, or a list of them."""
        for key in call.arguments:
            position = int(key) if key.isdecimal() else -1
            positional = "".join(arguments.positional[position : position + 1])
            value = arguments.keywords.get(key) if position < 0 else positional
            items = _split(value[1:]).positional if value and value[0] in "[{" else [value or ""]
            if texts := [text for item in items if (text := self._shape(item, at))]:
                return texts
        return []

    def _note_prefix(self, site: _Site, texts: list[str]) -> None:
        """`v1 := r.Group("/v1")`, `app.use("/orders", router)`, `include_router(router, prefix="/a")`."""
        target, given = _ASSIGNED.search(site.before), site.arguments.positional
        name = _NAME.fullmatch(given[-(site.name == "use")]) if given and not target else target
        if name:
            self._prefixes[name[1]] = self._join(self._prefixes.get(site.called_on, ""), (*texts, "")[0])

    def _read_route(self, call: _Call, site: _Site, texts: list[str]) -> bool:
        """Whether a call declares or uses a route, or is of a class: a prefix of those that follow."""
        name, path = site.name, texts[0] if texts else ""
        is_mark, declared = call.receiver.pattern == "@", call.kind == "declares"
        if is_mark:
            is_empty = site.arguments.positional[:1] in ([], ['""'], ["''"])
            if not texts and (not is_empty or name in ("Route", "Path")):
                return False
            if name.islower() and path and not path.startswith("/"):  # Python's `@patch("store.read")`
                return False
            of_class = _CLASS.search(site.after)
            if of_class and _NOT_CLASS.search(_MARKS.sub("", site.after[: of_class.start()])) is None:
                controller = of_class[1].removesuffix("Controller").lower()
                self._class_prefix = self._join("", path.replace("[controller]", controller))
                return True
            path = self._join(self._prefixes.get(site.called_on, self._class_prefix), path)
        elif declared:
            if not self._is_server(site, path):
                return False
            path = self._join(self._prefixes.get(site.called_on, ""), path.rpartition(" ")[2])
        elif not (path.startswith(("/", "{}")) or "://" in path or _RELATIVE.match(path)):
            return False
        for method in _find_methods(site, declared):
            route = build_route(method, path)
            if route and (has_word(route) or (declared and (texts or not is_mark))):
                kind: SystemKind = "uses" if is_mark and "@FeignClient" in self._text else call.kind
                percent = 100 - 10 * path.startswith("{}") - 20 * (method == ANY_METHOD and not declared)
                self._uses.append(FoundUse(kind, route, site.start, percent, is_mark))
                if not declared:
                    self._spans.append((site.start, site.arguments.end))
        return name != "Controller"

    def _is_server(self, site: _Site, path: str) -> bool:
        """Whether a call on what may be a server gives a path a handler."""
        name, arguments = site.name, site.arguments
        has_handler = len(arguments.positional) > 1 and _HANDLER.search(arguments.positional[-1]) is not None
        if name in ("path", "re_path"):  # Django's, whose paths start with no slash
            return self._language == "python" and has_handler and "include(" not in arguments.text
        if not site.called_on:
            return self._language == "kotlin" and path.startswith("/") and site.after.lstrip().startswith("{")
        if name in ("Path", "PathPrefix"):
            return ".Methods(" in site.before or ".Methods(" in site.after or "HandlerFunc(" in site.after
        is_chained = name == "route" and _HANDLERS.match(site.after.lstrip(" \n\t.")) is not None
        is_path = path.startswith("/") or name.startswith("Map") or _METHOD_PATH.match(path) is not None
        return is_path and (has_handler or is_chained)

    @staticmethod
    def _join(prefix: str, path: str) -> str:
        return f"{prefix.rstrip('/')}/{path.strip('/')}"

    def _shape(self, expression: str, at: int, follows: int = 2) -> str | None:
        """The text that an expression gives, with `{}` for what is computed; None: nothing of it is known.

        Args:
            expression: that is written somewhere.
            at: where; a name means what it was given last before.
            follows: so many names, each of which leads to the next.
        """
        pieces, end, expression = list[str](), 0, _SUBSCRIPT.sub(r"\1", expression.strip())
        for match in _TEXT.finditer(expression):
            gap = expression[end : match.start()].strip()
            is_joined = gap.startswith("+") or (self._language == "php" and gap.startswith("."))
            if end and gap and not is_joined:
                break  # another argument of what makes the text
            if re.search(r"\w", gap) and not (end == 0 and gap.endswith("(")):
                pieces.append(self._value_of(gap.strip("+. ()"), at, follows))
            written = next((group for group in match.groups() if group is not None), "")
            pieces.append(
                _DYNAMIC.sub(lambda part: self._value_of(part[0].strip("${}"), at, follows), written)
            )
            end = match.end()
        rest = expression[end:].strip()
        if not end:
            text = self._constant(rest.partition("+")[0].strip(), at, follows)
            return f"{text}{{}}" if text and "+" in rest else text or None
        if rest.startswith("+") or (self._language == "php" and rest.startswith(".")):
            pieces.append(self._value_of(rest.strip("+. ()"), at, follows))
        return "".join(pieces)

    def _value_of(self, expression: str, at: int, follows: int) -> str:
        text = self._constant(expression, at, follows)
        return text if "/" in text else "{}"  # else it may be the first value of a variable

    def _constant(self, expression: str, at: int, follows: int) -> str:
        """The one text that a name of the file is given, or the last in scope; "" if that is not known."""
        name = _NAME.fullmatch(expression) if follows else None
        assignments, text = self._find_assignments(name[1], follows - 1) if name else ([], "")
        before = bisect_left(assignments, at, key=itemgetter(0)) if text is None else 0
        if before and self._is_in_scope(assignments[before - 1][0], at):
            text = assignments[before - 1][1]
        return text or ""

    def _find_assignments(self, name: str, follows: int) -> tuple[list[tuple[int, str | None]], str | None]:
        """Where a name is set and to which text, None where that is computed; then the text, if it is one."""
        if (name, follows) not in self._assignments:
            assignments: list[tuple[int, str | None]] = []
            at = self._text.find(name)
            while at >= 0:
                end = at + len(name)
                is_name = not (at and _IN_NAME.match(self._text, at - 1))
                if is_name and (text := _GIVEN.match(self._text, end)):
                    assignments.append((at, self._shape(self._read_line(text.end()), at, follows)))
                elif is_name and _SET.match(self._text, end):
                    assignments.append((at, None))
                at = self._text.find(name, end)
            texts = {text for _, text in assignments if text is not None} or {""}
            self._assignments[name, follows] = assignments, texts.pop() if len(texts) == 1 else None
        return self._assignments[name, follows]

    def _is_in_scope(self, start: int, at: int) -> bool:
        """Whether a later place is near, and no line between them is indented less than the first one's."""
        if at - start > _SCOPE_CHARS:
            return False
        line, *lines = self._text[self._text.rfind("\n", 0, start) + 1 : at].split("\n")
        depth = len(line) - len(line.lstrip())
        return all(len(other) - len(other.lstrip()) >= depth for other in lines if other.strip())


def _find_methods(site: _Site, declared: bool) -> list[str]:
    """The methods of a route, by the name of what is called, its arguments, or the calls in its chain."""
    name, arguments, after = site.name, site.arguments.text, site.after
    if own := _METHOD_NAME.match(name) or _METHOD_PATH.match(arguments.lstrip(' "')):
        return [own[1].upper()]
    found = _HANDLERS.findall(f"{arguments}){after[:80]}") if name == "route" else []
    chained = _METHOD_AFTER.match(after), _METHOD_BEFORE.search(site.before)
    for match in (_METHOD_SET.search(arguments), *chained):
        found = found or (_METHOD.findall(match[1] or match[2]) if match else [])
    first = None if found or declared else _METHOD_FIRST.search(arguments[:80])
    default = "GET" if name in (_GET_SERVERS if declared else _GET_CLIENTS) else ANY_METHOD
    found = [first[1]] if first else found or [default]
    return [method.upper() for method in dict.fromkeys(found)]
