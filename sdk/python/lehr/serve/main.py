"""The program: it serves the Lehr that started it until that ends."""

import dataclasses
import os
import signal
import sys
import threading

from . import secret
from .log import take_output
from .resource import COMPARE_AND_SET, FENCED, UNGUARDED
from .server import Server
from .stores import take_stores

# What Lehr hands down (internal/pluginhost/plugin).
SOCKET, LOCK, STORES, SECRETS = "LEHR_PLUGIN_SOCKET", "LEHR_PLUGIN_LOCK", "LEHR_PLUGIN_STORES", "LEHR_PLUGIN_SECRETS"
SECRET_LIST, LIST_FLAG = "LEHR_SECRET_LIST", "--secret-list"
STOP_WITHIN = 0.9  # Seconds that pushes have to notice the end.
MEMORY_LOOK = 2  # Seconds between two looks at how much memory is used.


@dataclasses.dataclass
class Plugin:
    # Name and version are for people.
    name: str
    version: str
    # Resources, one for each type of payload.
    resources: list
    # Bounds the intent that is kept in memory.
    cache_bytes: int = 64 << 20
    # A process that has more than that resident ends, and Lehr starts it anew: what leaks
    # must not take the machine with it.
    max_memory: int = 1 << 30
    # The operator's list of secrets, by which they are read; None: what the program's argument
    # --secret-list or the variable LEHR_SECRET_LIST names.
    secret_list: str = None


def main(plugin):
    """Serves, and ends the process. Run by hand it says what it is."""
    _validate(plugin)
    socket = os.environ.get(SOCKET)
    if not socket:
        sys.stderr.write(_usage(plugin))
        sys.exit(2)
    _take_standard_files()
    _keep_lock()
    try:
        take_stores(os.environ.get(STORES))
    except ValueError as problem:
        sys.exit("%s: reading %s: %s" % (plugin.name, STORES, problem))
    secret.start(plugin.name, _secret_list(plugin), os.environ.get(SECRETS))
    for name in (SOCKET, LOCK, STORES, SECRETS):
        os.environ.pop(name, None)  # The programs that it starts need none of these.
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    service = Server(plugin)
    try:
        server = service.listen(socket)
    except (OSError, RuntimeError) as problem:
        sys.exit("%s: listening for Lehr on %s: %s" % (plugin.name, socket, problem))
    while not stopping.wait(MEMORY_LOOK):
        used = _resident()
        if used > plugin.max_memory:
            _leave(1, "%s: it uses %d MiB of memory, more than the %d that it may: it ends, to be started anew" % (plugin.name, used >> 20, plugin.max_memory >> 20))
    server.stop(0)
    service.pushing.wait(STOP_WITHIN)
    _leave(0)


def _leave(code, words=""):
    """Ends the process at once: a thread that hangs must not keep it."""
    if words:
        print(words, file=sys.stderr)
    sys.stderr.flush()
    os._exit(code)


def _secret_list(plugin):
    """Returns the path of the operator's list; empty: there is none, which permits nothing."""
    if plugin.secret_list is not None:
        return plugin.secret_list
    for place, argument in enumerate(sys.argv[1:], 1):
        name, equals, value = argument.partition("=")
        if name == LIST_FLAG:
            return value if equals else "".join(sys.argv[place + 1 : place + 2])
    return os.environ.get(SECRET_LIST, "")


def _validate(plugin):
    names = set()
    for resource in plugin.resources:
        name = resource.payload.DESCRIPTOR.full_name
        if name in names:
            sys.exit("plugin %s lists the type %s twice" % (plugin.name, name))
        if resource.guarantee not in (FENCED, COMPARE_AND_SET, UNGUARDED):
            sys.exit("plugin %s: the guarantee %r of %s is none of FENCED, COMPARE_AND_SET, UNGUARDED" % (plugin.name, resource.guarantee, name))
        names.add(name)
    if not plugin.name or not names:
        sys.exit("plugin %r serves %d types: it needs a name and at least one resource" % (plugin.name, len(names)))


def _take_standard_files():
    """Ends the process when standard input does, which Lehr keeps open as long as it lives;
    no program that it starts gets it. What is printed goes to the log.

    Lehr has the kernel kill its plugins when it dies, too. The process does not ask for that
    itself: it would be killed when a mere thread of its parent ends."""
    parent = os.dup(0)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    take_output()

    def wait():
        try:
            while os.read(parent, 4096):
                pass
        finally:
            os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def _keep_lock():
    """Keeps the lock, by which Lehr knows that the plugin may still be at work, from the
    programs that it starts."""
    text = os.environ.get(LOCK)
    if text:
        try:
            os.set_inheritable(int(text), False)
        except (ValueError, OSError) as problem:
            sys.exit("%s=%r is no file descriptor: %s" % (LOCK, text, problem))


def _resident():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _usage(plugin):
    names = [resource.payload.DESCRIPTOR.full_name for resource in plugin.resources]
    lines = ["%s %s is a Lehr plugin. Lehr starts it." % (plugin.name, plugin.version), "", "It serves:"]
    lines += ["  " + name for name in names]
    lines += ["", "Name it in a partition's lehr.yaml, beside lehr, in PATH or by its path:", "  plugins:"]
    lines += ["    %s: {run: %s}" % (name, plugin.name) for name in names]
    lines += ["", "Hold it to the protocol, with an example of what it looks after:"]
    lines += ["  lehr plugin test --example example.yaml -- %s" % plugin.name]
    return "\n".join(lines) + "\n"
