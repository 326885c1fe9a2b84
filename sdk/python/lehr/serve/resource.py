"""What an author of a plugin writes and is given."""

import dataclasses
import time

from google.protobuf.any_pb2 import Any

from lehr.intent.v1 import addons_pb2

from . import secret
from .errors import Busy, Error, MemoRefused, NeverKept, NoPermit, Outranked, Retryable, Stale  # noqa: F401

FENCED, COMPARE_AND_SET, UNGUARDED = "F", "C", "N"
HEALTHY, UNHEALTHY, HEALTH_UNKNOWN = "healthy", "unhealthy", "unknown"


def now():
    """Returns the seconds since the machine was started, its suspensions included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclasses.dataclass
class Health:
    state: str = HEALTH_UNKNOWN
    reason: str = ""
    observed_version: str = ""


@dataclasses.dataclass
class Impact:
    """A capacity or the like that the real thing has now, and will have at the target."""

    dimension: str
    current: float
    target: float


@dataclasses.dataclass
class Pending:
    """A change under way that no push hastens."""

    reason: str
    # When it began, in seconds since 1970, as the provider tells; None: it does not tell.
    since: float = None
    # What ends it, for people.
    ends: str = ""
    # Seconds until the next look; 0: Lehr's own pause.
    retry_after: float = 0


@dataclasses.dataclass
class State:
    """What read found."""

    # In the payload's type; None: nothing is there.
    current: object = None
    # The identity of the real thing, naming the provider's instance; at most 512 bytes.
    key: str = ""
    # The provider's compare-and-set token, or the like; it changes when the real thing does.
    base: str = ""
    health: Health = dataclasses.field(default_factory=Health)
    impacts: list = dataclasses.field(default_factory=list)
    # Why the field of a path differs.
    notes: dict = dataclasses.field(default_factory=dict)
    # What other assets may need of the real thing, by name: texts, numbers, bools, or lists
    # and maps of them, which are never secret, and the same at each read while the thing is.
    # At most 64, 4 kB each, 16 kB together. They count while the asset is in sync.
    outputs: dict = dataclasses.field(default_factory=dict)
    # A change is under way: nothing is compared.
    pending: Pending = None
    # When production began to be read, by now(); None: for this call.
    read_at: float = None
    # An exception: the state could not be read, and nothing else is looked at.
    error: Exception = None


class Content:
    """An asset as of one incarnation, undecoded."""

    def __init__(self, asset):
        self.id = asset.id
        self.type = _type_name(asset.payload)
        self.payload_bytes = asset.payload.value
        self.addons = list(asset.addons)

    def addon(self, message_class):
        """Returns the addon of a generated type, or None."""
        for addon in self.addons:
            if _type_name(addon) == message_class.DESCRIPTOR.full_name:
                return message_class.FromString(addon.value)
        return None

    def decode(self, message_class):
        """Returns the payload; fields of a newer type are left out."""
        payload = message_class.FromString(self.payload_bytes)
        payload.DiscardUnknownFields()
        return payload


def _type_name(message: Any):
    return message.type_url.rpartition("/")[2]


class Asset(Content):
    """An asset that a call is about. payload is decoded; it must not be altered."""

    def __init__(self, asset, partition, incarnation, blob=None):
        super().__init__(asset)
        self._blob = blob
        # The push that the call is, with the secrets that it was planned with; None: a look.
        self.push = None
        self.partition = partition
        self.incarnation = incarnation
        self.payload = None
        # What read references name, by id, where it exists: Content.
        self.reads = {}
        # What earlier pushes asked Lehr to keep: bytes by resource key.
        self.memos = {}
        # The earliest time, by now(), at which production may have begun to be read for
        # the state; None: as long ago as the cadence allows.
        self.read_since = None

    def secret(self, ref):
        """Returns the Secret that a lehr.intent.v1.SecretRef names now, by the operator's list. A
        look takes what was read within 30 s; a push what was read since it began. Raises
        SecretError, and Rotated when the value is another than the push was planned with."""
        return secret.resolve(self, self.push, ref)

    def digest_of(self, ref, value):
        """Returns the Digest that bytes of production would have if the reference named them: so
        a plugin compares what production has with what it should have."""
        return secret.digest_of(self, ref, value)

    def blob(self, ref):
        """Returns the content, verified, that a lehr.intent.v1.ExternalRef of the asset names
        whose URI is blob:sha256:…, while the call is open that the asset came with."""
        return self.fetch(ref.uri, ref.sha256)

    def fetch(self, uri, sha256):
        if self._blob is None:
            raise Error("%s came with no call of Lehr's: there is nobody to ask for %s" % (self.id, uri))
        return self._blob(self.partition, self.incarnation, self.id, uri, sha256)

    @property
    def is_turned_down(self):
        """Whether the real thing is to be removed."""
        return any(_type_name(addon) == "lehr.intent.v1.Turndown" for addon in self.addons)

    @property
    def unmanaged(self):
        """The fields that production may own: path and reason of each."""
        addon = self.addon(addons_pb2.Unmanaged)
        return list(addon.fields) if addon else []


class Change:
    """What apply is to bring about: from state to target."""

    def __init__(self, asset, state, target, plan):
        self.asset, self.state, self.target, self.plan = asset, state, target, plan
        # The idempotency key towards the provider, unique for ever.
        self.push = ""
        # The fencing token. A target of class F refuses a lower one.
        self.token = 0
        # What spans of the plugin are below, as W3C writes it; empty: nobody is told of traces.
        self.traceparent = ""

    def progress(self, text):
        """Tells people how far it is."""

    def remember(self, memo, key=None):
        """Has Lehr keep bytes (16 kB at most; none: forget them) for a real thing, by default
        the one that was read, and returns when that is durable. Raises MemoRefused, or
        Retryable where nobody answers whether it is."""
        raise MemoRefused("there is no push that asks for it")


class Resource:
    """One kind of thing. Its methods are called from several threads at once; an exception
    is that asset's failure only."""

    # The generated class of the payload.
    payload = None
    # FENCED, COMPARE_AND_SET or UNGUARDED: what bounds a late push. Say the least that is true.
    guarantee = UNGUARDED
    # The longest effect in seconds that cannot be cancelled; at most 600.
    longest_effect = 1.0
    # How old an answer may be in seconds that nobody asked for in particular; at most 24 h.
    cadence = 0.0
    # Paths whose change destroys something, and paths that cannot be changed in place.
    destructive = ()
    replacing = ()

    def read(self, assets):
        """Returns the State of each asset's real thing, in their order. Changes nothing. A
        Resource has it that can read many in one call; it is then as slow as its slowest."""
        states = []
        for asset in assets:
            try:
                states.append(self.read_one(asset))
            except BaseException as problem:  # noqa: BLE001: of one asset only, also sys.exit.
                states.append(State(error=problem))
        return states

    def read_one(self, asset):
        """Returns the State of one real thing. An exception means that it is not known.
        Several are read at once, and one that hangs holds up no other."""
        raise NotImplementedError("a Resource has read or read_one")

    def resolve(self, asset):
        """Returns the payload as read would tell of it: it fills in defaults, and raises for
        what cannot be. It depends on the asset alone, and must not alter asset.payload."""
        return asset.payload

    def apply(self, change, permit):
        """Brings the real thing from change.state to change.target. It calls permit.effect()
        before each effect."""
        raise NotImplementedError("a Resource has apply")

    # remove(change, permit) removes what change.state shows. Without it, an asset that is
    # turned down is unknown.
    remove = None
    # destroys(change) returns the paths of change.plan.changes that destroy something.
    destroys = None
    # follow(asset, target, current) alters target, so that what follows from the unmanaged
    # fields is as in current.
    follow = None
    # watch(hint) calls hint(partition, asset_id) when Lehr should look, for as long as it
    # watches; it returns, or raises, when it does not any more.
    watch = None
