package enginelist

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lehr.dev/sdk/allowlist"
)

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "engines.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const good = `terraform-engines: v1
engines:
  - name: default
    partitions: [shop]
    binary: /usr/bin/terraform
    version: 1.11.4
    roots: [infra/**, "live/*"]
    mirror: /opt/mirror
    plugin_cache: /var/cache/terraform
    env: {AWS_REGION: eu-west-1}
    secrets: {AWS_SECRET_ACCESS_KEY: {file: /run/secrets/aws}}
    apply_limit: 90m
    parallelism: 4
`

func TestAnEngineIsOfItsPartitionsAndRoots(t *testing.T) {
	list, err := allowlist.Open[Engine](write(t, good), Kind)
	if err != nil {
		t.Fatal(err)
	}
	engine, err := Find(list, "shop", "", "infra/net/core")
	if err != nil || engine.Limit().Minutes() != 90 || engine.Parallelism != 4 {
		t.Fatalf("%+v, %v", engine, err)
	}
	for _, c := range []struct {
		partition, name, root string
		is                    bool
	}{
		{"shop", "default", "infra", true},
		{"shop", "default", "live/a", true},
		{"shop", "default", "live/a/b", false},
		{"shop", "default", "infrastructure", false},
		{"shop", "tofu", "infra", false},
		{"bank", "default", "infra", false},
	} {
		if _, err := Find(list, "shop", c.name, c.root); c.partition == "shop" && (err == nil) != c.is {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if _, err := Find(list, "bank", "", "infra"); err == nil || strings.Contains(err.Error(), "terraform") {
		t.Errorf("another partition: %v", err)
	}
}

func TestWhatIsWrongWithAListIsSaid(t *testing.T) {
	for change, want := range map[string]string{
		"binary: /usr/bin/terraform|binary: terraform":               "write the absolute path",
		"version: 1.11.4|version: latest":                            "such as 1.11.4",
		"    mirror: /opt/mirror|    mirror: opt":                    "absolute path of a folder",
		"    mirror: /opt/mirror|    mirror: http://mirror":          "https://HOST/PATH/",
		"    mirror: /opt/mirror|    mirror: /m\n    cli_config: /c": "keep one",
		"env: {AWS_REGION: eu-west-1}|env: {TF_DATA_DIR: x}":         "not for a list to set",
		"env: {AWS_REGION: eu-west-1}|env: {TF_CLI_ARGS_plan: x}":    "not for a list to set",
		"env: {AWS_REGION: eu-west-1}|env: {A-B: x}":                 "no name of a variable",
		"{file: /run/secrets/aws}|{file: aws}":                       "absolute path",
		"{file: /run/secrets/aws}|{file: /a, env: LEHR_B}":           "write one of env",
		"apply_limit: 90m|apply_limit: 90":                           "write for example 90m",
		"apply_limit: 90m|apply_limit: 48h":                          "at most 24h",
		"parallelism: 4|parallelism: 400":                            "at most 256",
		"roots: [infra/**,|roots: [/infra,":                          "no pattern of folders",
		"roots: [infra/**,|root: [infra/**,":                         "root",
	} {
		before, after, _ := strings.Cut(change, "|")
		text := strings.Replace(good, before, after, 1)
		if text == good {
			t.Fatalf("%s changes nothing", change)
		}
		path := write(t, text)
		if _, err := allowlist.Open[Engine](path, Kind); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path+":") {
			t.Errorf("%s:\n%v\nwant %q, and the line", after, err, want)
		}
	}
}
