"""Loads, dumps, scans, parses, composes and emits YAML."""

import yaml

text = "a: [1, 2.5, null, true, 2001-01-01]\nb: &x {c: 'd', e: \"f\"}\ng: *x\nh: |\n  i\n  j\nk: !!set {l}\n"
for loader in (yaml.SafeLoader, yaml.FullLoader, yaml.Loader):
    found = yaml.load(text, Loader=loader)
list(yaml.parse(text))
list(yaml.scan(text))
yaml.compose(text)
list(yaml.safe_load_all("a\n---\nb\n"))
yaml.dump(found, default_flow_style=False)
yaml.safe_dump_all([[1, "x\ny", {"z": (1, 2)}], b"q".decode()])
yaml.dump({"a": {1, 2}, "b": complex(1, 2), "c": len}, Dumper=yaml.Dumper)
yaml.emit(yaml.parse(text))
yaml.serialize(yaml.compose(text))


class Point(yaml.YAMLObject):
    yaml_tag = "!point"

    def __init__(self, x):
        self.x = x


yaml.load(yaml.dump(Point(3)), Loader=yaml.Loader)
try:
    yaml.safe_load("a: [")
except yaml.YAMLError as error:
    str(error)
