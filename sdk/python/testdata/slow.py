"""The example, whose pushes take as long as a file PATH.slow is there: effects go on until the
permit ends."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import textfile  # noqa: E402
from lehr import serve  # noqa: E402


class SlowFiles(textfile.Files):
    def apply(self, change, permit):
        path = textfile.field(change.target, "path")
        for step in range(1000):
            if not os.path.exists(path + ".slow"):
                break
            permit.effect()
            with open(path + ".steps", "a", encoding="utf-8") as file:
                file.write("%d\n" % step)
            change.progress("step %d" % step)
            permit.wait(0.1)
        super().apply(change, permit)


serve.main(serve.Plugin("slow", "1", [SlowFiles()]))
