"""Checks files of deploy/ against their schemas, and prints what is in them as JSON, a list of documents.

    check.py compose|kubernetes|plain FILE..
"""

import json
import sys

import yaml


def compose(document):
    from compose_spec import _PyCompose

    _PyCompose.from_json(json.dumps(document)).validate()


def kubernetes(document):
    import kubernetes_validate

    version = kubernetes_validate.latest_version()
    kubernetes_validate.validate(document, version, strict=True)


def plain(_):
    pass


def main():
    check = {"compose": compose, "kubernetes": kubernetes, "plain": plain}[sys.argv[1]]
    documents = []
    for path in sys.argv[2:]:
        with open(path) as file:
            documents.extend(yaml.safe_load_all(file))
    for document in documents:
        check(document)
    json.dump(documents, sys.stdout)


main()
