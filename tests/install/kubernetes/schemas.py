"""Writes the JSON schemas that kubeconform reads: schemas.py TOOLS OPERATOR.

Kubernetes' own come from the wheel kubernetes-validate, with references that are relative to the file. Those of PodMonitor and
PrometheusRule come from the custom resource definitions of the Prometheus operator.
"""

import json
import pathlib
import re
import sys

import yaml

KINDS = ["podmonitor", "prometheusrule"]


def main():
    tools, operator = map(pathlib.Path, sys.argv[1:])
    wheel = tools / "python/kubernetes_validate/kubernetes-json-schema"
    for source in wheel.glob("v*-local-strict"):
        target = tools / "schemas" / source.name.removesuffix("-local-strict")
        target.mkdir(parents=True, exist_ok=True)
        for file in source.glob("*.json"):
            schema = re.sub(r'"\$id": "[^"]*"', '"title": "Kubernetes"', file.read_text())
            (target / file.name).write_text(schema.replace('"/api/_definitions.json', '"_definitions.json'))
    target = tools / "schemas/monitoring"
    target.mkdir(parents=True, exist_ok=True)
    for kind in KINDS:
        file = operator / f"example/prometheus-operator-crd/monitoring.coreos.com_{kind}s.yaml"
        definition = yaml.safe_load(file.read_text())
        schema = strict(definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
        # Its type in the definition is an object without properties.
        schema["properties"]["metadata"] = {"type": "object"}
        (target / f"{kind}.json").write_text(json.dumps(schema))


def strict(schema):
    """Refuses properties that a definition does not have, as the server does."""
    if isinstance(schema, list):
        return [strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: strict(value) for key, value in schema.items()}
    if made.get("x-kubernetes-int-or-string"):
        made.pop("type", None)
        made["anyOf"] = [{"type": "integer"}, {"type": "string"}]
    if isinstance(made.get("properties"), dict) and made.get("type") == "object":
        made.setdefault("additionalProperties", False)
    return made


main()
