package prodspec_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec"
	"lehr.dev/test/detector"
)

// Every fault here leaves head as it is, names its place, and is over with the
// next good save.

type broken struct {
	name string
	// file takes old to by; an empty old replaces all of it.
	file, old, by string
	state         prodspec.State
	want          intent.Finding
	// message and hint must hold these.
	message, hint string
}

var faults = []broken{
	{
		name: "syntax of a manifest", file: "service.yaml", old: "clusters:\n", by: "clusters: [\n",
		want: intent.Finding{File: "service.yaml", Line: 5}, message: "not valid YAML", hint: "mend",
	},
	{
		name: "wrong type of a field", file: "service.yaml", old: "replicas: 3\n    base_port: 20200", by: "replicas: many\n    base_port: 20200",
		want: intent.Finding{File: "service.yaml", Line: 10, Column: 15, Field: "clusters[1].replicas"}, message: `must be a whole number (uint32), is "many"`, hint: "replicas: 3",
	},
	{
		name: "mapping where a list belongs", file: "service.yaml", old: `args: ["--port={port}"]`, by: "args: {port: 1}",
		want: intent.Finding{File: "service.yaml", Line: 3, Column: 7, Field: "args"}, message: "must be a list", hint: "args: [a, b]",
	},
	{
		name: "unknown field", file: "service.yaml", old: "replicas: 3\n    base_port: 20200", by: "replicaz: 3\n    base_port: 20200",
		want: intent.Finding{File: "service.yaml", Line: 10, Column: 5, Field: "clusters[1].replicaz"}, message: "unknown field", hint: "did you mean replicas?",
	},
	{
		name: "value out of bounds", file: "service.yaml", old: "base_port: 20200", by: "base_port: 80",
		want: intent.Finding{File: "service.yaml", Line: 11, Column: 16, Field: "clusters[1].base_port"}, message: "1024", hint: "mend",
	},
	{
		name: "field left out", file: "service.yaml", old: "    base_port: 20200\n", by: "",
		want: intent.Finding{File: "service.yaml", Line: 9, Field: "clusters[1].base_port"}, message: "not set", hint: "add the field",
	},
	{
		name: "field given twice", file: "service.yaml", old: "service: shop\n", by: "service: shop\nservice: shop\n",
		want: intent.Finding{File: "service.yaml", Line: 2}, message: "already defined", hint: "keep one of the two",
	},
	{
		name: "file cut to nothing", file: "service.yaml", by: "",
		want: intent.Finding{File: "service.yaml", Line: 1}, message: "is empty", hint: "restore",
	},
	{
		name: "syntax of a program", file: "web.star", old: "    return [\n", by: "    return [[\n",
		want: intent.Finding{File: "web.star"}, message: "got", hint: "mend the program",
	},
	{
		name: "unknown name in a program", file: "web.star", old: "service = decode(", by: "service = decode_(",
		want: intent.Finding{File: "web.star", Line: 16}, message: "undefined: decode_", hint: "mend the program",
	},
	{
		name: "unknown field of a message", file: "web.star", old: "replicas = cluster.replicas", by: "replicaz = cluster.replicas",
		want: intent.Finding{File: "web.star", Line: 4}, message: "called at web.star:", hint: "did you mean replicas?",
	},
	{
		name: "unknown type", file: "web.star", old: "lehr.process.v1.Job(", by: "lehr.process.v1.Jobb(",
		want: intent.Finding{File: "web.star", Line: 4}, message: "lehr.process.v1.Jobb", hint: "lehr.process.v1.Job",
	},
	{
		name: "endless loop", file: "web.star", old: "    service = decode", by: "    for _ in range(1 << 40):\n        pass\n    service = decode",
		want: intent.Finding{File: "web.star", Line: 16}, message: "too many steps", hint: "loop that does not end",
	},
	{
		name: "recursion", file: "web.star", old: "def generate(ctx):\n", by: "def down(n):\n    return down(n + 1)\n\ndef generate(ctx):\n    down(0)\n",
		want: intent.Finding{File: "web.star", Line: 16}, message: "recursively", hint: "walk the data with a loop",
	},
	{
		name: "oversized asset", file: "web.star", old: "args = service.args", by: `args = ["x" * 151000]`,
		want: intent.Finding{File: "web.star", Line: 18}, message: "at most 150000 are allowed", hint: "split the asset",
	},
	{
		name: "more output than allowed", file: "web.star", old: "    return [\n", by: "    for i in range(100):\n        asset(\"big/%d\" % i, lehr.process.v1.Job(args = [\"x\" * 140000]))\n    return [\n",
		want: intent.Finding{File: "web.star", Line: 18}, message: "more than 10000000 bytes", hint: "",
	},
	{
		name: "id twice in one generator", file: "web.star", old: `"%s/%s/frontend" % (service.service, cluster.name),` + "\n            job", by: `"shop/a/frontend",` + "\n            job",
		want: intent.Finding{File: "web.star", Line: 18, Asset: "shop/a/frontend"}, message: "twice", hint: "",
	},
	{
		name: "malformed id", file: "web.star", old: `"%s/%s/frontend" % (service.service, cluster.name),` + "\n            job", by: `"Shop//x",` + "\n            job",
		want: intent.Finding{File: "web.star", Line: 18}, message: `"Shop//x"`, hint: "",
	},
	{
		name: "id that changes its type", file: "web.star", old: "job(service, cluster),", by: `lehr.command.v1.Command(diff = ["true"], push = ["true"]),`,
		want: intent.Finding{Asset: "shop/a/frontend", File: "web.star", Line: 18}, message: "keeps its type", hint: "another id",
	},
	{
		name: "reference to nothing", file: "web.star", old: "addons = [", by: `addons = [lehr.intent.v1.Dependencies(dependencies = [{"on": "shop/none", "rule": "RULE_ORDER"}]), `,
		want: intent.Finding{Asset: "shop/a/frontend", File: "web.star"}, message: "shop/none", hint: "",
	},
	{
		name: "circle of references", file: "web.star", old: "addons = [", by: `addons = [lehr.intent.v1.Dependencies(dependencies = [{"on": "shop/%s/frontend" % ("b" if cluster.name == "a" else "a"), "rule": "RULE_ORDER"}]), `,
		want: intent.Finding{File: "web.star"}, message: "shop/a/frontend", hint: "",
	},
	{
		name: "partial content", file: "web.star", old: "    return [\n", by: "    return None and [\n",
		want: intent.Finding{File: "web.star"}, message: "not a list of assets", hint: "asset(id, payload)",
	},
	{
		name: "definition", file: "lehr.yaml", old: "  shrink: {max: 20%", by: "  shrink: {maxx: 20%",
		want: intent.Finding{File: "lehr.yaml", Line: 12, Column: 12, Field: "validate.shrink.maxx"}, message: "unknown field", hint: "did you mean max?",
	},
	{
		name: "definition of another partition", file: "lehr.yaml", old: "partition: shop", by: "partition: shoq",
		want: intent.Finding{File: "lehr.yaml", Field: "partition"}, message: "registered for shop", hint: "keeps its name",
	},
	{
		name: "pattern that matches nothing", file: "lehr.yaml", old: "files: [service.yaml]", by: "files: [service.yml]", state: prodspec.Unavailable,
		want: intent.Finding{File: "lehr.yaml", Line: 6, Field: "sources.service"}, message: `"service.yml"`, hint: "never taken for intent",
	},
	{
		name: "every cluster gone", file: "service.yaml", old: "", by: "service: shop\nbinary: /bin/true\nversion: \"1\"\nclusters: []\n", state: prodspec.Held,
		want: intent.Finding{}, message: "", hint: "lehr approve --candidate",
	},
}

func TestFaultIsNamedAndNotServed(t *testing.T) {
	for number, fault := range faults {
		if testing.Short() && number%4 != 0 {
			continue
		}
		t.Run(fault.name, func(t *testing.T) {
			w := newWorld(t, "web")
			if detector.On { // What steps are to end must not run out of time first.
				w.limits.Milliseconds *= 10
			}
			w.start()
			w.served(1)
			good, err := os.ReadFile(filepath.Join(w.folder, fault.file))
			if err != nil {
				t.Fatal(err)
			}
			if fault.old == "" {
				w.write(fault.file, fault.by)
			} else {
				w.replace(fault.file, fault.old, fault.by)
			}
			state := fault.state
			if state == "" {
				state = prodspec.Rejected
			}
			f := w.refused(state, 1)
			t.Logf("%s:%d:%d %s %s: %s (%s)", f.File, f.Line, f.Column, f.Field, f.Asset, f.Message, f.Hint)
			holds(t, f, fault)
			// The same with a change that is good.
			w.write(fault.file, string(good))
			w.replace("service.yaml", "replicas: 3\n    base_port: 20100", "replicas: 4\n    base_port: 20100")
			w.served(2)
			stored, err := w.store.ListCandidates(t.Context(), "shop", 1)
			if err != nil || len(stored) != 1 || stored[0].State != intent.CandidateSuperseded {
				t.Errorf("stored candidates %+v, %v: want the broken one superseded", stored, err)
			}
		})
	}
}

// TestOneFaultIsToldOnce: also when several programs read the file.
func TestOneFaultIsToldOnce(t *testing.T) {
	w := newWorld(t, "web")
	w.replace("lehr.yaml", "generate:\n", "generate:\n  again: {starlark: web.star, from: [service]}\n")
	w.replace("service.yaml", "replicas: 3\n    base_port: 20200", "replicaz: 3\n    base_port: 20200")
	w.start()
	w.refused(prodspec.Rejected, 0)
	stored, err := w.store.ListCandidates(t.Context(), "shop", 1)
	if err != nil || len(stored) != 1 || len(stored[0].Findings) != 1 {
		t.Errorf("candidates %+v, %v: want one finding", stored, err)
	}
}

func holds(t *testing.T, f intent.Finding, want broken) {
	t.Helper()
	if want.want.File != "" && f.File != want.want.File || want.want.Line != 0 && f.Line != want.want.Line ||
		want.want.Column != 0 && f.Column != want.want.Column || want.want.Field != "" && f.Field != want.want.Field ||
		want.want.Asset != "" && f.Asset != want.want.Asset {
		t.Errorf("the place is %s:%d:%d field %q asset %q, want %+v", f.File, f.Line, f.Column, f.Field, f.Asset, want.want)
	}
	if !strings.Contains(f.Message, want.message) || !strings.Contains(f.Hint, want.hint) {
		t.Errorf("message %q, hint %q; want %q and %q in them", f.Message, f.Hint, want.message, want.hint)
	}
	if f.Message == "" || f.Rule == "" || f.Severity == intent.Warning {
		t.Errorf("finding %+v is not whole", f)
	}
}
