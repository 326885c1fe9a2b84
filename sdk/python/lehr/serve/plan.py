"""What a push would do, and the digest that an admission or an approval binds to."""

import dataclasses
import hashlib

from .text import shown

CREATE, UPDATE, REPLACE, DELETE = "create", "update", "replace", "delete"

# How many field changes a plan lists; the rest is one more that has their digest.
MAX_CHANGES = 1000


@dataclasses.dataclass
class FieldChange:
    """A field that differs. Values are rendered, and secrets are not shown."""

    path: str
    current: str = ""
    target: str = ""
    reason: str = ""
    destructive: bool = False


@dataclasses.dataclass
class Plan:
    """What a push would do; without an action nothing is to be done."""

    action: str = ""
    changes: list = dataclasses.field(default_factory=list)

    def digest(self):
        """Returns the 32 bytes that cover the action and the changes, sorted by path."""
        parts = ["lehr.plan.v1", self.action]
        for change in sorted(self.changes, key=lambda change: change.path.encode()):
            parts += [shown(change.path), shown(change.current), shown(change.target), "\x01" if change.destructive else "\x00"]
        return digest_of(*(part.encode() for part in parts))

    def bounded(self):
        """Returns the plan with the changes beyond the limit as one."""
        if len(self.changes) <= MAX_CHANGES:
            return self
        rest = self.changes[MAX_CHANGES - 1 :]
        folded = FieldChange(
            path="(%d more fields)" % len(rest),
            target="sha256 " + Plan(self.action, rest).digest().hex()[:12],
            destructive=any(change.destructive for change in rest),
        )
        return Plan(self.action, self.changes[: MAX_CHANGES - 1] + [folded])


def digest_of(*parts):
    """Returns SHA-256 over parts of bytes, each after its length, so that no two lists collide."""
    all_parts = hashlib.sha256()
    for part in parts:
        all_parts.update(len(part).to_bytes(8, "little"))
        all_parts.update(part)
    return all_parts.digest()


def is_covered(patterns, path):
    """Reports whether a pattern names the path or something above it.

    "clusters" covers "clusters[2].weight", and "[*]" stands for any index or key.
    """
    return any(_covers(pattern, path) for pattern in patterns)


def _covers(pattern, path):
    while pattern:
        if pattern.startswith("[*]") and path.startswith("["):
            end = index_end(path)
            if end < 0:
                return False
            pattern, path = pattern[3:], path[end:]
        elif not path or pattern[0] != path[0]:
            return False
        else:
            pattern, path = pattern[1:], path[1:]
    return not path or path[0] in ".["


def index_end(path):
    """Returns where the index or quoted key at the start of the path ends; -1: nowhere."""
    quoted, place = False, 1
    while place < len(path):
        if quoted and path[place] == "\\":
            place += 1
        elif path[place] == '"':
            quoted = not quoted
        elif path[place] == "]" and not quoted:
            return place + 1
        place += 1
    return -1
