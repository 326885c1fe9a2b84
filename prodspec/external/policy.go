package external

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"lehr.dev/fault"
	"lehr.dev/intent"
	"lehr.dev/operator"
	"lehr.dev/prodspec/address"
)

// Policy is what rules may ask from this machine. Definitions are their
// tenants': which programs they may run, which databases they may read, and
// which networks of ours they may reach is the operator's to say. The zero
// policy allows HTTP to public addresses, and nothing else.
type Policy struct {
	Version   string         `yaml:"external-checks"`
	Networks  []netip.Prefix `yaml:"networks"`
	Commands  []Program      `yaml:"commands"`
	Databases []Database     `yaml:"databases"`
}

// Program that rules of some partitions may run, with any arguments.
type Program struct {
	Run        string              `yaml:"run"`
	Partitions operator.Partitions `yaml:"partitions"`
}

// Database that rules of some partitions may read. Its address, a postgres URL
// or the path of an SQLite file, is in a variable of the environment or a file.
type Database struct {
	Name       string              `yaml:"name"`
	Env        string              `yaml:"env"`
	File       string              `yaml:"file"`
	Partitions operator.Partitions `yaml:"partitions"`
}

// ReadPolicy reads a policy; no path: the zero policy.
func ReadPolicy(path string) (*Policy, error) {
	if path == "" {
		return &Policy{}, nil
	}
	policy := &Policy{}
	if err := operator.Read(path, operator.Kind{Name: "policy of external checks", Key: "external-checks", Flag: "external-checks", Page: "docs/partition.md"}, policy); err != nil {
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
	for i := range p.Databases {
		d := &p.Databases[i]
		if d.Name == "" || (d.Env == "") == (d.File == "") {
			return fault.New(fault.Invalid, "%s: database %d needs a name, and its address in one place", path, i+1).WithHint("write {name: inventory, env: INVENTORY_URL, partitions: [shop]}, or file: in place of env:")
		}
		if d.File != "" && !filepath.IsAbs(d.File) {
			d.File = filepath.Join(filepath.Dir(path), d.File)
		}
		if err := d.Partitions.Check(); err != nil {
			return fault.New(fault.Invalid, "%s: database %s: %w", path, d.Name, err)
		}
	}
	return nil
}

func (p *Policy) mayRun(partition intent.PartitionID, program string) error {
	for _, c := range p.Commands {
		if c.Run == program && c.Partitions.Has(partition) {
			return nil
		}
	}
	return denied(partition, fmt.Sprintf("run %.200q", program))
}

// address of a database.
func (p *Policy) address(partition intent.PartitionID, name string) (string, error) {
	for _, d := range p.Databases {
		if d.Name != name || !d.Partitions.Has(partition) {
			continue
		}
		found := os.Getenv(d.Env)
		if d.File != "" {
			text, err := os.ReadFile(d.File)
			if err != nil {
				return "", fault.New(fault.Unavailable, "the address of database %s cannot be read: %w", name, err)
			}
			found = string(bytes.TrimSpace(text))
		}
		if found == "" {
			return "", fault.New(fault.Unavailable, "the address of database %s is empty", name)
		}
		return found, nil
	}
	return "", denied(partition, fmt.Sprintf("read the database %.200q", name))
}

func denied(partition intent.PartitionID, what string) error {
	return fault.New(fault.Denied, "the rules of partition %s may not %s: the policy of external checks does not allow it", partition, what).
		WithHint("whoever runs the server adds it to the file of --external-checks")
}

// mayReach says whether an address may be reached, as it was resolved.
func (p *Policy) mayReach(a netip.Addr) error {
	if address.In(p.Networks, a) || address.Public(a) {
		return nil
	}
	return fault.New(fault.Denied, "external checks may not reach %s: it is no public address", a).
		WithHint("whoever runs the server lists the network in the file of --external-checks")
}
