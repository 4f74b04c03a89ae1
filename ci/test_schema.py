"""docs/scenario.schema.json accepts what the loader accepts, and refuses what a schema can."""

import json
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml", reason="python3-yaml is not installed")
jsonschema = pytest.importorskip("jsonschema", reason="python3-jsonschema is not installed")

ROOT = Path(__file__).resolve().parent.parent
SCHEMA = json.loads((ROOT / "docs" / "scenario.schema.json").read_text())
GOOD = sorted(ROOT.glob("scenarios/*/*.yaml")) + [
    ROOT / f"ci/corpus/scenario/{name}.yaml" for name in ("whole", "programs")]

PAIR = """\
name: a
topology:
  nodes: {a: {ports: [p0]}, b: {ports: [p0]}}
  links: [{endpoints: ["a:p0", "b:p0"], subnet: 10.1.0.0/30}]
"""


class Loader(yaml.SafeLoader):
    """Keys are text, as Weft and YAML 1.2 read them: `on` is no truth value."""

    def construct_mapping(self, node, deep=False):
        self.flatten_mapping(node)
        return {key.value if isinstance(key, yaml.ScalarNode)
                else self.construct_object(key, deep=deep):
                self.construct_object(value, deep=deep) for key, value in node.value}


def load(text):
    return yaml.load(text, Loader)


def bad_files():
    """(title, who refuses it, text) of src/scenario/testdata/bad.txt."""
    text = (ROOT / "src/scenario/testdata/bad.txt").read_bytes().decode()
    for case in text.split("=== ")[1:]:
        head, body = case.split("\n", 1)
        title, who = head.rsplit(" | ", 1)
        yield title, who, body.split("---- gives\n")[0].replace("@pair\n", PAIR)


BAD = list(bad_files())


VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def test_the_schema_is_a_schema():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.name)
def test_good_files_are_accepted(path):
    VALIDATOR.validate(load(path.read_text()))


@pytest.mark.parametrize("text", [text for _, who, text in BAD if who == "schema"],
                         ids=[title for title, who, _ in BAD if who == "schema"])
def test_bad_files_are_refused(text):
    assert not VALIDATOR.is_valid(load(text))


@pytest.mark.parametrize("text", [text for _, who, text in BAD if who == "yaml"],
                         ids=[title for title, who, _ in BAD if who == "yaml"])
def test_what_is_not_yaml_is_refused(text):
    with pytest.raises((yaml.YAMLError, ValueError, TypeError)):
        VALIDATOR.is_valid(load(text))


def test_every_case_says_who_refuses_it():
    assert {who for _, who, _ in BAD} == {"schema", "loader", "yaml", "set"}
