// Package endpoint holds the operator's list of HTTP APIs and speaks to those that are on
// it: with the operator's secrets, within rate limits, without following redirects, and
// to no address that the operator did not mean. What an answer means is for package
// restapi to say.
package endpoint

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/ground/files"
	"lehr.dev/plugins/http/profile"
	"lehr.dev/sdk/allowlist"
	"lehr.dev/sdk/pace"
)

// Plugin is the name by which the operator's list of secrets knows the plugin.
const Plugin = "lehr-http"

// kind of file that the operator's list is.
var kind = allowlist.Kind{Noun: "HTTP endpoint", Key: "http-endpoints", Entries: "endpoints", Flag: "endpoints", Page: "docs/operate/http-endpoints.md"}

// List is what the operator lets be used.
type List struct {
	endpoints map[string]*Endpoint
}

type listFile struct {
	Version   string   `yaml:"http-endpoints"`
	Endpoints []*entry `yaml:"endpoints"`
}

// entry is an endpoint, as the operator writes it.
type entry struct {
	Name string `yaml:"name"`
	URL  string `yaml:"url"`
	// Profile is a ready one's name, or the path of a file, from the list's folder.
	Profile string `yaml:"profile"`
	// Partitions that may use it; "*" is all.
	Partitions []string `yaml:"partitions"`
	// Resources and Methods that may be used; none: all that the profile has.
	Resources []string `yaml:"resources"`
	Methods   []string `yaml:"methods"`
	Headers   []Header `yaml:"headers"`
	// CA is a PEM file with the authorities that vouch for the API; none: the system's.
	CA string `yaml:"ca"`
	// Insecure lets plain HTTP go to other machines.
	Insecure bool `yaml:"insecure"`
	// Proxy for all requests. None is taken from the environment.
	Proxy string `yaml:"proxy"`
	// Networks in which the name may lie beside public and private ones: this machine's
	// own addresses, and those of its link.
	Networks []netip.Prefix `yaml:"networks"`
	// Timeout and RequestsPerSecond in place of the profile's.
	Timeout           profile.Duration `yaml:"timeout"`
	RequestsPerSecond float64          `yaml:"requests_per_second"`
	// UniqueVersions says of this API that no two states of a thing ever have one
	// version, where the profile cannot know.
	UniqueVersions bool `yaml:"unique_versions"`
}

var endpointName = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$`)

// Open reads the list. The secrets of headers are read by that; nil: none is. Errors name the
// file, the line where it is known, and what to do.
func Open(path string, secrets Secrets) (*List, error) {
	text, err := files.Read(path, files.MostGiven)
	if err != nil {
		return nil, fmt.Errorf("reading the list of HTTP endpoints: %w: name a file that can be read with --endpoints FILE", err)
	}
	var file listFile
	if err := allowlist.Decode(path, text, kind, &file); err != nil {
		return nil, err
	}
	list := &List{endpoints: map[string]*Endpoint{}}
	for i, e := range file.Endpoints {
		if e == nil {
			return nil, fmt.Errorf("%s: entry %d is empty: remove it", path, i+1)
		}
		opened, err := e.open(filepath.Dir(path))
		if err != nil {
			return nil, fmt.Errorf("%s: endpoint %q: %w", path, e.Name, err)
		}
		if list.endpoints[e.Name] != nil {
			return nil, fmt.Errorf("%s: two endpoints are called %q: rename one", path, e.Name)
		}
		opened.secrets = secrets
		list.endpoints[e.Name] = opened
	}
	return list, nil
}

// ErrNotListed is what Find wraps when the list does not let a partition use an endpoint.
var ErrNotListed = errors.New("not listed")

// Find returns an endpoint that a partition may use.
func (l *List) Find(name, partition string) (*Endpoint, error) {
	found := l.endpoints[name]
	if found == nil || !found.mayUse(partition) {
		// One that others may use is as unknown as one that is not there.
		return nil, fmt.Errorf("%w: partition %s may use no endpoint %q: whoever operates the plugin adds it to the file that --endpoints names, with partitions: [%s]", ErrNotListed, partition, name, partition)
	}
	return found, nil
}

// Named returns an endpoint for whoever may read the list itself.
func (l *List) Named(name string) (*Endpoint, error) {
	found := l.endpoints[name]
	if found == nil {
		return nil, fmt.Errorf("%w: there is no endpoint %q: the list has %s", ErrNotListed, name, strings.Join(l.Names(), ", "))
	}
	return found, nil
}

// Names of all endpoints, sorted.
func (l *List) Names() (names []string) {
	for name := range l.endpoints {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// IsGuarded reports whether each kind of thing of each endpoint is of class C; without
// any endpoint none is.
func (l *List) IsGuarded() bool {
	for _, e := range l.endpoints {
		for name, resource := range e.Profile.Resources {
			if e.hasResource(name) && !resource.IsGuarded() {
				return false
			}
		}
	}
	return len(l.endpoints) > 0
}

// LongestEffect is how late a request that was sent may take effect, of all endpoints.
func (l *List) LongestEffect() (longest time.Duration) {
	for _, e := range l.endpoints {
		longest = max(longest, e.Timeout())
	}
	return longest
}

// open checks an entry, and reads what it names.
func (e *entry) open(folder string) (*Endpoint, error) {
	if !endpointName.MatchString(e.Name) {
		return nil, errors.New("the name is not one: use small letters, digits, '.', '_' and '-'")
	}
	if len(e.Partitions) == 0 {
		return nil, errors.New(`no partition may use it: write partitions: [NAME], or ["*"] for all`)
	}
	address, err := e.address()
	if err != nil {
		return nil, err
	}
	opened := &Endpoint{entry: *e, URL: address}
	if opened.Profile, err = e.profile(folder); err != nil {
		return nil, err
	}
	if err := e.checkAllowed(opened.Profile); err != nil {
		return nil, err
	}
	for i := range opened.Headers {
		if err := opened.Headers[i].check(folder); err != nil {
			return nil, err
		}
	}
	switch timeout, rate := e.Timeout.Duration, e.RequestsPerSecond; {
	case timeout < 0 || timeout > time.Minute:
		return nil, fmt.Errorf("timeout is %v: write at most 60s", timeout)
	case rate < 0 || rate > 1000:
		return nil, fmt.Errorf("requests_per_second is %v: write at most 1000", rate)
	}
	if e.UniqueVersions {
		for _, resource := range opened.Profile.Resources {
			if resource.Compare != nil {
				resource.Compare.Unique = true
			}
		}
	}
	opened.pacer = pace.New(pace.Limits{PerSecond: opened.rate()})
	return opened, opened.connect(folder)
}

// address checks the URL: https, or http to this machine.
func (e *entry) address() (*url.URL, error) {
	address, err := url.Parse(e.URL)
	switch {
	case err != nil || address.Host == "" || address.Scheme != "https" && address.Scheme != "http":
		return nil, fmt.Errorf("%q is no URL of an API: write https://HOST or https://HOST/PATH", e.URL)
	case address.User != nil:
		return nil, errors.New("the URL holds a user or a password: put them into headers, as a secret")
	case address.RawQuery != "" || address.Fragment != "":
		return nil, errors.New("the URL has a query or a fragment: write the part before it, and what is secret in it into headers")
	case address.Scheme == "http" && !e.Insecure && !isLoopback(address.Hostname()):
		return nil, fmt.Errorf("%q is plain HTTP to another machine, so that everybody on the way reads the secrets: write https://, or insecure: true", e.URL)
	}
	address.Path = strings.TrimRight(address.Path, "/")
	return address, nil
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

func (e *entry) profile(folder string) (*profile.Profile, error) {
	switch {
	case e.Profile == "":
		return nil, fmt.Errorf("it has no profile: write one of %s, or the path of a file that ends in .yaml", strings.Join(profile.Ready(), ", "))
	case e.Profile == profile.CallsName:
		return profile.Calls(), nil
	case filepath.Ext(e.Profile) != ".yaml":
		return profile.OpenReady(e.Profile)
	}
	path := beside(folder, e.Profile)
	text, err := files.Read(path, files.MostGiven)
	if err != nil {
		return nil, fmt.Errorf("reading its profile: %w", err)
	}
	return profile.Parse(path, text)
}

// checkAllowed refuses names that mean nothing: who writes one means to forbid the others.
func (e *entry) checkAllowed(p *profile.Profile) error {
	for _, name := range e.Resources {
		if p.Resources[name] == nil {
			return fmt.Errorf("resources has %q, which the profile %s does not know", name, e.Profile)
		}
	}
	for _, method := range e.Methods {
		if !slices.Contains([]string{"GET", "POST", "PUT", "PATCH", "DELETE"}, method) {
			return fmt.Errorf("methods has %q: write GET, POST, PUT, PATCH or DELETE", method)
		}
	}
	if len(e.Methods) > 0 && !slices.Contains(e.Methods, "GET") {
		return errors.New("methods lacks GET, without which nothing is read: add it")
	}
	return nil
}

// beside is a path from the folder of the list.
func beside(folder, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(folder, path)
}
