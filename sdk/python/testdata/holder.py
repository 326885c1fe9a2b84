"""A plugin whose things are secrets of commands that have their names."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from google.protobuf.struct_pb2 import Struct  # noqa: E402

from lehr import serve  # noqa: E402
from lehr.intent.v1.secret_pb2 import SecretRef  # noqa: E402


class Things(serve.Resource):
    payload = Struct

    def read_one(self, asset):
        secret = asset.secret(SecretRef(command=asset.payload["name"]))
        return serve.State(current=asset.payload, key="holder:" + asset.id, base="1", health=serve.Health(serve.HEALTHY, secret.words))


serve.main(serve.Plugin("holder", "1", [Things()]))
