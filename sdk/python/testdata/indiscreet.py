"""The example with a secret, which does what its last argument says. It is run beside it."""

import os
import sys

import loginfile
from lehr import serve

LIE = sys.argv[-1]
first = []


class Logins(loginfile.Logins):
    def read_one(self, asset):
        state = super().read_one(asset)
        if LIE == "sees no rotation" and state.current is not None:
            state.current.password_digest = "secret"
        return state

    def resolve(self, asset):
        target = loginfile.LoginFile(path=asset.payload.path, user=asset.payload.user)
        try:
            secret = asset.secret(asset.payload.password)
        except serve.SecretError:
            if LIE == "takes a missing one for none":
                return target
            if LIE == "does not say which":
                raise serve.Error("something cannot be read") from None
            raise
        target.password_digest = secret.words
        value = secret.reveal().decode()
        if LIE == "sees no rotation":
            target.password_digest = "secret"
        elif LIE == "remembers it for ever":
            first.append(secret.words)
            target.password_digest = first[0]
        elif LIE == "writes it past the package":
            os.write(2, secret.reveal())
        elif LIE == "prints it":
            print("it is", value, secret, "%s %r" % (secret, [secret]), f"{secret:>5}", flush=True)
            sys.stderr.write(value)
        elif LIE == "plans with it":
            target.user = value
        elif LIE == "raises it" and not os.path.exists(asset.payload.path + ".quiet"):
            open(asset.payload.path + ".quiet", "w").close()
            raise KeyError(value)
        return target

    def apply(self, change, permit):
        with change.asset.secret(change.asset.payload.password) as secret:
            value = secret.reveal()
        if LIE == "keeps it in a memo":
            change.remember(value)
        elif LIE == "tells it as progress":
            change.progress("it is " + value.decode())
        super().apply(change, permit)


serve.main(serve.Plugin("loginfile", "1", [Logins()]))
