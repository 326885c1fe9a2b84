package app

import (
	"context"
	"errors"
	"path/filepath"
	"reflect"
	"slices"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/operator"
	"lehr.dev/internal/pluginhost/plugin"
	"lehr.dev/internal/pluginhost/remote"
)

// servers is the list of plugin servers that may be dialled, and for which
// partitions. Definitions are their tenants' and only name an address: which
// there are, who vouches for them and what is shown to them is the operator's
// to say.
type servers struct {
	Version string `yaml:"plugin-servers"`
	// Certificate and Key are shown to servers without their own.
	Certificate string         `yaml:"certificate"`
	Key         string         `yaml:"key"`
	Servers     []listedServer `yaml:"servers"`
	// Programs that may be run, where an access policy is given.
	Programs []listedProgram `yaml:"programs"`
}

type listedServer struct {
	Dial        string              `yaml:"dial"`
	Name        string              `yaml:"name"`
	CA          string              `yaml:"ca"`
	Certificate string              `yaml:"certificate"`
	Key         string              `yaml:"key"`
	Partitions  operator.Partitions `yaml:"partitions"`
	uses        `yaml:",inline"`
}

// readServers reads the list. Files that it names are relative to its folder.
func readServers(path string) (*servers, error) {
	if path == "" {
		return &servers{}, nil
	}
	list := &servers{}
	if err := operator.Read(path, operator.Kind{Name: "list of plugin servers", Key: "plugin-servers", Flag: "plugin-servers", Page: "docs/extend/plugins.md"}, list); err != nil {
		return nil, err
	}
	return list, list.complete(filepath.Dir(path), path)
}

// complete fills in what holds for all servers, and says what is wrong.
func (l *servers) complete(folder, path string) error {
	addresses := map[string]bool{}
	for i := range l.Servers {
		s := &l.Servers[i]
		wrong := func(err error) error {
			return fault.New(fault.Invalid, "%s: server %d, %s: %w", path, i+1, s.Dial, err)
		}
		if s.Certificate == "" && s.Key == "" {
			s.Certificate, s.Key = l.Certificate, l.Key
		}
		for _, file := range []*string{&s.CA, &s.Certificate, &s.Key} {
			if *file != "" && !filepath.IsAbs(*file) {
				*file = filepath.Join(folder, *file)
			}
		}
		if err := s.address().Validate(); err != nil {
			return wrong(err)
		}
		if addresses[s.Dial] {
			return wrong(errors.New("it is listed twice"))
		}
		addresses[s.Dial] = true
		if err := errors.Join(s.Partitions.Check(), s.uses.complete(folder)); err != nil {
			return wrong(err)
		}
	}
	for i := range l.Programs {
		if err := l.Programs[i].complete(folder); err != nil {
			return fault.New(fault.Invalid, "%s: program %d: %w", path, i+1, err)
		}
	}
	return nil
}

func (s listedServer) address() remote.Address {
	return remote.Address{HostPort: s.Dial, Name: s.Name, CA: s.CA, Certificate: s.Certificate, Key: s.Key}
}

// allowed returns how a partition's plugin server is dialled.
func (l *servers) allowed(partition intent.PartitionID, dial string) (remote.Address, error) {
	for _, s := range l.Servers {
		if s.Dial == dial && s.Partitions.Has(partition) {
			return s.address(), nil
		}
	}
	return remote.Address{}, fault.New(fault.Denied, "partition %s may not have %.300q dialled: this server's list of plugin servers does not allow it", partition, dial).
		WithHint("whoever runs the server adds the address and the partition to the file of --plugin-servers")
}

// useServers dials by a list from now on. Connections that it does not allow
// as they are, are ended.
func (p *pool) useServers(list *servers) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.allowed = list
	for address, server := range p.servers {
		if !slices.ContainsFunc(list.Servers, func(s listedServer) bool { return s.address() == address }) {
			delete(p.servers, address)
			go server.Close()
		}
	}
}

// followServers reads the list again and again. One that is wrong changes
// nothing: what was read last counts until it is mended.
func (a *App) followServers(ctx context.Context) {
	lastError := ""
	for a.runtime.Wait(ctx, policyLook, nil) == nil {
		list, err := readServers(a.options.PluginServers)
		switch {
		case err != nil && err.Error() != lastError:
			a.log.Error("the list of plugin servers cannot be read, and what it said before still counts", "error", err)
			lastError = err.Error()
		case err == nil && !reflect.DeepEqual(list, a.pool.listed()):
			a.pool.useServers(list)
			a.log.Info("the list of plugin servers was read", "file", a.options.PluginServers, "servers", len(list.Servers))
			lastError = ""
		}
	}
}

func (p *pool) listed() *servers {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.allowed
}

// server returns the connection with a plugin server, made at its first use.
func (p *pool) server(partition intent.PartitionID, dial string) (*remote.Server, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	address, err := p.allowed.allowed(partition, dial)
	if err != nil {
		return nil, err
	}
	server := p.servers[address]
	if server == nil {
		options := remote.DefaultOptions()
		options.Contents, options.Log = p.contents, p.log
		server = remote.Dial(p.ctx, address, options)
		p.servers[address] = server
	}
	return server, nil
}

// dialled is a plugin server as one partition may use it. The list is asked
// each time. It is never known to be alone.
type dialled struct {
	pool      *pool
	partition intent.PartitionID
	dial      string
}

var _ plugin.Hinting = dialled{}

func (d dialled) Describe() (plugin.Description, error) {
	server, err := d.pool.server(d.partition, d.dial)
	if err != nil {
		return plugin.Description{}, err
	}
	return server.Describe()
}

func (d dialled) Diff(ctx context.Context, request plugin.DiffRequest) ([]intent.Difference, error) {
	server, err := d.pool.server(d.partition, d.dial)
	if err != nil {
		return nil, err
	}
	return server.Diff(ctx, request)
}

func (d dialled) Push(ctx context.Context, push plugin.Push) plugin.PushResult {
	server, err := d.pool.server(d.partition, d.dial)
	if err != nil {
		return plugin.PushResult{Ending: plugin.Failed, Reason: "the push was not started: " + err.Error(), Retryable: true}
	}
	return server.Push(ctx, push)
}

// WatchHints implements plugin.Hinting. It returns at once while the server is not
// listed, and when it is left.
func (d dialled) WatchHints(ctx context.Context, partition intent.PartitionID, take func(plugin.Hints)) {
	server, err := d.pool.server(d.partition, d.dial)
	if err == nil {
		server.WatchHints(ctx, partition, take)
	}
}
