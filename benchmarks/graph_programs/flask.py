"""Serves an application with a blueprint to a test client."""

import flask

app = flask.Flask("app")
app.secret_key = "k"
part = flask.Blueprint("part", "part", url_prefix="/p")


@app.route("/<int:x>", methods=["GET", "POST"])
def index(x):
    flask.session["a"] = 1
    flask.flash("m")
    flask.g.b = 2
    return flask.render_template_string("{{ url_for('index', x=1) }}{{ get_flashed_messages() }}")


@part.get("/j")
def j():
    return flask.jsonify(a=1)


@part.before_request
def before():
    pass


@app.errorhandler(404)
def lost(error):
    return "lost", 404


@app.cli.command("c")
def c():
    pass


app.register_blueprint(part)
with app.test_client() as client:
    client.get("/1")
    client.post("/2", data={"a": "b"})
    client.get("/p/j")
    client.get("/none")
    client.get("/1")
with app.test_request_context("/1"):
    flask.url_for("index", x=3)
    flask.redirect("/")
    flask.make_response("x", 201)
app.test_cli_runner().invoke(args=["c"])
