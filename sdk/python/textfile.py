#!/usr/bin/env python3
"""An example of a plugin in Python: it keeps text files as their assets say.

The payload is a google.protobuf.Struct {path, text}; "lehr plugin new --python" makes one
with a message of its own. docs/extend/python.md goes through it; lehr starts it.
"""

import hashlib
import os
import socket
import tempfile

from google.protobuf.struct_pb2 import Struct

from lehr import serve


class Files(serve.Resource):
    """Text files of this machine."""

    payload = Struct
    # A rename cannot be bound to what was read, so the class is N. It takes far less than
    # the second that is the default longest effect.
    guarantee = serve.UNGUARDED

    def read_one(self, asset):
        """Tells what is there now. It changes nothing."""
        path = field(asset.payload, "path")
        state = serve.State(key=key(path))
        serve.refuse_store(path)
        try:
            with open(path, "rb") as file:
                content = file.read()
        except FileNotFoundError:
            return state  # Nothing is there: the difference is a creation.
        # Any other error means that it is not known: never taken for in sync, nor absent.
        state.current = make(path, content.decode())
        # What a push is admitted for; another base needs another permit.
        state.base = hashlib.sha256(content).hexdigest()
        state.health = serve.Health(serve.HEALTHY)
        return state

    def resolve(self, asset):
        """Says how the file should be, in the form in which read_one tells of it."""
        path = field(asset.payload, "path")
        if not os.path.isabs(path):
            raise serve.Error('path "%s" is not absolute: write the whole path' % path)
        return make(path, field(asset.payload, "text"))

    def apply(self, change, permit):
        """Writes the text beside the file and renames it into place, so that nobody reads
        half of it."""
        path = field(change.target, "path")
        try:
            handle, temporary = tempfile.mkstemp(prefix=".textfile-", dir=os.path.dirname(path))
        except OSError as problem:
            raise serve.Retryable(str(problem)) from problem
        try:
            with open(handle, "w", encoding="utf-8", newline="") as file:
                file.write(field(change.target, "text"))
            # Asked right before each effect: without a permit nothing happens.
            permit.effect()
            os.rename(temporary, path)
        except BaseException:
            os.remove(temporary)
            raise

    def remove(self, change, permit):
        """Deletes the file: the asset has the addon Turndown. Without this method it could
        not be turned down."""
        permit.effect()
        try:
            # change.target is empty; what goes is what was found.
            os.remove(field(change.state.current, "path"))
        except FileNotFoundError:
            pass


def key(path):
    """Names the real thing, so that no two assets manage it."""
    return "textfile:" + socket.gethostname() + os.path.normpath(path)


def field(payload, name):
    return payload.fields[name].string_value if name in payload.fields else ""


def make(path, text):
    payload = Struct()
    payload["path"], payload["text"] = path, text
    return payload


if __name__ == "__main__":
    serve.main(serve.Plugin("textfile", "1", [Files()]))
