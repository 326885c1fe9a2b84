package access

import (
	"net"
	"net/url"
	"slices"
	"strings"

	"lehr.dev/internal/ground/fault"
)

// Hosts are the names, besides those of this machine, by which a server is
// asked for. A page of another site can reach a server under a name of its own
// (DNS rebinding), which is none of these.
type Hosts []string

// Has reports whether a request's Host is one of them, or this machine's.
func (h Hosts) Has(host string) bool {
	return isLocalHost(host) || slices.ContainsFunc(h, func(name string) bool { return strings.EqualFold(name, hostname(host)) })
}

func (h Hosts) refusal() string {
	if len(h) == 0 {
		return "this server answers on its own machine only: ask it as 127.0.0.1 or localhost, as \"lehr page\" prints it; " +
			"to be asked from other machines it is started with --url https://NAME"
	}
	return "this server does not go by that name: ask it by one that it has; whoever runs it gives it another one with --url https://NAME"
}

// hostname is a Host without its port.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.Trim(host, "[]")
}

func isLocalHost(host string) bool {
	name := hostname(host)
	ip := net.ParseIP(name)
	return strings.EqualFold(name, "localhost") || ip != nil && ip.IsLoopback()
}

// ParseURL reads the URL by which people reach a server: https, a host, and
// perhaps a port.
func ParseURL(text string) (*url.URL, error) {
	parsed, err := url.Parse(text)
	if err != nil || parsed.Scheme != "https" || parsed.Hostname() == "" || strings.Trim(parsed.Path, "/") != "" ||
		parsed.RawQuery != "" || parsed.Fragment != "" || parsed.User != nil {
		return nil, fault.New(fault.Invalid, "%.200q is not the URL of a server", text).WithHint("write https://lehr.example.com, with :PORT if it is not 443")
	}
	// As browsers say it.
	return &url.URL{Scheme: parsed.Scheme, Host: strings.TrimSuffix(parsed.Host, ":443")}, nil
}

// HostsOf are the names in URLs.
func HostsOf(urls []*url.URL) (hosts Hosts) {
	for _, u := range urls {
		hosts = append(hosts, u.Hostname())
	}
	return hosts
}
