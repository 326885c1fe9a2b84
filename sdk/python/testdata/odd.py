"""A plugin whose things do what their names say."""

import hashlib
import os
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from google.protobuf.struct_pb2 import Struct  # noqa: E402

from lehr import serve  # noqa: E402
from lehr.intent.v1.asset_pb2 import ExternalRef  # noqa: E402

kept = []


def home(name):
    return os.environ["HOME"] + "/" + name


class Things(serve.Resource):
    payload = Struct
    cadence = 60
    longest_effect = 2.5

    def read_one(self, asset):
        name = asset.payload["name"]
        state = serve.State(current=asset.payload, key="odd:" + name, base="1", health=serve.Health(serve.UNHEALTHY, "tired\n"))
        if name == "pending":
            state.pending = serve.Pending("a task runs", since=1700000000.5, ends="its exit", retry_after=60)
        elif name == "old":
            state.read_at = serve.now() - 30
            if asset.read_since is not None and asset.read_since > state.read_at:
                state = serve.State(pending=serve.Pending("a listing is under way"))
        elif name == "busy":
            raise serve.Busy("429 too many requests", 90)
        elif name == "raises":
            raise KeyError("nobody expects it")
        elif name == "exits":
            sys.exit("enough")
        elif name == "prints":
            print("a word on standard output", flush=True)
            os.write(1, b"\x00\xff bytes on standard output\n")
        elif name == "hangs":
            threading.Event().wait()
        elif name == "leaks":
            kept.append(b"x" * (300 << 20))
        elif name == "no text":
            state.base = "\udc80"
        elif name == "good":
            serve.refuse_store(home("free.txt"))
        elif name == "outputs":
            state.outputs = {"port": 9007199254740993, "hosts": ["ä", "b"]}
        elif name == "no json":
            state.outputs = {"port": float("nan")}
        elif name == "store":
            serve.refuse_store(home("folder") + "/../lehr.db-wal")
        elif name == "link":
            serve.refuse_store(home("link"))
        elif name.startswith("blob"):
            content = b"a blob" * 400_000 if name != "blob that is not there" else b"another"
            sha256 = hashlib.sha256(content).digest()
            state.health.reason = "a blob of %d bytes" % len(asset.blob(ExternalRef(uri="blob:sha256:" + sha256.hex(), sha256=sha256)))
        elif name == "wrong":
            return None
        elif name.startswith("memo"):
            state.current = None
            state.notes = {'fields["name"].string_value': "remembered " + asset.memos.get("odd:memo", b"nothing").decode()}
        return state

    def apply(self, change, permit):
        change.progress("half\x1b way\r\nstarting\n")
        name = change.target["name"]
        if name == "memo of a megabyte":
            change.remember(b"x" * (1 << 20))
        elif name == "memo of nothing":
            change.remember(b"run 7", "")
        elif name == "memo that is not printable":
            change.remember(b"run 7", "a\x07b")
        elif name == "memo with a long key":
            change.remember(b"run 7", "k" * 513)
        change.remember(b"run 7")
        permit.effect()
        with open(home("started"), "w", encoding="utf-8") as file:
            file.write(change.push)

    def watch(self, hint):
        hint("p", "memo")
        hint("p", "memo")
        threading.Event().wait()


serve.main(serve.Plugin("odd", "1", [Things()], max_memory=200 << 20))
