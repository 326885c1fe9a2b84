package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// S24: an address is dialled for the partitions listed with it, and no other.
func TestServersAreListedForPartitions(t *testing.T) {
	file := filepath.Join(t.TempDir(), "servers.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`plugin-servers: v1
certificate: lehr.pem
key: lehr.key
servers:
- {dial: "a.example.com:1", ca: /ca.pem, partitions: [shop]}
- {dial: "b.example.com:1", ca: ca.pem, name: b, certificate: b.pem, key: b.key, partitions: ["*"]}
`)
	list, err := readServers(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		partition intent.PartitionID
		dial      string
		allowed   bool
	}{
		{"shop", "a.example.com:1", true}, {"zoo", "a.example.com:1", false}, {"zoo", "b.example.com:1", true},
		{"shop", "a.example.com:2", false}, {"shop", "A.example.com:1", false}, {"*", "a.example.com:1", false}, {"shop", "", false},
	} {
		address, err := list.allowed(c.partition, c.dial)
		if (err == nil) != c.allowed || err != nil && !fault.Is(err, fault.Denied) {
			t.Errorf("%s by %s: %+v %v", c.dial, c.partition, address, err)
		}
	}
	folder := filepath.Dir(file)
	if a, _ := list.allowed("shop", "a.example.com:1"); a.CA != "/ca.pem" || a.Certificate != filepath.Join(folder, "lehr.pem") || a.Key != filepath.Join(folder, "lehr.key") {
		t.Errorf("%+v", a)
	}
	if b, _ := list.allowed("shop", "b.example.com:1"); b.CA != filepath.Join(folder, "ca.pem") || b.Certificate != filepath.Join(folder, "b.pem") || b.Name != "b" {
		t.Errorf("%+v", b)
	}
	none, err := readServers("")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := none.allowed("shop", "a.example.com:1"); !fault.Is(err, fault.Denied) {
		t.Errorf("without a list: %v", err)
	}
	for text, want := range map[string]string{
		"servers: []":                        "version v1",
		"plugin-servers: v1\ninsecure: true": "insecure",
		"plugin-servers: v1\nservers: [{dial: a, ca: c, certificate: c, key: k, partitions: [a]}]":                   "no address",
		"plugin-servers: v1\nservers: [{dial: \"a:1\", certificate: c, key: k, partitions: [a]}]":                    "authorities",
		"plugin-servers: v1\nservers: [{dial: \"a:1\", ca: c, partitions: [a]}]":                                     "always verified",
		"plugin-servers: v1\nservers: [{dial: \"a:1\", ca: c, certificate: c, key: k}]":                              "no partition",
		"plugin-servers: v1\nservers: [{dial: \"a:1\", ca: c, certificate: c, key: k, partitions: [\"a b\"]}]":       "a b",
		"plugin-servers: v1\n---\nplugin-servers: v1":                                                                "more than one",
		"plugin-servers: v1\nservers: [{dial: \"a:1\", ca: c, certificate: c, key: k, partitions: [a], skip: true}]": "skip",
	} {
		write(text)
		if _, err := readServers(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
