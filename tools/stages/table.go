package main

// environment is what each stage has beside its own. Processes of tests are many and small, and
// live briefly: collecting garbage when a heap has become five times what lived, not twice,
// saves an eighth to a quarter of what they compute.
var environment = []string{"GOGC=400"}

// table is what the test command runs; in each lane, in this order. Packages that have no
// stage of their own belong to "unit".
var table = []stage{
	{
		Name: "build", Purpose: "lehr, its plugins, renderers, checking programs and examples",
		Lane: computes, Script: `make -s -j2 build`,
	},

	{
		Name: "nemesis", Purpose: "two minutes of three real replicas under faults, with nothing beside them",
		// It measures how soon others act (L5), which a machine that computes something else delays.
		After: []string{"build"}, Lane: waits, Alone: true, OnDisk: true,
		Script: `make -s nemesis MINUTES=2 SEED=1`,
	},

	// What takes longest by the clock begins first.
	{
		Name: "faults", Purpose: "real programs broken on purpose",
		// More at a time than there are cores: each mostly waits, and all of it is the longest.
		After: []string{"build"}, Lane: waits, Flags: `-parallel 3`, Packages: `./test/faults/...`,
	},
	{
		Name: "scripts", Purpose: "what people type and see: scripts, and pages that are played",
		// More at a time than there are cores: each mostly waits.
		After: []string{"build"}, Lane: waits, Flags: `-parallel 4`, Packages: `./cmd/...`,
	},
	{
		Name: "rollouts", Purpose: "releases and a flag rolled out to ten clusters, with a real Prometheus; firmware to twenty switches",
		After: []string{"build"}, Lane: waits, Packages: `./test/rollouts ./examples/switches`,
	},
	{
		Name: "edges", Purpose: "a real browser, login, monitoring and notifications",
		After: []string{"build"}, Lane: waits, Packages: `-p 1 ./internal/web/... ./test/login ./test/monitoring ./test/watching`,
	},
	{
		Name: "story", Purpose: "the demo's story, checked against production",
		After: []string{"build"}, Lane: waits, Script: `bin/lehr demo --exit`,
	},
	{
		Name: "lint", Purpose: "vet, formatting, import rules, generated code",
		After: []string{"build"}, Lane: computes, Script: `make -s lint && scripts/check-generated`,
	},
	{
		Name: "kubernetes", Purpose: "the plugin for Kubernetes, with a real API server and its controllers",
		// It waits for controllers for most of its time, and takes the longest of what computes.
		After: []string{"build"}, Lane: computes, Script: `cd plugins/kubernetes && ` + goTest + `./...`,
	},
	{
		Name: "unit", Purpose: "the tests of all other packages",
		After: []string{"build"}, Lane: computes,
		Packages: `$(go list ./... | grep -v -E '^lehr.dev/(cmd|examples/switches|internal/(annealing|sim|web)|test/(faults|rollouts|monitoring|watching|login|crash|nemesis))(/|$)')`,
	},
	{
		Name: "simulator", Purpose: "the tests of the simulator",
		After: []string{"build"}, Lane: computes, Env: oneThread, Packages: `-p 2 ./internal/sim/...`,
	},
	{
		Name: "race", Purpose: "the quick tests of what has goroutines, under the race detector",
		After: []string{"build"}, Lane: computes, Script: `make -s race-short`,
	},
	{
		Name: "modules", Purpose: "plugins and renderers that are modules of their own, but for the plugin for Kubernetes",
		After: []string{"build"}, Lane: computes,
		// All of them, also after one that failed.
		Script: `failed=; for module in ${MODULES/plugins\/kubernetes/}; do (cd "$module" && ` + goTest + `./...) || failed+=" $module"; done; [ -z "$failed" ]`,
	},
	{
		Name: "crash", Purpose: "the embedded store killed, without power and on failing disks",
		After: []string{"build"}, Lane: computes, OnDisk: true, Packages: `./test/crash/... ./test/nemesis`,
	},
	{
		Name: "annealing", Purpose: "the tests of enforcer and strategist, in virtual time",
		After: []string{"build"}, Lane: computes, Env: oneThread, Packages: `-p 2 ./internal/annealing/...`,
	},

	{
		Name: "campaign", Purpose: "simulated hours for three minutes, and until every required situation was met",
		After: []string{"build"}, Lane: fills,
		Script: copyLehr + `"$lehr" sim --seed 1 --total-hours 5000 --for 3m --hours 8 --density 4 --complete`,
	},
	{
		Name: "replicas", Purpose: "60 simulated hours of three replicas that share a store",
		After: []string{"build"}, Lane: fills,
		Script: copyLehr + `"$lehr" sim --seed 1 --total-hours 60 --replicas 3 --hours 2 --density 60`,
	},
}

// oneThread is for tests in virtual time, where one goroutine goes on at a time: a second thread only
// hands it from core to core, which takes half as long again. Stacks start at the size that is usual.
const oneThread = `GOMAXPROCS=1 GODEBUG=adaptivestackstart=1`

// copyLehr copies lehr to where it lies in huge pages, which its virtual time runs a tenth faster from. Pieces of 8 MB, for
// the file system sees from one how large a page it may use.
const copyLehr = `lehr=$(mktemp); trap 'rm "$lehr"' EXIT; dd if=bin/lehr of="$lehr" bs=8M status=none; chmod 755 "$lehr"
`

// goTest runs tests. -count=1: some build and run the programs, which the cache of test
// results does not see. Without symbols for debuggers, for there are a hundred programs to
// link; lint has vetted all. The time-out finds what hangs: a stage beside others, on a busy
// machine, takes several times what it takes alone.
const goTest = `go test -count=1 -timeout 80m -vet=off -ldflags='-s -w' `
