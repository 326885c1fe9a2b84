package app

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/internal/pluginhost/remote"
)

// pool holds one child per distinct command line and one connection per plugin
// server, shared by all partitions that may use it.
type pool struct {
	folder   string
	contents plugin.Contents
	log      *slog.Logger
	ctx      context.Context
	cancel   context.CancelFunc

	mutex    sync.Mutex
	children map[string]*remote.Child
	checkers map[string]*remote.Checker
	servers  map[remote.Address]*remote.Server
	// allowed says which servers may be dialled, and programs run.
	allowed *servers
	// strict: only listed programs are run. Then schemas are those of their assets.
	strict  bool
	assets  snapshots
	schemas *schemas
}

// newPool keeps the children's locks in a folder; without one they hold none,
// and are for looking only.
func newPool(folder string, contents plugin.Contents, log *slog.Logger) (*pool, error) {
	if folder != "" {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return nil, fault.New(fault.Unavailable, "making the folder for the plugins' locks: %w", err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &pool{
		folder: folder, contents: contents, log: log, ctx: ctx, cancel: cancel,
		children: map[string]*remote.Child{}, checkers: map[string]*remote.Checker{}, servers: map[remote.Address]*remote.Server{}, allowed: &servers{},
	}, nil
}

// bound returns the plugin that a partition's binding names.
func (p *pool) bound(partition intent.PartitionID, binding *intentpb.PluginBinding) plugin.Plugin {
	switch {
	case binding.Dial != "" && p.strict:
		return listed{Plugin: dialled{p, partition, binding.Dial}, pool: p, partition: partition, binding: binding}
	case binding.Dial != "":
		return dialled{p, partition, binding.Dial}
	case p.strict:
		return listedChild{listed{pool: p, partition: partition, binding: binding}}
	}
	return p.plugin(binding.Run)
}

// plugin returns the child that a command line runs, started at its first use.
func (p *pool) plugin(run []string) *remote.Child {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	key := strings.Join(run, "\x00")
	child := p.children[key]
	if child == nil {
		options := remote.DefaultOptions()
		options.Run, options.Contents, options.LockDir, options.Log = run, p.contents, p.folder, p.log
		child = remote.Start(p.ctx, options)
		p.children[key] = child
	}
	return child
}

// judge returns the plugin of checks that a command line runs, started when it is asked.
func (p *pool) judge(run []string) plugin.Judge {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	key := strings.Join(run, "\x00")
	checker := p.checkers[key]
	if checker == nil {
		options := remote.DefaultOptions()
		options.Run, options.Log = run, p.log
		checker = remote.NewChecker(options)
		p.checkers[key] = checker
	}
	return checker
}

// hintsOf are the hints of one plugin.
type hintsOf struct {
	// plugin as metrics name it: its program or address, and a number where there are
	// several of one name.
	plugin   string
	counts   plugin.HintCounts
	reliable bool
}

// mostHintNames bounds the names of plugins that metrics of hints have.
const mostHintNames = 200

// hints of the plugins in use, in the same order each time, up to mostHintNames. A nil
// pool has none: another answers for all plugins.
func (p *pool) hints() (all []hintsOf) {
	if p == nil {
		return nil
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	names := map[string]int{}
	add := func(name string, hinting interface {
		HintCounts() plugin.HintCounts
		HintsReliable() bool
	}) {
		if len(names) >= mostHintNames {
			return
		}
		if names[name]++; names[name] > 1 {
			name = fmt.Sprintf("%s#%d", name, names[name])
		}
		all = append(all, hintsOf{name, hinting.HintCounts(), hinting.HintsReliable()})
	}
	for _, key := range slices.Sorted(maps.Keys(p.children)) {
		program, _, _ := strings.Cut(key, "\x00")
		add(path.Base(program), p.children[key])
	}
	byAddress := func(a, b remote.Address) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) }
	for _, address := range slices.SortedFunc(maps.Keys(p.servers), byAddress) {
		add(address.HostPort, p.servers[address])
	}
	return all
}

// close ends all children at once and leaves all servers, and returns when that
// is done.
func (p *pool) close() {
	p.cancel()
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for _, child := range p.children {
		child.Close()
	}
	for _, server := range p.servers {
		server.Close()
	}
	for _, checker := range p.checkers {
		checker.Close()
	}
}
