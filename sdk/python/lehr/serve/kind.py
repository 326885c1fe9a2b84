"""How a Resource is read, compared and planned for: one differ for all."""

import sys
import traceback

from . import differ, secret
from .plan import CREATE, DELETE, REPLACE, UPDATE, Plan, is_covered
from .resource import Busy, Change, Error, State
from .unmanaged import leave


def guard(operation, asset_id, call):
    """Calls what an author wrote. What it raises is made an Error, with the stack in the log
    when it is a defect."""
    try:
        return call()
    except Error:
        raise
    except (OSError, ValueError) as problem:
        raise Error("%s: %s" % (operation, problem)) from problem
    except BaseException as problem:
        raise Error(tell_defect(operation, asset_id, problem)) from problem


def tell_defect(operation, asset_id, problem):
    """Logs the stack of a defect, and returns what people are told."""
    print("%s for %s raised:" % (operation, asset_id), file=sys.stderr)
    traceback.print_exception(type(problem), problem, problem.__traceback__, file=sys.stderr)
    return "%s raised %s: %s (a defect of the plugin; its log has the stack)" % (operation, type(problem).__name__, problem)


def explain(operation, asset_id, problem):
    """Returns what people are told of an exception."""
    if isinstance(problem, (Error, OSError, ValueError)):
        return str(problem)
    return tell_defect(operation, asset_id, problem)


def read(resource, assets):
    """Returns a State for each asset, whatever read does."""
    decoded, states = [], {}
    for asset in assets:
        try:
            asset.payload = asset.decode(resource.payload)
            decoded.append(asset)
        except Exception as problem:  # noqa: BLE001: each runtime has its own.
            name = resource.payload.DESCRIPTOR.full_name
            states[asset.id] = State(error=Error("reading the intent of %s as %s: %s" % (asset.id, name, problem)))
    if decoded:
        states.update(zip((asset.id for asset in decoded), _read_all(resource, decoded)))
    return [states[asset.id] for asset in assets]


def _read_all(resource, assets):
    problem = None
    try:
        states = list(resource.read(assets))
        if len(states) == len(assets):
            return [state if isinstance(state, State) else State(error=Error("read returned no State: a defect of the plugin")) for state in states]
        problem = Error("read returned %d states for %d assets: a defect of the plugin" % (len(states), len(assets)))
    except BaseException as raised:  # noqa: BLE001: also a sys.exit of an author's library.
        problem = raised
    # What a provider says is of all. After a defect each is read alone, so that only the
    # asset at fault suffers.
    if len(assets) == 1 or isinstance(problem, (Error, OSError)):
        return [State(error=problem)] * len(assets)
    return [state for asset in assets for state in _read_all(resource, [asset])]


def plan(resource, asset, state):
    """Returns the Change from a state to intent, and the differences that are left to
    production. A plan without an action says that they agree."""
    if asset.is_turned_down:
        return _plan_turndown(resource, asset, state), []
    target = guard("resolve", asset.id, lambda: resource.resolve(asset))
    if not isinstance(target, resource.payload):
        raise Error("resolve returned no %s for %s: a defect of the plugin" % (resource.payload.DESCRIPTOR.full_name, asset.id))
    change = Change(asset, state, target, Plan())
    unmanaged = []
    if state.current is not None:
        if state.current == target:
            return change, []
        unmanaged = _leave_unmanaged(resource, change)
    changes = differ.compare(state.current, change.target)
    if state.current is not None and not changes:
        return change, unmanaged
    change.plan = Plan(CREATE if state.current is None else UPDATE, changes)
    _judge(resource, change)
    _hide_in_plan(change.plan.changes)
    change.plan = change.plan.bounded()
    return change, unmanaged


def _hide_in_plan(changes):
    """Takes the secrets that this process has read out of what a plan shows, before its digest
    is taken: on both sides of an approval alike."""
    texts = [text for one in changes for text in (one.path, one.current, one.target, one.reason)]
    hidden = iter(secret.redact_all(texts))
    for one in changes:
        one.path, one.current, one.target, one.reason = next(hidden), next(hidden), next(hidden), next(hidden)


def _plan_turndown(resource, asset, state):
    if resource.remove is None:
        raise Error("this plugin cannot turn down a %s" % resource.payload.DESCRIPTOR.full_name)
    change = Change(asset, state, resource.payload(), Plan())
    if state.current is not None:
        change.plan = Plan(DELETE, differ.compare(state.current, None))
        for field in change.plan.changes:
            field.destructive, field.reason = True, state.notes.get(field.path, "")
        _hide_in_plan(change.plan.changes)
        change.plan = change.plan.bounded()
    return change


def _leave_unmanaged(resource, change):
    """Replaces in the target what production may own by what production has."""
    fields = change.asset.unmanaged
    if not fields:
        return []
    intended, current = change.target, change.state.current
    change.target = type(intended)()
    change.target.CopyFrom(intended)
    for field in fields:
        leave(change.target, current, field.path)
    if resource.follow is not None:
        guard("follow", change.asset.id, lambda: resource.follow(change.asset, change.target, current))
    changes = differ.compare(change.target, intended)
    for one in changes:
        # What only follows from the fields listed has the reason of the first.
        one.reason = next((f.reason for f in reversed(fields) if is_covered([f.path], one.path)), fields[0].reason)
    _hide_in_plan(changes)
    return Plan("", changes).bounded().changes


def _judge(resource, change):
    """Marks what is destroyed, and adds the notes of the state."""
    exists = change.state.current is not None
    for field in change.plan.changes:
        field.reason = change.state.notes.get(field.path, "")
        if exists and is_covered(resource.destructive, field.path):
            field.destructive = True
        if exists and is_covered(resource.replacing, field.path):
            field.destructive, change.plan.action = True, REPLACE
    if resource.destroys is not None:
        paths = guard("destroys", change.asset.id, lambda: list(resource.destroys(change)))
        for field in change.plan.changes:
            field.destructive = field.destructive or is_covered(paths, field.path)


def retry_after(problem):
    """Returns the pause that an exception asks for, in seconds; 0: none."""
    return problem.retry_after if isinstance(problem, Busy) else 0
