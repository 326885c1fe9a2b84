package sops

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"

	"lehr.dev/internal/ground/fault"
)

func document(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func identities(t *testing.T, name string) []age.Identity {
	t.Helper()
	parsed, err := age.ParseIdentities(bytes.NewReader(document(t, name)))
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

const password = "correct horse battery staple"

// TestDocumentsThatSOPSWrote are read as SOPS itself reads them.
func TestDocumentsThatSOPSWrote(t *testing.T) {
	for name, want := range map[string]map[string]string{
		"default.yaml": {
			"database.password": password, "database.port": "5432", "database.ratio": "1.5", "database.tls": "True",
			"database.empty": "", "database.since": "2024-05-01T12:00:00Z",
			"users.0.token": "über-geheim: #1", "users.1.name": "bob", "users.1.token": "two\nlines\n",
		},
		"default.json": {
			"database.password": password, "database.port": "5432", "database.ratio": "0.25", "database.tls": "False",
			"users.0.token": "t1-ü\n<x>", "users.1.0": "nested", "users.1.1": "3",
		},
		"two_recipients.yaml":     {"database.password": password},
		"mac_only.yaml":           {"database.password": password, "users.1.token": "two\nlines\n"},
		"encrypted_suffix.yaml":   {"database.password": password},
		"unencrypted_suffix.yaml": {"database.password": password, "users.0.name": "alice"},
		"unencrypted_regex.json":  {"database.password": password, "size_unencrypted": "12345678901"},
	} {
		for path, value := range want {
			got, err := Read(document(t, name), strings.Split(path, "."), identities(t, "identity.txt"))
			if err != nil || string(got) != value {
				t.Errorf("%s, %s: %q, %v, want %q", name, path, got, err, value)
			}
		}
	}
}

func TestDocumentsThatAreRefused(t *testing.T) {
	whole := document(t, "default.yaml")
	replaced := func(old, new string) []byte {
		if !bytes.Contains(whole, []byte(old)) {
			t.Fatalf("no %q to replace", old)
		}
		return bytes.Replace(whole, []byte(old), []byte(new), 1)
	}
	line := func(prefix string) string {
		for text := range strings.Lines(string(whole)) {
			if strings.HasPrefix(strings.TrimSpace(text), prefix) {
				return text
			}
		}
		t.Fatalf("no line %s", prefix)
		return ""
	}
	swapped := strings.NewReplacer(line("host:"), strings.Replace(line("password:"), "password:", "host:", 1), line("password:"), strings.Replace(line("host:"), "host:", "password:", 1))
	deep := "a: " + strings.Repeat("{a: ", 200) + "1" + strings.Repeat("}", 200)
	for name, test := range map[string]struct {
		content []byte
		path    string
		want    string
	}{
		"a value that is not encrypted was edited": {replaced("plain.example.com", "other.example.com"), "", "MAC does not verify"},
		"one was added":           {replaced("count_unencrypted: 7\n", "count_unencrypted: 7\nmore_unencrypted: 1\n"), "", "MAC does not verify"},
		"one was removed":         {replaced("count_unencrypted: 7\n", ""), "", "MAC does not verify"},
		"an encrypted one too":    {replaced(line("port:"), ""), "", "MAC does not verify"},
		"one was emptied":         {replaced(line("port:"), "    port: \"\"\n"), "", "MAC does not verify"},
		"order changed":           {replaced("host_unencrypted: plain.example.com\ncount_unencrypted: 7\n", "count_unencrypted: 7\nhost_unencrypted: plain.example.com\n"), "", "MAC does not verify"},
		"two were swapped":        {[]byte(swapped.Replace(string(whole))), "", "moved from another place"},
		"one is in plain text":    {replaced(line("password:"), "    password: typed\n"), "", "it is not encrypted"},
		"one is a number":         {replaced(line("password:"), "    password: 5\n"), "", "is not encrypted"},
		"one was damaged":         {replaced("data:8+QzuA==", "data:8+QzuQ=="), "", "it was changed"},
		"its time was edited":     {replaced(`lastmodified: "20`, `lastmodified: "19`), "", "MAC, or its lastmodified"},
		"its rule was edited":     {replaced("unencrypted_suffix: _unencrypted", "encrypted_regex: ^password$"), "", "MAC does not verify"},
		"two rules":               {replaced("unencrypted_suffix: _unencrypted", "unencrypted_suffix: _unencrypted\n    encrypted_regex: ^password$"), "", "several ways"},
		"no MAC":                  {replaced(line("mac:"), ""), "", "no mac"},
		"no recipient":            {replaced("    age:\n", "    other:\n"), "", "no recipient of age"},
		"key groups":              {document(t, "groups.yaml"), "", "key groups"},
		"KMS alone":               {document(t, "kms.yaml"), "", "AWS KMS alone"},
		"comments say what":       {document(t, "comment_rule.yaml"), "", "encrypted_comment_regex"},
		"for others":              {document(t, "others.yaml"), "", "no identity matches"},
		"not encrypted":           {document(t, "plain.yaml"), "", "no key \"sops\""},
		"an alias":                {replaced("count_unencrypted: 7", "count_unencrypted: &a 7\nagain_unencrypted: *a"), "", "anchor or alias"},
		"a key twice":             {replaced("count_unencrypted: 7", "count_unencrypted: 7\ncount_unencrypted: 7"), "", "there twice"},
		"two documents":           {append([]byte("a: 1\n---\n"), whole...), "", "more than one YAML document"},
		"a list":                  {[]byte("[1]"), "", "no mapping"},
		"empty":                   {nil, "", "no YAML"},
		"no JSON":                 {[]byte(`{"a": `), "", "no JSON"},
		"JSON and more":           {[]byte(`{"a": 1} {}`), "", "behind its end"},
		"deep":                    {[]byte(deep), "", "nested"},
		"large":                   {append(whole, bytes.Repeat([]byte("\n"), MaxDocument)...), "", "more than 1048576 bytes"},
		"nothing there":           {whole, "database.user", "nothing is at"},
		"a mapping":               {whole, "database", "several"},
		"plain":                   {whole, "host_unencrypted", "no secret"},
		"below a value":           {whole, "database.password.0", "nothing is at"},
		"a position out of range": {whole, "users.2.name", "nothing is at"},
	} {
		if test.path == "" {
			test.path = "database.password"
		}
		value, err := Read(test.content, strings.Split(test.path, "."), identities(t, "identity.txt"))
		if err == nil || value != nil || !strings.Contains(err.Error(), test.want) || !fault.Is(err, fault.Invalid) && !fault.Is(err, fault.Denied) {
			t.Errorf("%s: %q, %v, want %q", name, value, err, test.want)
		} else if strings.Contains(err.Error(), password) || strings.Contains(err.Error(), "other.example.com") {
			t.Errorf("%s shows a value: %v", name, err)
		}
	}
}

// FuzzRead: no document ends the process, and none but the whole one gives the password.
func FuzzRead(f *testing.F) {
	for _, name := range []string{"default.yaml", "default.json", "mac_only.yaml", "groups.yaml"} {
		content, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(content)
	}
	keys, err := os.ReadFile("testdata/identity.txt")
	if err != nil {
		f.Fatal(err)
	}
	known, err := age.ParseIdentities(bytes.NewReader(keys))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		value, err := Read(content, []string{"database", "password"}, known)
		if err == nil && string(value) != password {
			t.Errorf("a changed document gives %q", value)
		}
	})
}
