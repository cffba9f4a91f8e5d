"""JSON files for golden/lint.py: values that know their keys, so that complaints can name them."""

import json
import math
import re

HEX = re.compile(r"[0-9a-f]{64}")


class Complaint(Exception):
    """What is wrong, and at which key."""


def refuse(constant):
    raise ValueError(f"{constant} is not JSON")


def unique(pairs):
    keys = [key for key, _ in pairs]
    twice = {key for key in keys if keys.count(key) > 1}
    if twice:
        raise ValueError(f"the key {sorted(twice)[0]!r} twice")
    return dict(pairs)


def parse(text):
    return json.loads(text, parse_constant=refuse, object_pairs_hook=unique)


class Node:
    """A value of a manifest that knows its key, so that complaints can name it."""

    def __init__(self, value, key=""):
        self.value, self.key = value, key

    def fail(self, what):
        raise Complaint(f"{self.key or 'the manifest'} {what}")

    def __getitem__(self, name):
        if not isinstance(self.value, dict):
            self.fail("is not an object")
        key = f"{self.key}.{name}" if self.key else name
        if name not in self.value:
            raise Complaint(f"{key} is missing")
        return Node(self.value[name], key)

    def __contains__(self, name):
        return isinstance(self.value, dict) and name in self.value

    def items(self):
        if not isinstance(self.value, list):
            self.fail("is not a list")
        return [Node(value, f"{self.key}[{i}]") for i, value in enumerate(self.value)]

    def members(self):
        if not isinstance(self.value, dict) or not self.value:
            self.fail("is not an object with members")
        return [(name, self[name]) for name in self.value]

    def text(self):
        if not isinstance(self.value, str) or not self.value:
            self.fail("is not a text")
        return self.value

    def integer(self):
        if not isinstance(self.value, int) or isinstance(self.value, bool) or self.value < 0:
            self.fail("is not a whole number of 0 or more")
        return self.value

    def number(self):
        if not isinstance(self.value, (int, float)) or isinstance(self.value, bool) or not 0 <= self.value < math.inf:
            self.fail("is not a number of 0 or more")
        return self.value

    def integers(self):
        return [item.integer() for item in self.items()]

    def hash(self):
        if not HEX.fullmatch(self.text()):
            self.fail("is not a sha256")
        return self.value

    def file_name(self):
        if "/" in self.text() or self.value in (".", ".."):
            self.fail("is not the name of a file in this folder")
        return self.value
