"""Answers each line of standard input, a JSON object that names a reference, by what it names or
why it cannot be had. The arguments are the operator's list and a document of SOPS."""

import hashlib
import json
import pickle
import sys

from lehr import serve
from lehr.intent.v1 import asset_pb2, secret_pb2
from lehr.serve import secret

pushes, document = {}, open(sys.argv[2], "rb").read()
secret.start("lehr-test", sys.argv[1], None)
asset = serve.Asset(asset_pb2.Asset(id="db/a"), "shop", "shop@1", lambda *_: document)


def answer(question):
    if "redact" in question:
        return {"redacted": secret.redact_all(question["redact"])}
    ref = secret_pb2.SecretRef.FromString(bytes.fromhex(question["ref"]))
    asset.push = pushes.setdefault(question["push"], secret.Push()) if question["push"] else None
    try:
        if question["production"]:
            digest = asset.digest_of(ref, question["production"].encode())
            return {"digest": digest.content.hex(), "words": digest.words}
        with asset.secret(ref) as value:
            pickled = ""
            try:
                pickle.dumps(value)
            except TypeError as problem:
                pickled = str(problem)
            return {
                "digest": value.digest.content.hex(), "words": value.words, "sha256": hashlib.sha256(value.reveal()).hexdigest(),
                "shown": "%s %r %s" % (value, value, [value]), "pickled": pickled, "rotations": asset.push.rotations if asset.push else "",
            }
    except serve.Rotated as problem:
        return {"kind": "rotated", "reason": str(problem)}
    except serve.SecretError as problem:
        return {"kind": problem.kind, "reason": str(problem)}
    finally:
        if question["ends"]:
            pushes.pop(question["push"]).end()


for line in sys.stdin:
    print(json.dumps(answer(json.loads(line))), flush=True)
