package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
)

// kubeconfig is what is used of such a file.
type kubeconfig struct {
	Current  string `yaml:"current-context"`
	Contexts []struct {
		Name    string
		Context struct{ Cluster, User, Namespace string }
	}
	Clusters []struct {
		Name    string
		Cluster struct {
			Server        string
			CA            string `yaml:"certificate-authority"`
			CAData        string `yaml:"certificate-authority-data"`
			Insecure      bool   `yaml:"insecure-skip-tls-verify"`
			TLSServerName string `yaml:"tls-server-name"`
			Proxy         string `yaml:"proxy-url"`
		}
	}
	Users []struct {
		Name string
		User user
	}
}

type user struct {
	Certificate     string `yaml:"client-certificate"`
	CertificateData string `yaml:"client-certificate-data"`
	Key             string `yaml:"client-key"`
	KeyData         string `yaml:"client-key-data"`
	Token           string
	TokenFile       string `yaml:"tokenFile"`
	Username        string
	Exec            *execUser
	AuthProvider    any    `yaml:"auth-provider"`
	Impersonate     string `yaml:"as"`
}

// server is a cluster, and how to reach it.
type server struct {
	// name of the cluster, as a segment of asset ids.
	name   string
	base   *url.URL
	client *http.Client
	token  string
}

// readKubeconfig reads a file.
func readKubeconfig(path string) (c kubeconfig, err error) {
	text, err := files.Read(path, files.MostGiven)
	if err != nil {
		return c, fault.New(fault.NotFound, "reading the kubeconfig: %w", err).WithHint("name it: --kubeconfig FILE")
	}
	if err := yaml.Unmarshal(text, &c); err != nil {
		// What yaml says may quote a secret.
		return c, fault.New(fault.Invalid, "%s is no kubeconfig", path).WithHint("kubectl --kubeconfig %s config view tells whether kubectl can read it", path)
	}
	return c, nil
}

// connect reads a kubeconfig; the empty context is the current one. A program that its user
// logs in by is run where mayRun says so.
func connect(ctx context.Context, path, name string, mayRun bool) (*server, error) {
	c, err := readKubeconfig(path)
	if err != nil {
		return nil, err
	}
	if name == "" {
		name = c.Current
	}
	for _, named := range c.Contexts {
		if named.Name != name {
			continue
		}
		for _, cluster := range c.Clusters {
			if cluster.Name != named.Context.Cluster {
				continue
			}
			s := &server{name: segment(cluster.Name)}
			if s.base, err = url.Parse(strings.TrimSuffix(cluster.Cluster.Server, "/")); err != nil || s.base.Scheme != "https" || s.base.User != nil {
				return nil, fault.New(fault.Invalid, "the server of cluster %q is not an https URL", cluster.Name).WithHint("correct it in %s", path)
			}
			if cluster.Cluster.Insecure || cluster.Cluster.Proxy != "" {
				return nil, fault.New(fault.Invalid, "cluster %q is reached without verifying it, or by a proxy: that is not done here", cluster.Name).
					WithHint("name its certificate-authority in a kubeconfig that leads to it directly")
			}
			config := &tls.Config{ServerName: cluster.Cluster.TLSServerName, MinVersion: tls.VersionTLS12}
			authority, err := content(path, cluster.Cluster.CA, cluster.Cluster.CAData)
			if err != nil {
				return nil, err
			}
			if authority != nil {
				config.RootCAs = x509.NewCertPool()
				if !config.RootCAs.AppendCertsFromPEM(authority) {
					return nil, fault.New(fault.Invalid, "the certificate-authority of cluster %q holds no certificate", cluster.Name).WithHint("correct it in %s", path)
				}
			}
			var identity user
			for _, entry := range c.Users {
				if entry.Name == named.Context.User {
					identity = entry.User
				}
			}
			if identity.Exec != nil && mayRun {
				s.token, err = identity.Exec.login(ctx, path, cluster.Cluster.Server, authority, config)
			} else {
				s.token, err = identity.identify(path, config)
			}
			if err != nil {
				return nil, err
			}
			transport := http.DefaultTransport.(*http.Transport).Clone()
			transport.Proxy, transport.TLSClientConfig = nil, config
			s.client = &http.Client{Transport: transport, Timeout: time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
			return s, nil
		}
	}
	return nil, fault.New(fault.NotFound, "%s has no context %q with a cluster", path, name).WithHint("kubectl --kubeconfig %s config get-contexts lists them: --context NAME", path)
}

// identify gives the certificate to the configuration, or returns a token.
func (u user) identify(path string, config *tls.Config) (token string, err error) {
	const hint = "make a token that ends: kubectl create token SERVICEACCOUNT, with a role that may get and list, and put it into a kubeconfig of its own under users[].user.token"
	switch {
	case u.Exec != nil, u.AuthProvider != nil:
		return "", fault.New(fault.Invalid, "the kubeconfig's user logs in by a program, which is not run here").WithHint(hint)
	case u.Username != "", u.Impersonate != "":
		return "", fault.New(fault.Invalid, "the kubeconfig's user has a password or acts as another, which is not supported").WithHint(hint)
	case u.Token != "":
		return u.Token, nil
	case u.TokenFile != "":
		text, err := content(path, u.TokenFile, "")
		return strings.TrimSpace(string(text)), err
	}
	certificate, err := content(path, u.Certificate, u.CertificateData)
	if err != nil || certificate == nil {
		return "", err
	}
	key, err := content(path, u.Key, u.KeyData)
	if err != nil {
		return "", err
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return "", fault.New(fault.Invalid, "the client certificate of the kubeconfig's user: %w", err).WithHint("correct it in %s", path)
	}
	config.Certificates = []tls.Certificate{pair}
	return "", nil
}

// content of a file beside the kubeconfig, or of what it holds itself; nil: of
// neither.
func content(path, file, data string) ([]byte, error) {
	if data != "" {
		text, err := base64.StdEncoding.DecodeString(data)
		if err != nil {
			return nil, fault.New(fault.Invalid, "%s holds data that is not base64", path).WithHint("correct it")
		}
		return text, nil
	}
	if file == "" {
		return nil, nil
	}
	if !filepath.IsAbs(file) {
		file = filepath.Join(filepath.Dir(path), file)
	}
	text, err := files.Read(file, files.MostGiven)
	if err != nil {
		return nil, fault.New(fault.Invalid, "reading what the kubeconfig names: %w", err).WithHint("correct it in %s", path)
	}
	return text, nil
}
