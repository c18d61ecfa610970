"""Routes, topics, tables, variables and flags, as frameworks, clients and settings write them."""

from __future__ import annotations

import pytest

from knowledge_pipeline.code_graph import extract, from_json, to_json
from knowledge_pipeline.file_languages import detect_language
from knowledge_pipeline.system_names import list_matching_names, list_stored_names, parse_system_name


def found(path: str, text: str) -> set[str]:
    """`declares route GET /orders in list_orders`, for each place."""
    facts = extract(path, text, detect_language(path, text) or "")
    assert from_json(to_json(facts)) == facts
    return {f"{use.kind} {use.name}" + (f" in {use.scope}" if use.scope else "") for use in facts.system_uses}


FASTAPI = """\
router = APIRouter(prefix="/orders")

@router.get(
    "/{order_id}", response_model=Order
)
async def read_order(order_id: int): ...

@router.post("")
def create_order(): ...

@mock.patch("shop.read_order")
def test_it(patched): ...
"""
FLASK = """\
orders = Blueprint("orders", __name__, url_prefix="/orders")
@orders.route("/<int:id>", methods=["GET", "DELETE"])
def order(id): ...
@app.route("/health")
def health(): ...
"""
REQUESTS = """\
BASE = os.environ["ORDERS_URL"]
API = "http://orders/api"

def place(order):
    # requests.get("/not/this")
    url = f"{BASE}/orders/{order['id']}/items?full=1"
    requests.put(url, json=order)
    session.post(API + "/orders/" + order.id, json=order)
    item = urljoin(settings.BASE, f"items/{order.id}/state")
    requests.get(item)
    return httpx.request("DELETE", "http://{}/orders/{}".format(host, order.id))

def other(settings):
    settings.get("/no/client")
    client.get("orders")
"""
LOCALS = """\
class Orders {
    string root = "api/orders/";
    void Load(int id) {
        var uri = $"{root}items/{id}";
        client.GetFromJsonAsync<List<Order>>(uri);
    }
    void Find() {
        client.GetFromJsonAsync<Order>(uri);
        var uri = Build(root);
        client.GetFromJsonAsync<Order>(uri);
        uri = $"{root}kinds";
        client.DeleteAsync(uri);
    }
}
"""
SETTINGS = """\
class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="SHOP_")
    model_config: dict = {}
    DATABASE_URL: str
    mode: Literal["a"] = "a"

    def check(self):
        local: int = 1

class Other(BaseModel):
    name: str
"""
EXPRESS = """\
const items = express.Router();
app.use('/items', items);
app.get('/orders/:id', async (req, res) => {});
items.post('/', create);
const name = app.get('env');
"""
FETCH = """\
async function load(id: string) {
  await fetch(`${API}/orders/${id}`);
  await fetch("/orders", { method: "POST", body });
  await axios.delete(`/orders/${id}/items/42`);
  $http({ url: '/orders/' + id, method: 'PATCH' });
  const page = { url: "/pages/about" };
  return process.env.API_URL;
}
"""
NEST = """\
@Controller('orders')
export class OrdersController {
  @Get(':id')
  find(id: string) {}
  @Post()
  create() {}
}
"""
SPRING = """\
@RestController
@RequestMapping("/owners/{ownerId}")
class PetController {
    @GetMapping(value = "/pets/{petId:[0-9]+}", produces = "application/json")
    Pet find() { return rest.getForObject("http://pets/pets/{id}", Pet.class, 1); }
    @PostMapping
    void create() { client.build().post()
        .uri("http://visits/visits").retrieve(); }
    @KafkaListener(topics = {"orders", "returns"})
    void listen() { kafkaTemplate.send("shipments", 1); }
    @Value("${DATABASE_URL}") String url;
}
"""
FEIGN = """\
@FeignClient("orders")
interface Orders {
    @GetMapping("/orders/{id}")
    Order find(String id);
}
"""
GO = """\
func routes(r *gin.Engine) {
	v1 := r.Group("/v1")
	v1.GET("/orders/:id", getOrder)
	http.HandleFunc("/health", func(w http.ResponseWriter, r *http.Request) {})
	mux.Handle("DELETE /orders/{id}", handler)
	m.Methods("PUT").Path("/orders").Handler(put)
}
func call(id string) {
	req, _ := http.NewRequest("POST", fmt.Sprintf("%s/orders/%s", os.Getenv("ORDERS"), id), nil)
	http.Get("http://orders/orders/" + id)
}
"""
CSHARP = """\
public static class Api {
    public static void Map(IEndpointRouteBuilder app) {
        var api = app.MapGroup("api/catalog");
        api.MapGet("/items/{id:int}", Get);
    }
    Task Load(HttpClient http) => http.GetFromJsonAsync<Item>($"api/catalog/items/{id}");
}
"""
DJANGO = 'urlpatterns = [path("orders/<int:id>/", view), path("api/", include("api.urls"))]\n'
AXUM = 'fn app() { Router::new(); let r = app.route("/orders", get(list).post(create)); }\n'
TABLES = """\
class Order(Base):
    __tablename__ = "orders"

def rows(db):
    db.execute('''
        WITH recent AS (SELECT * FROM shop.orders o JOIN "Lines" l ON l.id = o.id)
        SELECT * FROM recent
    ''')
    db.execute("delete from carts where id = 1")
    print("Delete item from basket")
"""
QUEUES = """\
QUEUE = "tasks"
redis.rpush("votes", vote)
channel.basic_publish(exchange="", routing_key=QUEUE, body=b"")
channel.basic_consume(queue="tasks", on_message_callback=done)
consumer.subscribe(["orders", "returns"])
if client.variation("new-checkout", user, False): pass
"""
JPA = '@Entity\n@Table(name = "types")\nclass PetType {}\n'
COMPOSE = """\
services:
  web:
    image: web:${TAG:-latest}
    environment:
      - ORDERS_URL=http://orders:8080/orders
      - PASSED_ON
    healthcheck:
      test: curl http://localhost:8080/health
  job:
    environment:
      MODE: fast
    command: run
NOT_THIS: 1
"""
OPENAPI = """\
openapi: 3.0.0
servers:
  - url: https://api.acme.example/v1
paths:
  /orders/{id}:
    get:
      operationId: read
    delete:
      operationId: drop
"""


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        (
            "a.py",
            FASTAPI,
            "declares route GET /orders/{} in read_order"
            "|declares route POST /orders in create_order",
        ),
        (
            "a.py",
            FLASK,
            "declares route GET /orders/{} in order|declares route DELETE /orders/{} in order"
            "|declares route GET /health in health",
        ),
        (
            "a.py",
            REQUESTS,
            "uses variable ORDERS_URL|uses route * /api|uses route * /api/{}"
            "|uses route * /orders/{}/items in place"
            "|uses route PUT /orders/{}/items in place|uses route POST /api/orders/{} in place"
            "|uses route DELETE /orders/{} in place|uses route GET /items/{}/state in place",
        ),
        ("a.js", EXPRESS, "declares route GET /orders/{}|declares route POST /items"),
        (
            "a.ts",
            FETCH,
            "uses route GET /orders/{} in load|uses route POST /orders in load"
            "|uses route DELETE /orders/{}/items/{} in load|uses route PATCH /orders/{} in load"
            "|uses variable API_URL in load",
        ),
        (
            "a.ts",
            NEST,
            "declares route GET /orders/{} in OrdersController.find"
            "|declares route POST /orders in OrdersController.create",
        ),
        (
            "A.java",
            SPRING,
            "declares route GET /owners/{}/pets/{} in PetController.find"
            "|uses route GET /pets/{} in PetController.find"
            "|declares route POST /owners/{} in PetController.create"
            "|uses route POST /visits in PetController.create"
            "|uses topic orders in PetController.listen|uses topic returns in PetController.listen"
            "|declares topic shipments in PetController.listen|uses variable DATABASE_URL in PetController",
        ),
        ("A.java", FEIGN, "uses route GET /orders/{} in Orders.find"),
        (
            "a.go",
            GO,
            "declares route GET /v1/orders/{} in routes|declares route * /health in routes"
            "|declares route DELETE /orders/{} in routes|declares route PUT /orders in routes"
            "|uses route POST /orders/{} in call|uses variable ORDERS in call"
            "|uses route GET /orders/{} in call",
        ),
        (
            "a.cs",
            CSHARP,
            "declares route GET /api/catalog/items/{} in Api.Map"
            "|uses route GET /api/catalog/items/{} in Api.Load",
        ),
        ("a/urls.py", DJANGO, "declares route * /orders/{}"),
        ("a.rs", AXUM, "declares route GET /orders in app|declares route POST /orders in app"),
        (
            "a.py",
            TABLES,
            "declares table orders in Order|uses table orders in rows|uses table lines in rows"
            "|uses table carts in rows",
        ),
        (
            "a.py",
            QUEUES,
            "declares topic votes|declares topic tasks|uses topic tasks|uses topic orders|uses topic returns"
            "|uses flag new-checkout",
        ),
        ("A.java", JPA, "declares table types in PetType"),
        (
            "a.sql",
            "CREATE TABLE IF NOT EXISTS shop.Orders (id int);\nSELECT 1 FROM orders;",
            "declares table orders"
            "|uses table orders",
        ),
        (
            "compose.yml",
            COMPOSE,
            "uses variable TAG|declares variable ORDERS_URL|declares variable PASSED_ON|uses route * /orders"
            "|declares variable MODE",
        ),
        ("api.yaml", OPENAPI, "declares route GET /v1/orders/{}|declares route DELETE /v1/orders/{}"),
        (
            "Dockerfile",
            "ENV MODE=fast \\\n    PORT=80\nARG BUILD_ID\nRUN make X=1\n",
            "declares variable MODE"
            "|declares variable PORT"
            "|declares variable BUILD_ID",
        ),
        (
            "a.cs",
            LOCALS,
            "uses route GET /api/orders/items/{} in Orders.Load"
            "|uses route DELETE /api/orders/kinds in Orders.Find",
        ),
        (
            "a.py",
            SETTINGS,
            "uses variable SHOP_DATABASE_URL in Settings|uses variable SHOP_MODE in Settings",
        ),
        (".env", "SECRET_KEY=abc\n", "declares variable SECRET_KEY"),
        (".env.example", "SECRET_KEY=abc\n# NO=1\n", "declares variable SECRET_KEY"),
        (
            ".github/CODEOWNERS",
            "# all\n*  @acme/all\n/shop/ @jane # x\n",
            "owns owners * @acme/all"
            "|owns owners /shop/ @jane",
        ),
    ],
)  # fmt: skip
def test_what_files_declare_and_use(path: str, text: str, expected: str):
    assert found(path, text) == set(expected.split("|"))


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("POST /orders", "route POST /orders"),
        ("route /Orders/42/", "route * /orders/{}"),
        ("get http://shop/orders/:id?all=1", "route GET /orders/{}"),
        ("route orders/<int:id>", "route * /orders/{}"),
        ("topic orders", "topic orders"),
        ("table Shop.Orders", "table orders"),
        ("variable ORDERS_URL", "variable ORDERS_URL"),
        ("Store.get", None),
        ("src/store.py:12", None),
        ("topic a b", None),
    ],
)
def test_what_a_person_writes(written: str, name: str | None):
    assert parse_system_name(written) == name


def test_a_route_meets_those_of_which_one_ends_with_the_other():
    def sure(one: str, other: str) -> float:
        names = list_matching_names(one)
        return max((min(worth, names.get(name, 0)) for name, worth in list_stored_names(other)), default=0)

    assert sure("route GET /orders/{}", "route GET /orders/{}") == 1.0
    assert sure("route GET /orders/{}", "route * /orders/{}") == 1.0
    for one, other in (("/orders/{}", "/api/v1/orders/{}"), ("/api/orders", "/orders")):
        assert sure(f"route GET {one}", f"route GET {other}") == 0.6
        assert sure(f"route GET {other}", f"route GET {one}") == 0.6
    assert sure("route GET /a/orders", "route GET /b/orders") == 0
    assert sure("route GET /orders", "route POST /orders") == 0
    assert sure("route GET /{}", "route GET /orders/{}") == 0
    assert sure("topic orders", "table orders") == 0


def test_facts_of_before_have_none():
    text = to_json(extract("a.py", FLASK, "python"))
    before = text[: text.rindex(",[")] + "]"
    assert from_json(before).system_uses == ()
    assert from_json(before).definitions == from_json(text).definitions
