package main

import (
	"context"
	"fmt"
	"time"

	"lehr.dev/internal/ground/intent"
)

// measureSolver compares pushes a second between assets that depend on each
// other, five edges each, and the same assets without edges: creation of all
// of them, from the switch to enforce until the last was seen in sync. Edges
// cost the looks at neighbours, the rules, more to compare at admission, and
// the waiting for each other: the assets stand in layers.
func measureSolver(ctx context.Context, plugin string, size int) error {
	free, _, err := measureEdges(ctx, plugin, size, 0)
	if err != nil {
		return fmt.Errorf("pushes without edges: %w", err)
	}
	solved, edges, err := measureEdges(ctx, plugin, size, 1)
	if err != nil {
		return fmt.Errorf("pushes with edges: %w", err)
	}
	print("solver_edges", float64(edges), "edges")
	machine.figure("solver_pushes_without_edges", free, "pushes/s", 1, pushing...)
	machine.figure("solver_pushes_with_edges", solved, "pushes/s", 1, pushing...)
	print("solver_ratio", solved/free, "x")
	machine.figure("solver_time_per_push", 1e6/solved-1e6/free, "us", 1, byComputing)
	return nil
}

// layers of assets that come one after the other.
const layers = 4

// edgesProgram makes each asset serve two of the next layer, come after two of
// the layer before, and need a version of a third; the first and the last layer
// make up for what they lack.
const edgesProgram = `LAYERS, FILES = %d, %d

def generate(ctx):
    m = yaml(ctx.file)
    number, per = int(m["name"][4:]), len(m["versions"])
    return [asset(name(number, i), lehr.process.v1.Job(
        name = name(number, i), replicas = 3, binary = "/opt/" + m["name"], version = "2",
        args = ["--port={port}", "--flag=value", "--cluster=" + m["name"]],
        env = {"MODE": "production", "REGION": "europe-west"},
    ), addons = [
        lehr.intent.v1.Capacity(dimensions = {"capacity": "payload.replicas"}),
        lehr.intent.v1.Version(expression = "payload.version"),
    ] + dependencies(number, i, per)) for i in range(per)]

def name(number, i):
    return "job-" + ("00000" + str(number))[-6:] + "/" + str(i)

def dependencies(number, i, per):
    if not %d:
        return []
    width = FILES // LAYERS
    layer = min(number // width, LAYERS - 1)
    edges = []
    served = 2 if layer > 0 else 5
    if layer < LAYERS - 1:
        for k in range(served):
            edges.append(lehr.intent.v1.Dependency(on = name(number + width, (i + k) %% per), rule = "RULE_CAPACITY"))
    if layer > 0:
        for k in range(5 - len(edges)):
            on = name(number - width, (i + 11 * k + 7) %% per)
            if k == 0:
                edges.append(lehr.intent.v1.Dependency(on = on, rule = "RULE_VERSION", at_least = "1.4"))
            else:
                edges.append(lehr.intent.v1.Dependency(on = on, rule = "RULE_ORDER"))
    return [lehr.intent.v1.Dependencies(dependencies = edges)]
`

// measureEdges returns pushes a second, and how many edges there were.
func measureEdges(ctx context.Context, plugin string, size, with int) (rate float64, edges int, err error) {
	b, err := newBed(ctx, plugin, size, "observe")
	if err != nil {
		return 0, 0, err
	}
	defer b.close()
	if err := b.until(ctx, seldom, func() bool { return b.reported(ctx, intent.StateWaiting) == size }); err != nil {
		return 0, 0, err
	}
	previous := b.head(ctx)
	if err := b.write("jobs.star", fmt.Sprintf(edgesProgram, layers, size/perFile, with)); err != nil {
		return 0, 0, err
	}
	if err := b.until(ctx, seldom, func() bool { return b.head(ctx) != previous }); err != nil {
		return 0, 0, err
	}
	members, err := b.app.Store().EdgesFrom(ctx, b.head(ctx), "job-000000/0")
	if err != nil {
		return 0, 0, err
	}
	start := time.Now()
	if err := b.define("enforce"); err != nil {
		return 0, 0, err
	}
	if err := b.until(ctx, seldom, func() bool { return b.enforced(ctx) == size }); err != nil {
		return 0, 0, err
	}
	return float64(size) / time.Since(start).Seconds(), size * len(members), nil
}
