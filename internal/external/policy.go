// Package external asks what lies outside of Lehr for those who judge by it, as
// far as whoever runs the server allows: it reads the operator's policy, and
// fetches URLs within limits of size, to addresses that are judged as they were
// resolved. What does not answer is an error, never an answer; no error holds a
// secret. Validation rules (package inquiry) and checks (package monitoring) are
// asked through it; it decides nothing.
package external

import (
	"fmt"
	"net/netip"
	"path/filepath"

	"lehr.dev/internal/ground/address"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/operator"
)

// Policy is what partitions may ask from this machine. Definitions are their
// tenants': which programs they may run, which databases and monitoring they may
// read, and which networks of ours they may reach is the operator's to say. The
// zero policy allows HTTP to public addresses, and nothing else.
type Policy struct {
	Version    string         `yaml:"external-checks"`
	Networks   []netip.Prefix `yaml:"networks"`
	Commands   []Program      `yaml:"commands"`
	Databases  []Database     `yaml:"databases"`
	Monitoring []Monitoring   `yaml:"monitoring"`
	Plugins    []Plugin       `yaml:"plugins"`
}

// Plugin of checks that protections of some partitions may ask by its name.
type Plugin struct {
	Name       string              `yaml:"name"`
	Run        []string            `yaml:"run"`
	Partitions operator.Partitions `yaml:"partitions"`
}

// Program that rules of some partitions may run, with any arguments.
type Program struct {
	Run        string              `yaml:"run"`
	Partitions operator.Partitions `yaml:"partitions"`
}

// Database that rules of some partitions may read. Its address is a postgres URL
// or the path of an SQLite file.
type Database struct {
	Name       string `yaml:"name"`
	Secret     `yaml:",inline"`
	Partitions operator.Partitions `yaml:"partitions"`
}

// ReadPolicy reads a policy. Files that it names are relative to its folder. No
// path: the zero policy.
func ReadPolicy(path string) (*Policy, error) {
	if path == "" {
		return &Policy{}, nil
	}
	policy := &Policy{}
	if err := operator.Read(path, operator.Kind{Name: "policy of external checks", Key: "external-checks", Flag: "external-checks", Page: "docs/use/partition.md"}, policy); err != nil {
		return nil, err
	}
	return policy, policy.check(path)
}

func (p *Policy) check(path string) error {
	for _, c := range p.Commands {
		if !filepath.IsAbs(c.Run) {
			return fault.New(fault.Invalid, "%s: the command %q is no absolute path", path, c.Run).WithHint("name the program itself, so that nothing else is found in its place")
		}
		if err := c.Partitions.Check(); err != nil {
			return fault.New(fault.Invalid, "%s: command %s: %w", path, c.Run, err)
		}
	}
	folder := filepath.Dir(path)
	for i := range p.Databases {
		d := &p.Databases[i]
		if d.Name == "" || !d.makeAbsolute(folder) {
			return fault.New(fault.Invalid, "%s: database %d needs a name, and its address in one place", path, i+1).WithHint("write {name: inventory, env: INVENTORY_URL, partitions: [shop]}, or file: in place of env:")
		}
		if err := d.Partitions.Check(); err != nil {
			return fault.New(fault.Invalid, "%s: database %s: %w", path, d.Name, err)
		}
	}
	for i, plugin := range p.Plugins {
		if !monitoringName.MatchString(plugin.Name) || len(plugin.Run) == 0 {
			return fault.New(fault.Invalid, "%s: plugin %d needs a name, and the program that it is", path, i+1).WithHint("write {name: quiet, run: [/usr/local/bin/quiet], partitions: [shop]}")
		}
		if err := plugin.Partitions.Check(); err != nil {
			return fault.New(fault.Invalid, "%s: plugin %s: %w", path, plugin.Name, err)
		}
	}
	for i := range p.Monitoring {
		if err := p.Monitoring[i].check(folder); err != nil {
			return fault.New(fault.Invalid, "%s: monitoring %d: %w", path, i+1, err).
				WithHint("write {name: main, kind: prometheus, url: \"https://prometheus.internal\", token: {env: PROMETHEUS_TOKEN}, partitions: [shop]}")
		}
	}
	return nil
}

// SecretFiles are the files of secrets that the policy names.
func (p *Policy) SecretFiles() (list []string) {
	for _, d := range p.Databases {
		list = append(list, d.File)
	}
	for _, m := range p.Monitoring {
		list = append(list, m.Token.File, m.Password.File)
	}
	return list
}

// MayRun is Denied unless the partition may run the program.
func (p *Policy) MayRun(partition intent.PartitionID, program string) error {
	for _, c := range p.Commands {
		if c.Run == program && c.Partitions.Has(partition) {
			return nil
		}
	}
	return denied(partition, fmt.Sprintf("run %.200q", program))
}

// Plugin is the command line of a plugin of checks.
func (p *Policy) Plugin(partition intent.PartitionID, name string) ([]string, error) {
	for _, plugin := range p.Plugins {
		if plugin.Name == name && plugin.Partitions.Has(partition) {
			return plugin.Run, nil
		}
	}
	return nil, denied(partition, fmt.Sprintf("ask the plugin of checks %.200q", name))
}

// Address of a database.
func (p *Policy) Address(partition intent.PartitionID, name string) (string, error) {
	for _, d := range p.Databases {
		if d.Name == name && d.Partitions.Has(partition) {
			return d.value("the address of database " + name)
		}
	}
	return "", denied(partition, fmt.Sprintf("read the database %.200q", name))
}

func denied(partition intent.PartitionID, action string) error {
	return fault.New(fault.Denied, "partition %s may not %s: the policy of external checks does not allow it", partition, action).
		WithHint("whoever runs the server adds it to the file of --external-checks")
}

// MayReach says whether an address may be reached, as it was resolved.
func (p *Policy) MayReach(a netip.Addr) error {
	if address.In(p.Networks, a) || address.Public(a) {
		return nil
	}
	return fault.New(fault.Denied, "external checks may not reach %s: it is no public address", a).
		WithHint("whoever runs the server lists the network in the file of --external-checks")
}
