"""Where code declares or uses a route, topic, table, variable or feature flag.

Frameworks and clients of all languages call them alike: a name, then a text as an argument. So a table of
calls is looked for in the text; no grammar is needed, and what varies in an address is seen as such.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
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
    arguments: tuple[str, ...]  # positions and keywords: the first that is a text counts; "*": all
    receiver: re.Pattern[str]  # "@": it is a decorator or an annotation


_SERVERS = (
    r"(?:app|application|router|routes?|server|fastify|blueprint|bp|mux|engine|group|rg|[egr]|v\d+|api)$"
)
_CLIENTS = (
    r"(?:axios|requests?|httpx|https?|client|session|got|ky|superagent|agent|api|rest|template|web|page|\))$"
)
_BROKERS = r"(?:chan|channel|ch|producer|consumer|template|redis\w*|client|r|p|pub\w*|sub\w*|conn|broker|kafka\w*|nc)$"
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
route  uses     0,url,uri    .|^$        fetch $fetch useFetch urlopen http $http axios
route  uses     0,url,uri    ^$          HttpGet HttpPost HttpPut HttpPatch HttpDelete got ky superagent
route  uses     0            .           getForObject getForEntity postForObject postForEntity exchange
route  uses     0            \\)$        uri
route  uses     0            .           GetAsync PostAsync PutAsync PatchAsync DeleteAsync GetStringAsync
route  uses     0            .           GetFromJsonAsync PostAsJsonAsync PutAsJsonAsync PatchAsJsonAsync
prefix declares 0,prefix,url_prefix |  APIRouter Blueprint Group MapGroup Router use include_router register_blueprint
topic  declares 0,topic,QueueUrl {_BROKERS} send Send produce send_message
topic  declares routing_key,channel,TopicArn,exchange,1,0 {_BROKERS} publish basic_publish Publish
topic  declares 1,0          {_BROKERS}  convertAndSend
topic  declares 0            {_BROKERS}  sendToQueue rpush lpush RPush LPush rPush lPush xadd XAdd
topic  declares 0            {_BROKERS}  ListLeftPushAsync ListRightPushAsync
topic  declares 0,Topic      .|^$        ProducerRecord ProducerMessage
topic  uses     *            .|^$        KafkaConsumer
topic  uses     0,topics,topic,queues,queueNames,value @  KafkaListener RabbitListener SqsListener JmsListener
topic  uses     0,topic,topics,queue {_BROKERS} subscribe Subscribe consume Consume basic_consume psubscribe
topic  uses     0,1          {_BROKERS}  blpop brpop lpop rpop BLPop BRPop xread ListLeftPopAsync
topic  uses     0,queue      {_BROKERS}  queue_declare QueueDeclare assertQueue
topic  uses     0            .|^$        setQueueNames Queue NewTopic
topic  uses     QueueName,QueueUrl {_BROKERS}  get_queue_by_name receive_message
table  declares 0,name       .|^$        create_table createTable Table ToTable
table  declares name,0       @           Table Entity
table  uses     0            .           collection getCollection get_collection
flag   uses     0,flagKey    .|^$        variation boolVariation BoolVariation stringVariation getTreatment
flag   uses     0            .|^$        getBooleanValue getStringValue get_boolean_value IsEnabledAsync
flag   uses     0            .|^$        isFeatureEnabled feature_enabled useFeatureFlag isEnabled is_enabled
flag   uses     1            ^$|waffle$  flag_is_active switch_is_active
"""


def _parse_calls(table: str) -> dict[str, list[_Call]]:
    calls: dict[str, list[_Call]] = {}
    for line in table.strip().splitlines():
        of, kind, arguments, receiver, *names = line.split()
        role: SystemKind = "declares" if kind == "declares" else "uses"
        entry = _Call(of, role, tuple(arguments.split(",")), re.compile(receiver, re.IGNORECASE))
        for name in names:
            calls.setdefault(name, []).append(entry)
    return calls


_CALLS = _parse_calls(_CALLS_TABLE)
_CALL = re.compile(
    rf"(?<![\w$])({'|'.join(map(re.escape, sorted(_CALLS)))})(?:<[^<>()\n]{{0,80}}>)?\s?\("
    r"|(?:@|\[)((?:Get|Post|Put|Patch|Delete)Mapping|Http(?:Get|Post|Put|Patch|Delete)|Get|Post)(?=[ \t]*[\n\]])"
    r"|\b(ProducerMessage)\{"
)
_BEFORE_CHARS, _ARGUMENT_CHARS, _AFTER_CHARS = 120, 700, 300
_RECEIVER = re.compile(r"([\w$]{1,60}|[)\]])\s{0,40}\??(?:\.|->|::|!\.)\s{0,40}$")
_MARK = re.compile(r"(?:@(?:[\w.]{1,60}\.)?|#\[)$")
_CSHARP_MARK = re.compile(r"(?:^|[\s(])\[(?:\w{1,40}(?:\([^()\n]{0,60}\))?,\s?)?$")
_COMMENT = re.compile(r"[ \t]*(?://|#(?!\[)|\*(?![ \t]*@)|--|>>>|<!--)")
_TOKEN = re.compile(r"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|`[^`]*`|[()\[\]{},]")
_KEYWORD = re.compile(r"\s*([\"']?)(?P<key>[\w-]+)\1\s*(?::(?!:)|=(?![=>]))\s*")
_LITERAL = (
    r"(?:\b[frbuFRB]{1,2}|[$@]{1,2})?(?:\"((?:[^\"\\\n]|\\.)*)\"|'((?:[^'\\\n]|\\.)*)'|`([^`]*)`)"  # a text
)
_TEXT = re.compile(_LITERAL)
_TEXT_BEGINS = (
    r"(?=[frbu$@]{0,2}[\"'`]|[\w.]{1,40}[ \t]*(?:\+[ \t]*[\"'`]|\(\"))"  # or it is joined, or formatted
)
_DYNAMIC = re.compile(r"[$#]?\{[^{}]*(?:\{[^{}]*\}[^{}]*)?\}|\$[A-Za-z_]\w*|\\\([^()]*\)|%[sdvq]")
_NAME = re.compile(r"(?:[\w$]+(?:\.|->|::))*([\w$]+)")
_CONSTANT = re.compile(rf"\b([A-Za-z_]\w*)[ \t]*(?::[ \t]*\w+[ \t]*)?:?=[ \t]*{_TEXT_BEGINS}")
_NAMED_URL = re.compile(
    rf"(?i:url|uri|endpoint|href)[\"']?[ \t]*(?::(?![:=])|:=|=(?![=>]))[ \t]*{_TEXT_BEGINS}"
)
_HTTP_TEXT = re.compile(r"[\"'`]https?://[\w.:{}$%-]{1,100}/\w")
_RELATIVE = re.compile(r"[A-Za-z][\w-]*/[\w{]")
_OUTER_HOST = re.compile(
    r"https?://(?:localhost|127\.|0\.0\.|[\w-]+(?:\.[\w-]+)*\.(?!local\b|internal\b|svc\b|cluster\b)[a-z]{2,20}(?:[:/]|$))"
)
_CLASS = re.compile(r"\b(?:class|interface)\s+(\w+)")
_MARKS = re.compile(r"[@\[][\w.]+(?:\([^()]*\))?\]?|\{[^{}\n]*\}")
_NOT_CLASS = re.compile(r"[;{]|\b(?:def|func|fn|function|fun|void|return|async)\b")
_METHOD = re.compile(rf"\b({'|'.join(METHODS)})\b", re.IGNORECASE)
_METHOD_SET = re.compile(r"\bmethods?\b[\"']?\s*[:=]\s*([^\n]{1,60})|(?:HttpMethod|RequestMethod)\.(\w+)")
_CHAINED_METHOD = rf"\.(?:[Mm]ethods?\(([^()\n]{{1,60}})\)|({_VERBS.replace(' ', '|')})\(\))"
_METHOD_AFTER, _METHOD_BEFORE = (
    re.compile(rf"\s*{_CHAINED_METHOD}"),
    re.compile(rf"{_CHAINED_METHOD}\s*\.\s*$"),
)
_METHOD_FIRST = re.compile(
    r"(?:^|[\s\"'.])(?:Method|HttpMethod\.)?(GET|POST|PUT|PATCH|DELETE|Get|Post|Put|Patch|Delete)\b"
)
_METHOD_NAME = re.compile(rf"(?:Http(?!R)|Map)?({'|'.join(METHODS)})(?!Mapped)", re.IGNORECASE)
_HANDLERS = re.compile(r"\b(get|post|put|patch|delete)\(")
_HANDLER = re.compile(
    r"=>|\bfunc\b|\bfunction\b|\}\s*$|^\s*[A-Za-z_$][\w$.]*(?:\([\w., ]*\))?\s*$|\b(?:get|post|put|delete)\("
)
_ENVIRONMENT = re.compile(
    r"(?:os\.environ(?:\.get|\.setdefault)?|os\.getenv|\bgetenv|\bgetEnv|os\.Getenv|os\.LookupEnv|System\.getenv"
    r"|env::var(?:_os)?|GetEnvironmentVariable|\bENV(?:\.fetch)?|\$_ENV|\$_SERVER|\benv|Deno\.env\.get|mustMapEnv)"
    r"\s?[\[(]\s?(?:&?\w{1,40}(?:\.\w{1,40})?,\s?)?[\"']([A-Z][A-Z0-9_]{2,60})[\"']"
    r"|(?:process\.env|import\.meta\.env)(?:\.|\[[\"'])([A-Z][A-Z0-9_]{2,60})|@Value\(\s?\"\$\{([A-Z][A-Z0-9_]{2,60})"
)
_SQL_START = re.compile(
    r"[\"'`]\s{0,200}(?:SELECT\s|INSERT\s+INTO\s|UPDATE\s+\S{1,60}\s+SET\s|DELETE\s+FROM\s|CREATE\s+TABLE\s|MERGE\s+INTO\s"
    r"|ALTER\s+TABLE\s|WITH\s+\w{1,60}\s+AS\s|select\s|insert\s+into\s|update\s+\S{1,60}\s+set\s|delete\s+from\s)"
)
_SQL_CHARS, _MAX_USES = 3_000, 2_000  # of one statement, and of one file
_SQL_TABLE = re.compile(
    r"\b(CREATE\s+TABLE(?:\s+IF\s+NOT\s+EXISTS)?|FROM|JOIN|INTO|UPDATE(?:\s+ONLY)?|ALTER\s+TABLE(?:\s+ONLY)?|REFERENCES)"
    r"\s+([\"`\[]?[A-Za-z_][\w$]*[\"`\]]?(?:\.[\"`\[]?[A-Za-z_][\w$]*[\"`\]]?){0,2})",
    re.IGNORECASE,
)
_SQL_LOCAL = re.compile(r"\b(\w+)\s+AS\s*\(", re.IGNORECASE)  # WITH name AS (…)
_NO_TABLES = frozenset(
    ("select", "set", "dual", "where", "values", "lateral", "unnest", "only", "on", "table", "the", "a")
)
_MODEL = re.compile(
    r"(?:__tablename__|\bdb_table|\$table|\.table_name)\s*=\s*[\"'](\w+)[\"']|TableName\(\) string \{\s*return \"(\w+)\""
    r"|^class (\w+)\([^)\n]{0,100}\btable\s*=\s*True|\bDbSet<(\w+)>"
    r"|@Entity\b(?!\s*\()(?![^{}]{0,300}@Table)[^{};]{0,300}?\bclass (\w+)",
    re.MULTILINE,
)


def find_system_uses(text: str, language: str) -> list[FoundUse]:
    """The places of code that declare or use a system name, in their order, each once."""
    uses = [*_CodeReader(text, language).read(), *_find_variables(text), *_find_tables(text)]
    surest = {(use.kind, use.name, use.at): use for use in sorted(uses, key=lambda use: use.percent)}
    return sorted(surest.values(), key=lambda use: (use.at, use.name))[:_MAX_USES]


def _find_variables(text: str) -> Iterator[FoundUse]:
    for match in _ENVIRONMENT.finditer(text):
        yield FoundUse("uses", f"variable {next(filter(None, match.groups()))}", match.start())


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
    for match in _MODEL.finditer(text):
        written, of_class = match[1] or match[2], match[3] or match[4] or match[5] or ""
        name = build_name("table", written or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", of_class))
        if name:
            yield FoundUse("declares", name, match.start(), 100 if written else 60)


def is_outer(address: str) -> bool:
    """Whether an address is of this machine or of the Internet, as those of documents are."""
    return _OUTER_HOST.match(address) is not None


def read_sql(sql: str) -> Iterator[FoundUse]:
    """The tables that statements make, read or write."""
    local = {name.lower() for name in _SQL_LOCAL.findall(sql)}
    for match in _SQL_TABLE.finditer(sql):
        name = build_name("table", match[2])
        if name and name[6:] not in _NO_TABLES and name[6:] not in local:
            yield FoundUse("declares" if match[1][:6].upper() == "CREATE" else "uses", name, match.start(2))


@dataclass
class _Arguments:
    """The arguments of a call as they are written."""

    text: str = ""
    end: int = 0  # after the closing bracket
    positional: list[str] = field(default_factory=list[str])
    keywords: dict[str, str] = field(default_factory=dict[str, str])


def _split(text: str, at: int = 0) -> _Arguments:
    """What stands between commas, up to the bracket that closes; of an object, its keys are keywords, too."""
    parts, start, depth, end = list[str](), 0, 0, len(text)
    for token in _TOKEN.finditer(text):
        depth += (token[0] in "([{") - (token[0] in ")]}")
        if depth < 0:
            end = token.start()
            break
        if token[0] == "," and not depth:
            parts.append(text[start : token.start()])
            start = token.end()
    arguments = _Arguments(text[:end], at + end + 1)
    for part in (*parts, text[start:end]):
        if keyword := _KEYWORD.match(part):
            arguments.keywords[keyword["key"]] = part[keyword.end() :]
        elif part := part.strip():
            arguments.positional.append(part)
            if part.startswith("{"):
                arguments.keywords |= _split(part[1:-1]).keywords
    return arguments


def _read_line(text: str, at: int) -> str:
    """The expression that starts somewhere: up to the end of its statement, or of a place in a list."""
    expression = text[at : at + _ARGUMENT_CHARS]
    depth = 0
    for token in _TOKEN.finditer(expression):
        depth += (token[0] in "([{") - (token[0] in ")]}")
        if depth < 0 or (token[0] == "," and not depth):
            expression = expression[: token.start()]
            break
    return re.split(r";|\n(?!\s*[+.])", expression, maxsplit=1)[0]


class _CodeReader:
    """Reads the calls of one text."""

    def __init__(self, text: str, language: str) -> None:
        self._text, self._language = text, language
        self._uses: list[FoundUse] = []
        self._spans: list[tuple[int, int]] = []  # of calls that a route was found in, in their order
        self._prefixes: dict[str, str] = {}  # of routes that are declared on a name
        self._class_prefix = ""
        self._constants: dict[str, str] | None = None

    def read(self) -> list[FoundUse]:
        """Routes, topics, tables and flags of calls; then addresses that have a name, or a host within."""
        for match in _CALL.finditer(self._text):
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
        return (
            _COMMENT.match(self._text, max(self._text.rfind("\n", 0, at) + 1, at - _BEFORE_CHARS)) is not None
        )

    def _read_address(self, at: int) -> None:
        address = self._shape(_read_line(self._text, at))
        nearby = _METHOD_SET.search(self._text, at, at + _AFTER_CHARS)
        method = _METHOD.search(nearby[1] or nearby[2]) if nearby else None
        is_inner = address and (address.startswith("{}/") or "://" in address) and not is_outer(address)
        if address and (is_inner or (method and address.startswith("/"))):  # others are pages, or documents
            name = build_route(method[1] if method else ANY_METHOD, address)
            if name and has_word(name) and "." not in name.rpartition("/")[2]:
                self._uses.append(FoundUse("uses", name, at, 80 if method else 60))

    def _read_call(self, match: re.Match[str]) -> None:
        name = match[1] or match[2] or match[3]
        start = match.start(match.lastindex or 0)
        before, after = (
            self._text[max(0, start - _BEFORE_CHARS) : start],
            self._text[match.end() :][:_ARGUMENT_CHARS],
        )
        arguments = _Arguments(end=match.end()) if match[2] else _split(after, match.end())
        pattern = _CSHARP_MARK if self._language == "c_sharp" else _MARK
        mark, receiver = bool(match[2]) or pattern.search(before) is not None, _RECEIVER.search(before)
        called_on = receiver[1] if receiver else ""
        for call in _CALLS[name]:
            fits = call.receiver.search(called_on) or (
                call.kind == "declares" and called_on in self._prefixes
            )
            if mark != (call.receiver.pattern == "@") or not (mark or fits):
                continue
            texts = self._list_texts(call, arguments)
            if call.of == "prefix":
                self._note_prefix(name, before, called_on, arguments, texts)
            elif call.of == "route":
                if self._read_route(call, name, start, before, called_on, arguments, texts):
                    return
            else:
                names = (build_name(call.of, re.split(r"://.*/|arn:.*:", text)[-1]) for text in texts)
                self._uses += [
                    FoundUse(call.kind, it, start, 90, mark) for it in names if it and "{" not in it
                ]

    def _list_texts(self, call: _Call, arguments: _Arguments) -> list[str]:
        """The texts of the first argument that is one, or a list of them."""
        if call.arguments == ("*",):
            return [text for value in arguments.positional if (text := self._shape(value))]
        for key in call.arguments:
            at = int(key) if key.isdecimal() else -1
            value = arguments.keywords.get(key) if at < 0 else "".join(arguments.positional[at : at + 1])
            items = _split(value[1:]).positional if value and value[0] in "[{" else [value or ""]
            if texts := [text for item in items if (text := self._shape(item))]:
                return texts
        return []

    def _note_prefix(
        self, name: str, before: str, called_on: str, arguments: _Arguments, texts: list[str]
    ) -> None:
        """`v1 := r.Group("/v1")`, `app.use("/orders", router)`, `include_router(router, prefix="/a")`."""
        target = re.search(r"(\w+)[ \t]*:?=[ \t]*(?:await )?[\w.()]{0,60}$", before)
        given = _NAME.fullmatch(arguments.positional[-(name == "use")]) if arguments.positional else None
        of = target[1] if target else given[1] if given else ""
        if of:
            self._prefixes[of] = self._join(self._prefixes.get(called_on, ""), (*texts, "")[0])

    def _read_route(
        self,
        call: _Call,
        name: str,
        start: int,
        before: str,
        called_on: str,
        arguments: _Arguments,
        texts: list[str],
    ) -> bool:
        """Whether a call declares or uses a route, or is of a class: a prefix of those that follow."""
        after, path = self._text[arguments.end :][:_AFTER_CHARS], texts[0] if texts else ""
        is_mark, declared = call.receiver.pattern == "@", call.kind == "declares"
        if is_mark:
            is_empty = arguments.positional[:1] in ([], ['""'], ["''"])
            if not texts and (not is_empty or name in ("Route", "Path")):
                return False
            if name.islower() and path and not path.startswith("/"):  # Python's `@patch("store.read")`
                return False
            of_class = _CLASS.search(after)
            if of_class and _NOT_CLASS.search(_MARKS.sub("", after[: of_class.start()])) is None:
                controller = of_class[1].removesuffix("Controller").lower()
                self._class_prefix = self._join("", path.replace("[controller]", controller))
                return True
            path = self._join(self._prefixes.get(called_on, self._class_prefix), path)
        elif declared:
            if not self._is_server(name, called_on, path, arguments, before, after):
                return False
            path = self._join(self._prefixes.get(called_on, ""), path.rpartition(" ")[2])
        elif not (path.startswith(("/", "{}")) or "://" in path or _RELATIVE.match(path)):
            return False
        for method in _find_methods(name, arguments.text, before, after, declared):
            route = build_route(method, path)
            if route and (has_word(route) or (declared and (texts or not is_mark))):
                is_client = is_mark and "@FeignClient" in self._text
                percent = 90 if path.startswith("{}") else 100
                percent -= 20 if method == ANY_METHOD and not declared else 0
                self._uses.append(
                    FoundUse("uses" if is_client else call.kind, route, start, percent, is_mark)
                )
                self._spans.append((start, arguments.end))
        return name != "Controller"

    def _is_server(
        self, name: str, called_on: str, path: str, arguments: _Arguments, before: str, after: str
    ) -> bool:
        """Whether a call on what may be a server gives a path a handler."""
        if name in ("path", "re_path"):  # Django's, whose paths start with no slash
            return (
                self._language == "python"
                and len(arguments.positional) > 1
                and "include(" not in arguments.text
            )
        if not called_on:
            return self._language == "kotlin" and path.startswith("/") and after.lstrip().startswith("{")
        if name in ("Path", "PathPrefix"):
            return ".Methods(" in before or ".Methods(" in after or "HandlerFunc(" in after
        has_handler = len(arguments.positional) > 1 and _HANDLER.search(arguments.positional[-1]) is not None
        is_chained = name == "route" and re.match(r"\s*\.(?:get|post|put|all)\(", after) is not None
        is_path = path.startswith("/") or name.startswith("Map") or re.match(r"[A-Z]+ /", path) is not None
        return is_path and (has_handler or is_chained)

    @staticmethod
    def _join(prefix: str, path: str) -> str:
        return f"{prefix.rstrip('/')}/{path.strip('/')}"

    def _shape(self, expression: str, *, follows: bool = True) -> str | None:
        """The text that an expression gives, with `{}` for what is computed; None: nothing of it is known."""
        pieces, end, expression = list[str](), 0, expression.strip()
        for match in _TEXT.finditer(expression):
            gap = expression[end : match.start()].strip()
            is_joined = gap.startswith("+") or (self._language == "php" and gap.startswith("."))
            if end and gap and not is_joined:
                break  # another argument of what makes the text
            if re.search(r"\w", gap) and not (end == 0 and gap.endswith("(")):
                pieces.append(self._value_of(gap.strip("+. ()"), follows))
            written = next((group for group in match.groups() if group is not None), "")
            pieces.append(_DYNAMIC.sub(lambda part: self._value_of(part[0].strip("${}"), follows), written))
            end = match.end()
        rest = expression[end:].strip()
        if not end:
            name = _NAME.fullmatch(rest.partition("+")[0].strip()) if follows else None
            known = self._known_constants.get(name[1]) if name else None
            return f"{known}{{}}" if known and "+" in rest else known
        if rest.startswith("+") or (self._language == "php" and rest.startswith(".")):
            pieces.append(self._value_of(rest.strip("+. ()"), follows))
        return "".join(pieces)

    def _value_of(self, expression: str, follows: bool) -> str:
        name = _NAME.fullmatch(expression) if follows else None
        known = self._known_constants.get(name[1], "") if name else ""
        return known if "/" in known else "{}"  # else it may be the first value of a variable

    @property
    def _known_constants(self) -> dict[str, str]:
        """Names of the file that are given one text, and no other."""
        if self._constants is None:
            self._constants, several = {}, set[str]()
            for match in _CONSTANT.finditer(self._text):
                shape = self._shape(_read_line(self._text, match.end()), follows=False)
                if shape and self._constants.setdefault(match[1], shape) != shape:
                    several.add(match[1])
            for name in several:
                del self._constants[name]
        return self._constants


def _find_methods(name: str, arguments: str, before: str, after: str, declared: bool) -> list[str]:
    """The methods of a route, by the name of what is called, its arguments, or the calls in its chain."""
    if own := _METHOD_NAME.match(name):
        return [own[1].upper()]
    if written := re.match(r"\s*\"([A-Z]+) /", arguments):  # Go's "GET /orders"
        return [written[1]]
    found = _HANDLERS.findall(f"{arguments}){after[:80]}") if name == "route" else []
    for match in (
        _METHOD_SET.search(arguments),
        _METHOD_AFTER.match(after),
        _METHOD_BEFORE.search(before),
    ):
        found = found or (_METHOD.findall(match[1] or match[2]) if match else [])
    first = None if found or declared else _METHOD_FIRST.search(arguments[:80])
    found = [first[1]] if first else found
    if not found and (
        name in ("route", "websocket") if declared else name in ("fetch", "$fetch", "request", "urlopen")
    ):
        found = ["GET"]
    return [method.upper() for method in dict.fromkeys(found)] or [ANY_METHOD]
