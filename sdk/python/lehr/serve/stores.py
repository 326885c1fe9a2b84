"""Files that are nobody's input: the stores of the Lehr that started the plugin."""

import glob
import json
import os

from .resource import Error

_stores = []


def take_stores(text):
    """Takes the JSON list of paths that Lehr hands down; empty: there are none."""
    _stores.extend(os.path.abspath(path) for path in (json.loads(text) if text else []))


def refuse_store(path):
    """Raises Error for a store of Lehr's and for what lies beside it under its name, by
    whatever name or link. A plugin that looks after files or databases calls it first."""
    real = os.path.realpath(path)
    for store in _stores:
        prefix = os.path.join(os.path.realpath(os.path.dirname(store)), os.path.basename(store))
        if real.startswith(prefix) or any(_is_same(real, beside) for beside in glob.glob(glob.escape(prefix) + "*")):
            raise Error("%s is a store of Lehr's, or lies beside it under its name: no plugin looks after it" % path)


def _is_same(path, other):
    try:
        return os.path.samefile(path, other)
    except OSError:
        return False
