#!/usr/bin/env python3
"""An example of a plugin in Python with a secret: it keeps files "user:password", of which the
asset says where the password is.

docs/extend/python.md tells of it; lehr starts it.
"""

import os
import pathlib
import socket
import tempfile

from lehr import serve

TYPES = serve.load_types(pathlib.Path(__file__).with_name("types.binpb"))
LoginFile = TYPES["example.v1.LoginFile"]


class Logins(serve.Resource):
    """Files of this machine that only their owner reads."""

    payload = LoginFile
    guarantee = serve.UNGUARDED

    def read_one(self, asset):
        """Tells what is there now; of the password its digest under today's reference and key,
        so that a rotation is a difference, and moving a secret is none."""
        path = asset.payload.path
        serve.refuse_store(path)
        state = serve.State(key="loginfile:" + socket.gethostname() + os.path.normpath(path))
        try:
            with open(path, "rb") as file:
                user, _, password = file.read().partition(b":")
                status = os.fstat(file.fileno())
        except FileNotFoundError:
            return state
        words = asset.digest_of(asset.payload.password, password).words
        state.current = LoginFile(path=path, user=user.decode(), password_digest=words)
        # Not a hash of the content, from which the password could be guessed.
        state.base = "%d %d" % (status.st_ino, status.st_mtime_ns)
        state.health = serve.Health(serve.HEALTHY)
        return state

    def resolve(self, asset):
        """Says how the file should be, with the password's digest in the place of where it is."""
        if not os.path.isabs(asset.payload.path):
            raise serve.Error('path "%s" is not absolute: write the whole path' % asset.payload.path)
        if asset.payload.password_digest:
            raise serve.Error("password_digest is filled in by the plugin: leave it out")
        # What cannot be read raises, and the asset is unknown: it is never taken for empty.
        with asset.secret(asset.payload.password) as password:
            return LoginFile(path=asset.payload.path, user=asset.payload.user, password_digest=password.words)

    def apply(self, change, permit):
        """Writes the file beside, for nobody else to read, and renames it into place."""
        path = change.target.path
        # The value that was planned with, or serve.Rotated: then nothing is changed.
        with change.asset.secret(change.asset.payload.password) as password:
            content = change.target.user.encode() + b":" + password.reveal()
        handle, temporary = tempfile.mkstemp(prefix=".loginfile-", dir=os.path.dirname(path))
        try:
            with open(handle, "wb") as file:
                file.write(content)
            permit.effect()
            os.rename(temporary, path)
        except BaseException:
            os.remove(temporary)
            raise

    def remove(self, change, permit):
        permit.effect()
        pathlib.Path(change.state.current.path).unlink(missing_ok=True)


if __name__ == "__main__":
    serve.main(serve.Plugin("loginfile", "1", [Logins()]))
