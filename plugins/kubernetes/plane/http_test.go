package plane

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// configMaps declares ConfigMaps to lehr-http. It is a test of how much a profile can say:
// Kubernetes has a renderer of its own.
const configMaps = `http-profile: v1
message: /message
resources:
  config-map:
    identity: {namespace: /metadata/namespace, name: /metadata/name}
    read:
      request: GET /api/v1/namespaces/{namespace}/configmaps/{name}
      absent: [{status: 404, at: /reason, is: NotFound}]
    list:
      request: GET /api/v1/namespaces/{namespace}/configmaps?limit=2
      items: /items
      cursor: {parameter: continue, at: /metadata/continue}
    read_only: [/kind, /apiVersion, /metadata/uid, /metadata/name, /metadata/namespace, /metadata/resourceVersion, /metadata/creationTimestamp, /metadata/managedFields]
    create:
      request: POST /api/v1/namespaces/{namespace}/configmaps
      set: {/metadata/name: "{name}"}
      exclusive: true
    update:
      request: PUT /api/v1/namespaces/{namespace}/configmaps/{name}
      set: {/metadata/name: "{name}"}
    delete:
      request: DELETE /api/v1/namespaces/{namespace}/configmaps/{name}
    compare: {at: /metadata/resourceVersion, send: /metadata/resourceVersion, send_delete: /preconditions/resourceVersion, unique: true}
`

const configMapExample = `type: lehr.http.v1.Resource
payload: {endpoint: cluster, resource: config-map, identity: {namespace: default, name: example}, body: '{"data":{"text":"first"}}'}
---
type: lehr.http.v1.Resource
payload: {endpoint: cluster, resource: config-map, identity: {namespace: default, name: example}, body: '{"data":{"text":"second"}}'}
`

// TestARealAPIThatIsDeclared: lehr-http holds the protocol on a real API server, whose
// resource versions make it class C, and reads a list of several pages of it.
func TestARealAPIThatIsDeclared(t *testing.T) {
	p := Start(t)
	lehr, plugin := build(t, "cmd/lehr", "lehr"), build(t, "plugins/http", "lehr-http")
	folder := t.TempDir()
	authority := strings.Split(readFile(t, p.Kubeconfig), `certificate-authority: "`)[1]
	authority, _, _ = strings.Cut(authority, `"`)
	for name, text := range map[string]string{
		"maps.yaml": configMaps, "example.yaml": configMapExample, "token": token, "key": "a key of thirty-two bytes or more!",
		"secrets.yaml": "lehr-secrets: v1\nkey: " + filepath.Join(folder, "key") + "\nsecrets: [{file: " + filepath.Join(folder, "token") + ", partitions: ['*'], plugins: [lehr-http]}]\n",
		"list.yaml": "http-endpoints: v1\nendpoints:\n- {name: cluster, url: " + p.URL + ", profile: maps.yaml, partitions: ['*'], ca: " + authority +
			", timeout: 2s, requests_per_second: 500, headers: [{name: Authorization, value: 'Bearer {secret}', file: token}]}\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(arguments ...string) string {
		t.Helper()
		command := exec.CommandContext(t.Context(), lehr, arguments...)
		command.Dir = folder
		command.Env = append(os.Environ(), "PATH="+filepath.Dir(plugin)+string(os.PathListSeparator)+os.Getenv("PATH"), "LEHR_SERVER=", "LEHR_SECRET_LIST="+filepath.Join(folder, "secrets.yaml"))
		output, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", arguments, err, output)
		}
		return string(output)
	}
	output := run("plugin", "test", "--example", "example.yaml", "--", plugin, "--endpoints", "list.yaml")
	if !strings.Contains(output, "Guarantee class: C declared, C measured.") || !strings.Contains(output, "0 failed") {
		t.Error(output)
	}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		if _, err := p.Ask(http.MethodPost, "/api/v1/namespaces/default/configmaps", "application/json", []byte(`{"metadata": {"name": "`+name+`"}, "data": {"n": "`+name+`"}}`)); err != nil {
			t.Fatal(err)
		}
	}
	run("import", "http", "--endpoints", "list.yaml", "--endpoint", "cluster", "--resource", "config-map", "--identity", "namespace=default", "--to", "maps")
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		if text := readFile(t, filepath.Join(folder, "maps/things/config-map", name, "default.yaml")); !strings.Contains(text, `n: "`+name+`"`) && !strings.Contains(text, `"n": "`+name+`"`) {
			t.Error(text)
		}
	}
	if output := run("plan", "maps/lehr.yaml"); !strings.Contains(output, "0 to change") || !strings.Contains(output, "0 unknown") {
		t.Error(output)
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
