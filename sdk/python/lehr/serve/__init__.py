"""The Python SDK for asset plugins. A plugin's program is

    from lehr import serve

    class Files(serve.Resource):
        payload = ...
        def read_one(self, asset): ...
        def apply(self, change, permit): ...

    serve.main(serve.Plugin("files", "1", [Files()]))

One differ serves all kinds of resources. The package speaks the wire protocol, caches
content and keeps the permits: without one no effect starts. It decides nothing of what
should change, and holds no credentials.
"""

import sys

try:
    import google.protobuf  # noqa: F401
    import grpc  # noqa: F401
except ImportError as problem:
    sys.exit(
        "%s: %s. Install gRPC and protobuf for this Python; on Debian: apt-get install python3-grpcio python3-protobuf" % (sys.executable, problem)
    )

from .load import load_types
from .main import Plugin, main
from .permit import Permit
from .plan import CREATE, DELETE, REPLACE, UPDATE, FieldChange, Plan
from .reader import DENIED, INTERNAL, INVALID, NOT_FOUND, UNAVAILABLE, Rotated, SecretError
from .resource import (
    COMPARE_AND_SET, FENCED, HEALTH_UNKNOWN, HEALTHY, UNGUARDED, UNHEALTHY, Asset, Busy, Change, Content, Error, Health, Impact, MemoRefused,
    NoPermit, Outranked, Pending, Resource, Retryable, Stale, State, now,
)
from .secret import Digest, Secret
from .stores import refuse_store

__all__ = [
    "Asset", "Busy", "COMPARE_AND_SET", "CREATE", "Change", "Content", "DELETE", "DENIED", "Digest", "Error", "FENCED", "FieldChange", "HEALTHY",
    "HEALTH_UNKNOWN", "Health", "INTERNAL", "INVALID", "Impact", "MemoRefused", "NOT_FOUND", "NoPermit", "Outranked", "Pending", "Permit", "Plan",
    "Plugin", "REPLACE", "Resource", "Retryable", "Rotated", "Secret", "SecretError", "Stale", "State", "UNAVAILABLE", "UNGUARDED", "UNHEALTHY",
    "UPDATE", "load_types", "main", "now", "refuse_store",
]
