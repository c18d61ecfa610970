"""Renders, lexes and compiles templates."""

import jinja2

loader = jinja2.DictLoader(
    {"base": "{% block a %}x{% endblock %}", "m": "{% macro f(a, b=1) %}{{ a|upper }}{% endmacro %}"}
)
env = jinja2.Environment(loader=loader, extensions=["jinja2.ext.do", "jinja2.ext.i18n"], autoescape=True)
text = """{% extends "base" %}{% import "m" as m %}{% block a %}{{ super() }}
{% for i in rows if i %}{{ loop.index }}
{{ m.f(i)|default("x")|replace("a", "b") }}{% else %}-{% endfor %}
{% set z = [1, 2]|map("string")|join(",") %}{{ z }}
{% if x is defined and x > 1 or not y %}{{ x ~ y }}
{% elif 1 in [1] %}{% endif %}{% filter lower %}A{% endfilter %}
{{ {"a": (1, 2)}["a"][0] }}{% do [].append(1) %}{% trans %}hi{% endtrans %}
{{ rows|sort|groupby(0)|list }}{% endblock %}"""
env.install_null_translations()
env.from_string(text).render(rows=["ab", "c"], x=2)
env.get_template("base").module
list(env.lex(text))
env.compile_expression("a + 1")(a=1)
jinja2.sandbox if hasattr(jinja2, "sandbox") else None
try:
    env.from_string("{{ a.b.c }}").render()
    env.from_string("{% if %}")
except jinja2.TemplateError as error:
    str(error)
