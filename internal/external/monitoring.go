package external

import (
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/operator"
)

// Kinds of monitoring; Protection is a service that says whether a push may be, Metrics one
// that gives samples to validations of rollouts, Verification one that verifies environments of
// deliveries, Workflow one that runs of workflows ask and tell.
const (
	Prometheus   = "prometheus"
	Alertmanager = "alertmanager"
	Protection   = "protection"
	Metrics      = "metrics"
	Verification = "verification"
	Workflow     = "workflow"
)

// Monitoring that checks of some partitions may ask by its name. Its address is
// the operator's, and so may be any; its secrets are shown to it alone.
type Monitoring struct {
	Name string `yaml:"name"`
	Kind string `yaml:"kind"`
	URL  string `yaml:"url"`
	// Token is borne, or else User and Password are given; or neither.
	Token    Secret `yaml:"token"`
	User     string `yaml:"user"`
	Password Secret `yaml:"password"`
	// CA is a file of certificates that are believed instead of the system's.
	CA         string              `yaml:"ca"`
	Partitions operator.Partitions `yaml:"partitions"`
}

func (m *Monitoring) check(folder string) error {
	if m.CA != "" && !filepath.IsAbs(m.CA) {
		m.CA = filepath.Join(folder, m.CA)
	}
	switch _, err := base(m.URL); {
	case !monitoringName.MatchString(m.Name):
		return fmt.Errorf("%q is no name; use a-z, A-Z, 0-9, -, _ and .", m.Name)
	case !slices.Contains([]string{Prometheus, Alertmanager, Protection, Metrics, Verification, Workflow}, m.Kind):
		return fmt.Errorf("%s: the kind %q is not known: it is %s, %s, %s, %s, %s or %s", m.Name, m.Kind, Prometheus, Alertmanager, Protection, Metrics, Verification, Workflow)
	case err != nil:
		return fmt.Errorf("%s: %w", m.Name, err)
	case m.Token.isSet() && m.User != "" || (m.User == "") == m.Password.isSet():
		return fmt.Errorf("%s: it takes a token, or a user and a password", m.Name)
	case m.Token.isSet() && !m.Token.makeAbsolute(folder) || m.Password.isSet() && !m.Password.makeAbsolute(folder):
		return fmt.Errorf("%s: a secret is in one place: env or file", m.Name)
	}
	return m.Partitions.Check()
}

// base is a URL that paths are added to. Secrets are not written into it: it is
// shown to people.
func base(text string) (*url.URL, error) {
	at, err := url.Parse(text)
	switch {
	case err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "":
		return nil, errors.New("its url is no URL of http or https")
	case at.User != nil:
		return nil, errors.New("its url holds a user: who asks is said beside it")
	case at.RawQuery != "" || at.Fragment != "":
		return nil, errors.New("its url has a query or a fragment: only a path may follow the host")
	}
	return at, nil
}

// IsURL tells a monitoring's URL from the name of one.
func IsURL(place string) bool { return strings.Contains(place, "://") }

var monitoringName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,62}$`)

// CheckPlace is Invalid when a place is neither a name nor a URL that can be asked.
func CheckPlace(place string) error {
	if monitoringName.MatchString(place) {
		return nil
	}
	_, err := base(place)
	if !IsURL(place) {
		err = fmt.Errorf("%.200q is neither a URL nor a name", place)
	}
	if err != nil {
		return fault.New(fault.Invalid, "%w", err).WithHint("write \"https://prometheus.example.com\", or the name of one that whoever runs the server lists, with its secrets, in the file of --external-checks")
	}
	return nil
}

// Place is what leads to a monitoring: a request without a path.
func (p *Policy) Place(partition intent.PartitionID, kind, place string) (Request, error) {
	if IsURL(place) {
		at, err := base(place)
		if err != nil {
			return Request{}, fault.New(fault.Invalid, "%w", err)
		}
		return Request{URL: at, Reach: p.MayReach}, nil
	}
	for _, m := range p.Monitoring {
		if m.Name == place && m.Kind == kind && m.Partitions.Has(partition) {
			return m.request()
		}
	}
	return Request{}, denied(partition, fmt.Sprintf("ask the %s %.200q", kind, place))
}

// Service is a request to a URL at a service of a kind that the operator lists for a partition:
// its URL is that one's, or goes on from it at a slash. Denied: none is.
func (p *Policy) Service(partition intent.PartitionID, kind, place string) (Request, error) {
	at, err := url.Parse(place)
	if err != nil || at.Host == "" || at.User != nil || at.Fragment != "" {
		return Request{}, fault.New(fault.Invalid, "%.200q is not a URL that can be called", place).WithHint("write https://HOST/PATH, without a user and a fragment")
	}
	for _, m := range p.Monitoring {
		if m.Kind != kind || !m.Partitions.Has(partition) || !m.covers(at) {
			continue
		}
		request, err := m.request()
		request.URL = at
		return request, err
	}
	return Request{}, denied(partition, fmt.Sprintf("call %.200q", at.Redacted()))
}

// covers reports whether a URL is the service's, or below it.
func (m *Monitoring) covers(at *url.URL) bool {
	own, err := base(m.URL)
	if err != nil || own.Scheme != at.Scheme || own.Host != at.Host {
		return false
	}
	prefix, path := strings.TrimSuffix(own.Path, "/"), at.Path
	clean := !slices.ContainsFunc(strings.Split(path, "/"), func(part string) bool { return part == "." || part == ".." })
	return clean && (path == prefix || strings.HasPrefix(path, prefix+"/"))
}

func (m *Monitoring) request() (Request, error) {
	at, err := base(m.URL)
	if err != nil {
		return Request{}, fault.New(fault.Invalid, "%w", err)
	}
	request := Request{URL: at, Header: http.Header{}}
	switch {
	case m.Token.isSet():
		token, err := m.Token.value("the token of " + m.Name)
		if err != nil {
			return Request{}, err
		}
		request.Header.Set("Authorization", "Bearer "+token)
	case m.User != "":
		password, err := m.Password.value("the password of " + m.Name)
		if err != nil {
			return Request{}, err
		}
		request.Header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(m.User+":"+password)))
	}
	if m.CA != "" {
		text, err := files.Read(m.CA, files.MostGiven)
		if err != nil {
			return Request{}, fault.New(fault.Unavailable, "the certificates for %s cannot be read: %w", m.Name, err)
		}
		if request.Roots = x509.NewCertPool(); !request.Roots.AppendCertsFromPEM(text) {
			return Request{}, fault.New(fault.Invalid, "%s holds no certificate", m.CA)
		}
	}
	return request, nil
}
