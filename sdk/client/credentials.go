package client

import (
	"encoding/json"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"lehr.dev/internal/access"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
)

// Credential is what a login at a server gave.
type Credential struct {
	// Token is its id, and Secret what is sent.
	Token  string    `json:"token"`
	Secret string    `json:"secret"`
	Name   string    `json:"name"`
	Until  time.Time `json:"until"`
}

// Credentials is a file of them, by server, which its user alone may read.
type Credentials struct{ path string }

// NewCredentials is the file in a folder of settings.
func NewCredentials(folder string) Credentials {
	return Credentials{filepath.Join(folder, "credentials.json")}
}

// Path of the file.
func (c Credentials) Path() string { return c.path }

// ParseServer reads the URL of a server, in the one form under which its
// credential is kept. What is sent there goes by TLS, or stays on this machine.
func ParseServer(text string) (string, error) {
	parsed, err := url.Parse(text)
	if err != nil || parsed.Host == "" || parsed.User != nil || parsed.RawQuery != "" || parsed.Fragment != "" ||
		parsed.Scheme != "http" && parsed.Scheme != "https" {
		return "", fault.New(fault.Invalid, "the server's address %.200q is no URL", text).WithHint("write https://lehr.example.com, or http://127.0.0.1:7474 on this machine")
	}
	if parsed.Scheme == "http" && !access.Hosts(nil).Has(parsed.Host) {
		return "", fault.New(fault.Invalid, "the server's address %.200q is neither https nor on this machine: the token could be read on the way", text).
			WithHint("write https://%s", parsed.Host)
	}
	host := strings.ToLower(parsed.Host)
	if parsed.Scheme == "https" {
		host = strings.TrimSuffix(host, ":443")
	}
	return parsed.Scheme + "://" + host + strings.TrimSuffix(parsed.Path, "/"), nil
}

// Get is the credential for a server; NotFound when there is none.
func (c Credentials) Get(server string) (Credential, error) {
	all, err := c.read()
	if err != nil {
		return Credential{}, err
	}
	credential, ok := all[server]
	if !ok {
		return Credential{}, fault.New(fault.NotFound, "nobody is logged in to %s here", server).
			WithHint("log in with lehr auth login --server %s, or put a token into LEHR_TOKEN", server)
	}
	return credential, nil
}

// Set keeps a credential.
func (c Credentials) Set(server string, credential Credential) error {
	return c.change(func(all map[string]Credential) { all[server] = credential })
}

// Remove forgets a server's.
func (c Credentials) Remove(server string) error {
	return c.change(func(all map[string]Credential) { delete(all, server) })
}

func (c Credentials) read() (map[string]Credential, error) {
	all := map[string]Credential{}
	info, err := os.Stat(c.path)
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err != nil {
		return nil, fault.New(fault.Unavailable, "reading who is logged in: %w", err)
	}
	if mask := fs.FileMode(0o077); info.Mode()&mask != 0 {
		return nil, fault.New(fault.Denied, "others can read %s, which holds secrets: it is not used", c.path).
			WithHint("chmod 600 it if you trust all who could read it; else remove it, and log in again")
	}
	text, err := files.Read(c.path, files.MostGiven)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "reading who is logged in: %w", err)
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fault.New(fault.Invalid, "%s is damaged: %w", c.path, err).WithHint("remove it, and log in again")
	}
	return all, nil
}

// change replaces the file at once, so that no half of it is ever read.
func (c Credentials) change(apply func(map[string]Credential)) error {
	all, err := c.read()
	if err != nil {
		return err
	}
	apply(all)
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	const onlyUser = 0o700
	if err := os.MkdirAll(filepath.Dir(c.path), onlyUser); err != nil {
		return unkept(c.path, err)
	}
	temporary, err := os.CreateTemp(filepath.Dir(c.path), ".credentials-*") // Mode 0600.
	if err != nil {
		return unkept(c.path, err)
	}
	_, err = temporary.Write(append(text, '\n'))
	if err = errors.Join(err, temporary.Close()); err == nil {
		err = os.Rename(temporary.Name(), c.path)
	}
	if err != nil {
		os.Remove(temporary.Name())
		return unkept(c.path, err)
	}
	return nil
}

func unkept(path string, err error) error {
	return fault.New(fault.Unavailable, "keeping the login in %s: %w", path, err).WithHint("name a folder that you may write with LEHR_CONFIG_DIR")
}
