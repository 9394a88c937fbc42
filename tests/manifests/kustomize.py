"""As much of kustomize as our manifests use, for machines that have none; `test_render.py` holds it to the real one.

What it does not know it refuses, so that nothing in a kustomization is passed over in silence.
"""

from __future__ import annotations

import copy
import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

Object = dict[str, Any]

TOP = {
    "apiVersion",
    "kind",
    "namespace",
    "resources",
    "components",
    "labels",
    "configMapGenerator",
    "images",
    "patches",
}
MERGED_BY = {"containers": "name", "env": "name", "volumes": "name", "volumeMounts": "mountPath"}
"""Lists that a strategic merge patch merges, with the merge key of their items; all other lists are replaced."""

CLUSTER_WIDE = {"Namespace"}
LETTERS = str.maketrans("013ae", "ghkmt")


@dataclass
class Item:
    """An object, and whether its name gets a hash of its contents."""

    thing: Object
    hashed: bool = False


def build(directory: Path) -> list[Object]:
    """Every object of a kustomization, as `kubectl kustomize` would print it."""
    items = _accumulate(directory, [])
    renamed = {}
    for item in items:
        if item.hashed:
            meta = item.thing["metadata"]
            renamed[meta["name"]] = meta["name"] = f"{meta['name']}-{_digest(item.thing)}"
    for item in items:
        _point_to(item.thing, renamed)
    return [item.thing for item in items]


def _accumulate(directory: Path, items: list[Item]) -> list[Item]:
    document = yaml.load((directory / "kustomization.yaml").read_text(), yaml.CSafeLoader)
    _refuse(document, TOP)
    for name in document.get("resources", []):
        items = [*items, *_resources(directory / name)]
    for row in document.get("configMapGenerator", []):
        items = _generate(directory, row, items)
    for name in document.get("components", []):
        items = _accumulate(directory / name, items)
    for patch in document.get("patches", []):
        items = _patched(directory, patch, items)
    for item in items:
        if document.get("namespace") and item.thing["kind"] not in CLUSTER_WIDE:
            item.thing["metadata"]["namespace"] = document["namespace"]
        for row in document.get("labels", []):
            _label(item.thing, row)
        for row in document.get("images", []):
            _tag(item.thing, row)
    return items


def _resources(path: Path) -> list[Item]:
    if path.is_dir():
        return _accumulate(path, [])
    # Once through JSON: what YAML's aliases share would be changed in all places at once.
    return [Item(json.loads(json.dumps(each))) for each in yaml.load_all(path.read_text(), yaml.CSafeLoader) if each]


def _generate(directory: Path, row: Object, items: list[Item]) -> list[Item]:
    _refuse(row, {"name", "files", "envs", "behavior", "options"})
    options = row.get("options", {})
    _refuse(options, {"disableNameSuffixHash", "labels"})
    data = {}
    for each in row.get("files", []):
        key, _, path = each.rpartition("=")
        data[key or Path(path).name] = (directory / path).read_text()
    for path in row.get("envs", []):
        document = [line for line in (directory / path).read_text().splitlines() if line.strip() and line[0] != "#"]
        data |= {key: value for key, _, value in (line.partition("=") for line in document)}
    meta: Object = {"name": row["name"]}
    if options.get("labels"):
        meta["labels"] = dict(options["labels"])
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta} | ({"data": data} if data else {})
    if row.get("behavior") != "replace":
        return [*items, Item(made, hashed=not options.get("disableNameSuffixHash"))]
    (old,) = [each for each in items if each.thing["kind"] == "ConfigMap" and _name(each.thing) == row["name"]]
    old.thing.pop("data", None)
    old.thing.update({"data": data} if data else {})
    return items


def _patched(directory: Path, row: Object, items: list[Item]) -> list[Item]:
    _refuse(row, {"target", "patch", "path"})
    patch = yaml.safe_load(row["patch"] if "patch" in row else (directory / row["path"]).read_text())
    kept = []
    for item in items:
        if not _is_meant(item.thing, row["target"]):
            kept.append(item)
        elif isinstance(patch, list):
            for step in patch:
                _step(item.thing, step)
            kept.append(item)
        elif patch.get("$patch") != "delete":
            change = {key: value for key, value in patch.items() if key not in ("apiVersion", "kind", "metadata")}
            kept.append(Item(_merged(item.thing, change), item.hashed))
    return kept


def _is_meant(thing: Object, target: Object) -> bool:
    _refuse(target, {"kind", "name", "labelSelector"})
    label, _, value = target.get("labelSelector", "").partition("=")
    return (
        re.fullmatch(target.get("kind", ".*"), thing["kind"]) is not None
        and re.fullmatch(target.get("name", ".*"), _name(thing)) is not None
        and (not label or thing["metadata"].get("labels", {}).get(label) == value)
    )


def _step(thing: Object, step: Object) -> None:
    *way, last = step["path"].lstrip("/").split("/")
    place: Any = thing
    for part in way:
        place = place[int(part)] if isinstance(place, list) else place[part]
    if step["op"] not in ("replace", "remove") or last not in place:
        raise ValueError(f"cannot do {step}")
    if step["op"] == "remove":
        del place[last]
    else:
        place[last] = step["value"]


def _merged(base: Any, change: Any, key: str = "") -> Any:
    if isinstance(base, dict) and isinstance(change, dict):
        result = dict(base)
        for name, value in change.items():
            result[name] = _merged(base[name], value, name) if name in base else copy.deepcopy(value)
        return result
    if isinstance(base, list) and key in MERGED_BY:
        by = MERGED_BY[key]
        known = {each[by]: each for each in base}
        theirs = [_merged(known.get(each[by], {}), each) for each in change]
        return [*theirs, *(each for each in base if each[by] not in {one[by] for one in change})]
    return copy.deepcopy(change)


def _label(thing: Object, row: Object) -> None:
    _refuse(row, {"pairs", "includeTemplates"})
    thing["metadata"].setdefault("labels", {}).update(row["pairs"])
    template = thing.get("spec", {}).get("template")
    if row.get("includeTemplates") and template is not None:
        template["metadata"].setdefault("labels", {}).update(row["pairs"])


def _tag(thing: Object, row: Object) -> None:
    _refuse(row, {"name", "newTag"})
    pod = thing.get("spec", {}).get("template", {}).get("spec", {})
    for container in [*pod.get("initContainers", []), *pod.get("containers", [])]:
        if container["image"].partition(":")[0] == row["name"]:
            container["image"] = f"{row['name']}:{row['newTag']}"


def _point_to(place: Any, renamed: dict[str, str]) -> None:
    if isinstance(place, list):
        for each in place:
            _point_to(each, renamed)
    elif isinstance(place, dict):
        for key, value in place.items():
            if key in ("configMap", "configMapRef", "configMapKeyRef") and value.get("name") in renamed:
                value["name"] = renamed[value["name"]]
            _point_to(value, renamed)


def _digest(thing: Object) -> str:
    document = {"kind": "ConfigMap", "name": "", "data": thing.get("data", "")}  # kustomize leaves the name out
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return hashlib.sha256(text.encode()).hexdigest()[:10].translate(LETTERS)


def _name(thing: Object) -> str:
    return str(thing["metadata"]["name"])


def _refuse(document: Object, known: set[str]) -> None:
    if unknown := document.keys() - known:
        raise ValueError(f"this renderer does not know {', '.join(sorted(unknown))}")
