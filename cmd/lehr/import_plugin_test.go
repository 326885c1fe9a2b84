package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"lehr.dev/test/building"
)

// TestImportPlugin: what a plugin's program lists reads back to the same assets, so that
// nothing is to change; and what holds a secret is left out.
func TestImportPlugin(t *testing.T) {
	if testing.Short() {
		t.Skip("builds programs")
	}
	bin, texts := programs(t), t.TempDir()
	program := filepath.Join(bin, "textfile")
	if err := (building.Program{Of: filepath.Join(repository, "examples", "plugin")}).At(program); err != nil {
		t.Fatal(err)
	}
	contents := []string{"", "\n", "yes", "null", "007", "1e3", "2026-11-26", "a: b\n- c\n", "  led\n trailed  \n\n", "tab\tand \u00e9 \u2028 \x7f", "--- \n...\n", "# no comment", "'\"\\", "!tag", "{\"a\": [1]}"}
	for i, text := range contents {
		if err := os.WriteFile(filepath.Join(texts, fmt.Sprintf("File %02d", i)), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	secret := "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEAx1x2x3x4x5x6x7x8x9x0\n-----END RSA PRIVATE KEY-----\n"
	if err := errors.Join(os.WriteFile(filepath.Join(texts, "key.pem"), []byte(secret), 0o600), os.Mkdir(filepath.Join(texts, "below"), 0o700)); err != nil {
		t.Fatal(err)
	}
	var files [2]string
	for i := range files {
		folder := filepath.Join(t.TempDir(), "texts")
		output, code := runLehr(t, bin, nil, "import", "plugin", "--to", folder, "--", program, "list", texts)
		if code != 0 {
			t.Fatal(output)
		}
		says(t, output, fmt.Sprintf("google.protobuf.Struct: %d", len(contents)), "asset text/key.pem: text looks like", "below: it is no regular file")
		content, err := os.ReadFile(filepath.Join(folder, "assets", "google.protobuf.Struct-001.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		files[i] = string(content)
		if i == 0 {
			output, code = runLehr(t, bin, nil, "plan", filepath.Join(folder, "lehr.yaml"))
			if code != 0 {
				t.Errorf("plan ended with %d:\n%s\n%s", code, output, content)
			}
			says(t, output, fmt.Sprintf("0 to change, %d the same, 0 unknown", len(contents)))
			output, code = runLehr(t, bin, nil, "import", "plugin", "--to", folder, "--", program, "list", texts)
			if code == 0 {
				t.Error("it wrote over what was there")
			}
			says(t, output, "is not empty")
		}
	}
	if files[0] != files[1] {
		t.Error("the same things give other files")
	}
	for script, want := range map[string]string{
		"echo no cluster >&2; exit 3":                     "exit code 3, and said: no cluster",
		"echo hello":                                      "prints no inventory",
		`echo '{"inventory":"v2","assets":[]}'`:           "no inventory of version v1",
		`echo '{"inventory":"v1","assets":[]}'`:           "lists no asset",
		`echo '{"inventory":"v1","assets":[]} {}'`:        "more follows it",
		`echo '{"inventory":"v1","asets":[]}'`:            `unknown field "asets"`,
		`echo '{"inventory":"v1","assets":[{"id":"A"}]}'`: "is not of the form",
		"sleep 1000": "took longer than its limit of time",
	} {
		output, code := runLehr(t, bin, nil, "import", "plugin", "--within", "2s", "--to", filepath.Join(t.TempDir(), "x"), "--", "/bin/sh", "-c", script)
		if code == 0 {
			t.Errorf("%s: it is taken:\n%s", script, output)
		}
		says(t, output, want)
	}
}
