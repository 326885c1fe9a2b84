package notify

import (
	"bytes"
	"net/mail"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/operator"
)

// Policy is whom partitions may have told, and how. Definitions name targets; addresses
// and secrets are the operator's. The zero policy has no target.
type Policy struct {
	Version string `yaml:"notifications"`
	// Networks of ours that targets may lie in, beside public addresses.
	Networks []netip.Prefix `yaml:"networks"`
	Targets  []Endpoint     `yaml:"targets"`
	SMTP     Mail           `yaml:"smtp"`
}

// Secret is in a variable of the environment, or in a file.
type Secret struct {
	Env  string `yaml:"env"`
	File string `yaml:"file"`
}

// Endpoint is a target: a webhook, a webhook of the kind that Slack has, or addresses of
// email.
type Endpoint struct {
	Name    string   `yaml:"name"`
	Webhook Secret   `yaml:"webhook"`
	Slack   Secret   `yaml:"slack"`
	Email   []string `yaml:"email"`
	// Sign is the key of a webhook's signatures.
	Sign       Secret              `yaml:"sign"`
	Partitions operator.Partitions `yaml:"partitions"`
}

// Mail is the server that takes email. The connection is encrypted by STARTTLS, unless it
// is Plain.
type Mail struct {
	Server   string `yaml:"server"`
	From     string `yaml:"from"`
	User     string `yaml:"user"`
	Password Secret `yaml:"password"`
	Plain    bool   `yaml:"plain"`
}

var policyKind = operator.Kind{Name: "policy of notifications", Key: "notifications", Flag: "notifications", Page: "docs/operate/notifications.md"}

// ReadPolicy reads a policy; no path: the zero policy.
func ReadPolicy(path string) (*Policy, error) {
	policy := &Policy{}
	if path == "" {
		return policy, nil
	}
	if err := operator.Read(path, policyKind, policy); err != nil {
		return nil, err
	}
	return policy, policy.check(path)
}

// SecretFiles are the files of secrets that the policy names.
func (p *Policy) SecretFiles() (list []string) {
	for _, t := range p.Targets {
		list = append(list, t.Webhook.File, t.Slack.File, t.Sign.File)
	}
	return append(list, p.SMTP.Password.File)
}

func (p *Policy) check(path string) error {
	names := map[string]bool{}
	mails := false
	for i := range p.Targets {
		t := &p.Targets[i]
		kinds := 0
		for _, isSet := range []bool{t.Webhook != Secret{}, t.Slack != Secret{}, len(t.Email) > 0} {
			if isSet {
				kinds++
			}
		}
		if t.Name == "" || names[t.Name] || kinds != 1 {
			return fault.New(fault.Invalid, "%s: target %d %q needs a name of its own, and one of webhook, slack and email", path, i+1, t.Name).
				WithHint("write {name: oncall, webhook: {env: ONCALL_URL}, partitions: [shop]}")
		}
		names[t.Name] = true
		for _, s := range []*Secret{&t.Webhook, &t.Slack, &t.Sign} {
			if err := s.check(path, t.Name); err != nil {
				return err
			}
		}
		for _, address := range t.Email {
			mails = true
			if err := plainAddress(address); err != nil {
				return fault.New(fault.Invalid, "%s: target %s: %w", path, t.Name, err)
			}
		}
		if err := t.Partitions.Check(); err != nil {
			return fault.New(fault.Invalid, "%s: target %s: %w", path, t.Name, err)
		}
	}
	if !mails && p.SMTP == (Mail{}) {
		return nil
	}
	if p.SMTP.Server == "" || plainAddress(p.SMTP.From) != nil {
		return fault.New(fault.Invalid, "%s: email needs a server, and an address that it is from", path).
			WithHint("write smtp: {server: \"mail.example.com:587\", from: lehr@example.com}")
	}
	if p.SMTP.Plain && p.SMTP.User != "" {
		return fault.New(fault.Invalid, "%s: a password would be sent in the clear", path).WithHint("take plain: true away, or user")
	}
	return p.SMTP.Password.check(path, "smtp")
}

func (s *Secret) check(path, label string) error {
	if s.Env != "" && s.File != "" {
		return fault.New(fault.Invalid, "%s: %s: a secret is in one place", path, label).WithHint("write {env: NAME} or {file: PATH}")
	}
	if s.File != "" && !filepath.IsAbs(s.File) {
		s.File = filepath.Join(filepath.Dir(path), s.File)
	}
	return nil
}

// plainAddress is Invalid unless the text is one address and nothing else.
func plainAddress(text string) error {
	parsed, err := mail.ParseAddress(text)
	if err != nil || parsed.Address != text || strings.ContainsAny(text, "\r\n") {
		return fault.New(fault.Invalid, "%.100q is no address of email", text).WithHint("write it as name@example.com")
	}
	return nil
}

// read a secret; empty when there is none to be.
func (s Secret) read(label string) (string, error) {
	secret := os.Getenv(s.Env)
	if s.File != "" {
		text, err := files.Read(s.File, files.MostGiven)
		if err != nil {
			return "", fault.New(fault.Unavailable, "%s cannot be read: %w", label, err)
		}
		secret = string(bytes.TrimSpace(text))
	}
	if secret == "" && s != (Secret{}) {
		return "", fault.New(fault.Unavailable, "%s is empty", label)
	}
	return secret, nil
}

// endpoint that a partition may use.
func (p *Policy) endpoint(partition intent.PartitionID, name string) (Endpoint, error) {
	at := slices.IndexFunc(p.Targets, func(t Endpoint) bool { return t.Name == name })
	if at < 0 || !p.Targets[at].Partitions.Has(partition) {
		return Endpoint{}, fault.New(fault.Denied, "partition %s has no target %.100q: the policy of notifications does not give it one", partition, name).
			WithHint("whoever runs the server adds it to the file of --notifications")
	}
	return p.Targets[at], nil
}
