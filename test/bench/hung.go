package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"lehr.dev/internal/ground/intent"
)

// mixedProgram makes one asset in ten of a type that another plugin serves.
const mixedProgram = `def generate(ctx):
    m = yaml(ctx.file)
    return [made("%s/%d" % (m["name"], i), i, m) for i in range(len(m["versions"]))]

def made(name, i, m):
    if i % 10 == 0:
        return asset(name, lehr.command.v1.Command(diff = ["true"], push = ["true"]))
    return asset(name, lehr.process.v1.Job(name = name, replicas = 3, binary = "/opt/job", version = m["versions"][i]))
`

// measureHung compares how fast assets are pushed beside others that are off,
// and beside as many behind a plugin that hangs, by turns; the best of three.
func measureHung(ctx context.Context, plugin string, size int) error {
	alone, beside := math.Inf(1), math.Inf(1)
	for range 3 {
		for _, c := range []struct {
			best  *float64
			modes string
		}{{&alone, `"off"`}, {&beside, "enforce"}} {
			took, err := measureMixed(ctx, plugin, size, c.modes)
			if err != nil {
				return err
			}
			*c.best = min(*c.best, took)
		}
	}
	others := float64(size) * 0.9
	machine.figure("pushes_beside_off_ones", others/alone, "pushes/s", 1, pushing...)
	machine.figure("pushes_beside_hung_ones", others/beside, "pushes/s", 1, pushing...)
	print("hung_plugin_cost", 100*(1-alone/beside), "%")
	return nil
}

// measureMixed returns the seconds until all are in sync whose plugin works; the
// tenth that another one serves are of that mode.
func measureMixed(ctx context.Context, plugin string, size int, mode string) (float64, error) {
	folder, err := os.MkdirTemp("", "lehr-bench-")
	if err != nil {
		return 0, err
	}
	b := &bed{folder: folder, plugin: plugin, size: size, more: fmt.Sprintf("  Command: {run: [%s, -hang]}\nmodes: {Command: %s}\n", plugin, mode)}
	if err := os.Mkdir(filepath.Join(folder, "manifests"), 0o755); err != nil {
		return 0, err
	}
	for i := range size / perFile {
		if err := b.manifest(i, "v1"); err != nil {
			return 0, err
		}
	}
	if err := b.write("jobs.star", mixedProgram); err != nil {
		return 0, err
	}
	if err := b.define("observe"); err != nil {
		return 0, err
	}
	if err := b.start(ctx); err != nil {
		return 0, err
	}
	defer b.close()
	others := size - size/10
	if err := b.until(ctx, seldom, func() bool { return b.reported(ctx, intent.StateWaiting) >= others }); err != nil {
		return 0, err
	}
	start := time.Now()
	if err := b.define("enforce"); err != nil {
		return 0, err
	}
	err = b.until(ctx, betimes, func() bool { return b.enforced(ctx) == others })
	if err == nil && b.reported(ctx, intent.StateInSync) > others {
		err = fmt.Errorf("an asset behind a hung plugin is in sync")
	}
	return time.Since(start).Seconds(), err
}
