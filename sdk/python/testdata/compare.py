"""Answers each line of standard input, a JSON object, by another: the differ's changes and
the plan's digest, what is left to production, or how texts are shown. The argument is a file
of compiled types."""

import json
import sys

from lehr import serve
from lehr.serve import differ, plan, text, unmanaged

TYPES = serve.load_types(sys.argv[1])


def parse(name, encoded):
    return None if encoded is None else TYPES[name].FromString(bytes.fromhex(encoded))


def answer(question):
    if "pattern" in question:
        return {"covered": plan.is_covered([question["pattern"]], question["path"])}
    if "text" in question:
        raw = bytes.fromhex(question["text"])
        value = raw.decode("utf-8", "surrogateescape")
        return {"shown": text.shown(value), "sentence": text.sentence(value), "quoted": text.quote(raw)}
    current, target = parse(question["type"], question["current"]), parse(question["type"], question["target"])
    if "leave" in question:
        try:
            unmanaged.leave(target, current, question["leave"])
        except ValueError:
            return {"refused": True}
        return {"left": target.SerializeToString(deterministic=True).hex()}
    made = serve.Plan(question["action"], differ.compare(current, target)).bounded()
    shown = TYPES[question["type"]]()
    if target is not None:
        shown.CopyFrom(target)
    differ.clear_redacted(shown)
    return {
        "changes": [[one.path, one.current, one.target] for one in made.changes],
        "digest": made.digest().hex(),
        "cleared": shown.SerializeToString(deterministic=True).hex(),
    }


for line in sys.stdin:
    print(json.dumps(answer(json.loads(line))), flush=True)
