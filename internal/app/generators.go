package app

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/operator"
	"lehr.dev/internal/prodspec/generate"
	"lehr.dev/internal/prodspec/generate/native"
)

// generators is the list of partitions that may have native programs run, and
// how. Definitions are their tenants'; what runs on this machine is for whoever
// runs the server to say.
type generators struct {
	Version string           `yaml:"generators"`
	Native  []nativePrograms `yaml:"native"`
	// RunTime is how long a run of any generator may have a core; empty: the usual time.
	RunTime string `yaml:"run_time"`
}

// Bounds of RunTime.
const (
	leastRunTime = time.Second
	mostRunTime  = 10 * time.Minute
)

// runTime is what RunTime says; 0: nothing.
func (l *generators) runTime() (time.Duration, error) {
	if l.RunTime == "" {
		return 0, nil
	}
	most, err := time.ParseDuration(l.RunTime)
	if err != nil || most < leastRunTime || most > mostRunTime {
		return 0, fmt.Errorf("run_time %q is no length of time from %s to %s: write, for example, 30s", l.RunTime, leastRunTime, mostRunTime)
	}
	return most, nil
}

type nativePrograms struct {
	Partitions operator.Partitions `yaml:"partitions"`
	Sandbox    string              `yaml:"sandbox"`
	Visible    []string            `yaml:"visible"`
}

// readGenerators reads the list.
func readGenerators(path string) (*generators, error) {
	list := &generators{}
	if err := operator.Read(path, operator.Kind{Name: "list of native generators", Key: "generators", Flag: "generators", Page: "docs/use/generators.md"}, list); err != nil {
		return nil, err
	}
	if _, err := list.runTime(); err != nil {
		return nil, fault.New(fault.Invalid, "%s: %w", path, err)
	}
	for i := range list.Native {
		if err := list.Native[i].complete(); err != nil {
			return nil, fault.New(fault.Invalid, "%s: entry %d of native: %w", path, i+1, err)
		}
	}
	return list, nil
}

// complete fills in what is usual, and says what is wrong.
func (n *nativePrograms) complete() error {
	if n.Sandbox == "" {
		n.Sandbox = string(native.Required)
	}
	if !slices.Contains([]native.Sandbox{native.Required, native.Preferred, native.Off}, native.Sandbox(n.Sandbox)) {
		return fmt.Errorf("sandbox %q is not known: write required, preferred or off", n.Sandbox)
	}
	if err := n.Partitions.Check(); err != nil {
		return err
	}
	for _, folder := range n.Visible {
		if !filepath.IsAbs(folder) || filepath.Clean(folder) != folder || folder == "/" {
			return fmt.Errorf("visible: %q is no folder by its whole path, as /usr is", folder)
		}
		if slices.Contains([]string{"/tmp", "/work", "/program", "/assets", "/dev"}, "/"+firstName(folder)) {
			return fmt.Errorf("visible: %s lies where the sandbox has its own", folder)
		}
	}
	return nil
}

func firstName(folder string) string {
	for parent := filepath.Dir(folder); parent != "/"; parent = filepath.Dir(folder) {
		folder = parent
	}
	return filepath.Base(folder)
}

// allowed is what a partition's programs may. The first entry that names it
// counts.
func (l *generators) allowed(partition intent.PartitionID) (native.Policy, error) {
	for _, n := range l.Native {
		if n.Partitions.Has(partition) {
			return native.Policy{Sandbox: native.Sandbox(n.Sandbox), Visible: n.Visible}, nil
		}
	}
	return native.Policy{}, fault.New(fault.Denied, "partition %s may not have native programs run: this server's list of generators does not name it", partition).
		WithHint("have whoever runs the server add it to the file of --generators, or build the program for WASI")
}

// runner is how generators run: compiled modules are kept in a folder, and the
// file says who may run native programs, and how long a run may take. Who may is read
// each time, so that what the file says now counts.
func runner(folder, file string) generate.Options {
	options := generate.DefaultOptions()
	options.Cache = folder
	if file != "" {
		// What is wrong with the file was told at the start.
		if list, err := readGenerators(file); err == nil {
			if most, _ := list.runTime(); most > 0 {
				options.Limits.Milliseconds = most.Milliseconds()
			}
		}
		options.Native = func(partition intent.PartitionID) (native.Policy, error) {
			list, err := readGenerators(file)
			if err != nil {
				return native.Policy{}, err
			}
			allowed, err := list.allowed(partition)
			for _, folder := range allowed.Visible {
				if err == nil {
					err = files.Holds(folder)
				}
			}
			return allowed, err
		}
	}
	return options
}

// runner of a server, or of a plan, which has no folder of its own. A file that
// is wrong is told at the start.
func (a *App) runner() (generate.Options, error) {
	folder := ownModules()
	if a.options.Store != "" {
		var err error
		if folder, err = filepath.Abs(a.options.Store + ".modules"); err != nil {
			return generate.Options{}, err
		}
	}
	if file := a.options.Generators; file != "" {
		if _, err := readGenerators(file); err != nil {
			return generate.Options{}, err
		}
	}
	return runner(folder, a.options.Generators), nil
}

// ownModules is the user's folder for compiled modules; empty: there is none.
func ownModules() string {
	folder, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(folder, "lehr", "modules")
}
