package resolver

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
)

// kubeconfig is what is read of such a file. Ways to log in by a program or a password
// are named, so that they are refused and not overlooked.
type kubeconfig struct {
	Current  string `yaml:"current-context"`
	Contexts []struct {
		Name    string
		Context struct{ Cluster, User string }
	}
	Clusters []struct {
		Name    string
		Cluster kubeconfigCluster
	}
	Users []struct {
		Name string
		User kubeconfigUser
	}
}

type kubeconfigCluster struct {
	Server        string
	Authority     string `yaml:"certificate-authority"`
	AuthorityData string `yaml:"certificate-authority-data"`
	ServerName    string `yaml:"tls-server-name"`
	Insecure      bool   `yaml:"insecure-skip-tls-verify"`
	Proxy         string `yaml:"proxy-url"`
}

type kubeconfigUser struct {
	Token           string
	TokenFile       string `yaml:"tokenFile"`
	Certificate     string `yaml:"client-certificate"`
	CertificateData string `yaml:"client-certificate-data"`
	Key             string `yaml:"client-key"`
	KeyData         string `yaml:"client-key-data"`
	Exec            any
	AuthProvider    any `yaml:"auth-provider"`
	Username        string
}

// fromKubeconfig is the cluster of a context; empty: the current one. Files that it
// names are relative to its folder, as for kubectl.
func fromKubeconfig(path, context string) (*cluster, error) {
	content, err := readPrivate(path, files.OpenGiven)
	defer clear(content)
	if err != nil {
		return nil, fault.New(kindOr(err, fault.Unavailable), "reading the kubeconfig: %w", err)
	}
	refuse := func(hint, format string, arguments ...any) error {
		return fault.New(fault.Invalid, "the kubeconfig "+path+": "+format, arguments...).WithHint("%s", hint)
	}
	var config kubeconfig
	if yaml.Unmarshal(content, &config) != nil { // Its error may quote a token.
		return nil, refuse("write it as kubectl does", "it cannot be read")
	}
	at, user, ok := config.find(cmp.Or(context, config.Current))
	server, err := url.Parse(at.Server)
	switch {
	case !ok:
		return nil, refuse("kubectl config get-contexts lists them", "it has no context %q with a cluster and a user", cmp.Or(context, config.Current))
	case err != nil || server.Scheme != "https" || server.Host == "" || server.User != nil:
		return nil, refuse("name it by https://HOST:PORT", "the server of the cluster is no https address")
	case at.Insecure || at.Proxy != "":
		return nil, refuse("give the cluster's authority, and reach it directly", "insecure-skip-tls-verify and proxy-url are not supported")
	case user.Exec != nil || user.AuthProvider != nil || user.Username != "":
		return nil, refuse("give the account a token or a client certificate", "exec, auth-provider and username are not supported")
	}
	return user.cluster(filepath.Dir(path), at, server)
}

func (k kubeconfig) find(context string) (at kubeconfigCluster, user kubeconfigUser, ok bool) {
	for _, c := range k.Contexts {
		if c.Name != context {
			continue
		}
		hasCluster, hasUser := false, false
		for _, one := range k.Clusters {
			if one.Name == c.Context.Cluster && !hasCluster {
				at, hasCluster = one.Cluster, true
			}
		}
		for _, one := range k.Users {
			if one.Name == c.Context.User && !hasUser {
				user, hasUser = one.User, true
			}
		}
		return at, user, hasCluster && hasUser
	}
	return at, user, false
}

func (u kubeconfigUser) cluster(folder string, at kubeconfigCluster, server *url.URL) (*cluster, error) {
	authority, err := given(folder, at.AuthorityData, at.Authority)
	if err != nil {
		return nil, err
	}
	certificate, err := u.pair(folder)
	if err != nil {
		return nil, err
	}
	c := &cluster{server: server, token: u.Token}
	if c.token == "" && u.TokenFile != "" {
		content, err := given(folder, "", u.TokenFile)
		if err != nil {
			return nil, err
		}
		c.token = strings.TrimSpace(string(content))
	}
	c.client, err = clientOf(authority, certificate, at.ServerName)
	return c, err
}

// pair is the client's certificate; nil: it has none.
func (u kubeconfigUser) pair(folder string) (*tls.Certificate, error) {
	certificate, err := given(folder, u.CertificateData, u.Certificate)
	if err != nil || certificate == nil {
		return nil, err
	}
	key, err := given(folder, u.KeyData, u.Key)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fault.New(fault.Invalid, "the client certificate of the kubeconfig and its key do not fit")
	}
	return &pair, nil
}

// given is what stands in the file itself, or in another; nil: in neither.
func given(folder, data, path string) ([]byte, error) {
	switch {
	case data != "":
		content, err := base64.StdEncoding.DecodeString(data)
		if err != nil {
			return nil, fault.New(fault.Invalid, "data of the kubeconfig is no base64")
		}
		return content, nil
	case path == "":
		return nil, nil
	case !filepath.IsAbs(path):
		path = filepath.Join(folder, path)
	}
	content, err := files.Read(path, files.MostGiven)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "reading what the kubeconfig names: %w", err)
	}
	return content, nil
}

// clientOf speaks to a server that one of the authorities vouches for; nil: one of the
// system's. It follows nobody elsewhere, for it bears a token.
func clientOf(authority []byte, certificate *tls.Certificate, serverName string) (*http.Client, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: serverName}
	if authority != nil {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(authority) {
			return nil, fault.New(fault.Invalid, "the authority of the cluster is no certificate")
		}
	}
	if certificate != nil {
		config.Certificates = []tls.Certificate{*certificate}
	}
	return &http.Client{
		Transport:     &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true, IdleConnTimeout: time.Second},
		CheckRedirect: func(*http.Request, []*http.Request) error { return errors.New("it sends the request elsewhere") },
	}, nil
}
