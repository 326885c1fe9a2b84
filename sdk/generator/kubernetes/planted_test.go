package kubernetes

import (
	"fmt"
	"strings"
	"testing"
)

// TestPlantedSecretsAreNotImported: an object with a secret is left out, and what stands
// beside it is taken over without it.
func TestPlantedSecretsAreNotImported(t *testing.T) {
	const secret = "q7Rt2Zm4Kx9"
	deployment := func(spec string) string {
		return "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: shop}\nspec:\n  selector: {matchLabels: {a: b}}\n  template:\n    metadata: {labels: {a: b}}\n    spec:\n      containers:\n      - name: web\n        image: a/b:1\n" + spec
	}
	config := func(text string) string {
		return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: shop}\ndata:\n" + text
	}
	const service = "---\napiVersion: v1\nkind: Service\nmetadata: {name: kept, namespace: shop}\nspec: {ports: [{port: 80}]}\n"
	for name, text := range map[string]string{
		"an argument":              deployment("        args: [--db-password=SECRET]\n"),
		"an argument and a value":  deployment("        args: [--db-password, SECRET]\n"),
		"a shell":                  deployment("        command: [sh, -c, \"curl -u u:SECRET https://x\"]\n"),
		"a variable":               deployment("        env: [{name: DB_PASSWORD, value: SECRET}]\n"),
		"a URL":                    deployment("        env: [{name: DB, value: \"postgres://u:SECRET@db/x\"}]\n"),
		"a token":                  deployment("        env: [{name: X, value: ghp_0123456789abcdefghijSECRETABCDEF}]\n"),
		"a header":                 deployment("        livenessProbe: {httpGet: {port: 80, httpHeaders: [{name: Authorization, value: Bearer SECRET}]}}\n"),
		"a private key":            config("  key.pem: |\n    -----BEGIN PRIVATE KEY-----\n    SECRET\n    -----END PRIVATE KEY-----\n"),
		"settings":                 config("  app.ini: |\n    [db]\n    password = SECRET\n"),
		"settings in YAML":         config("  app.yaml: |\n    db:\n      password: SECRET\n"),
		"settings in JSON":         config("  app.json: '{\"db\": {\"password\": \"SECRET\"}}'\n"),
		"an annotation":            "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: s, namespace: shop, annotations: {x/api-token: SECRET}}\n",
		"what was applied last":    "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: s, namespace: shop, annotations: {kubectl.kubernetes.io/last-applied-configuration: '{\"kind\":\"Secret\",\"stringData\":{\"a\":\"SECRET\"}}'}}\n",
		"a Secret":                 "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: shop}\nstringData: {a: SECRET}\n",
		"a comment beside objects": "# password: SECRET\napiVersion: v1\nkind: ServiceAccount\nmetadata: {name: s, namespace: shop}\n",
	} {
		manifest := strings.ReplaceAll(text, "SECRET", secret) + service
		made, findings := Import([]Manifest{{File: "a.yaml", Text: []byte(manifest)}}, Settings{Cluster: "c", Namespace: "shop"})
		all := fmt.Sprint(made.Definition, made.LeftOut, findings)
		for file, content := range made.Files {
			all += file + string(content)
		}
		if strings.Contains(all, secret) {
			t.Errorf("%s is copied:\n%s", name, all)
		}
		if made.Objects["Service"] != 1 || !strings.Contains(all, "kept") {
			t.Errorf("%s: what is beside it is left out: %v %v", name, made.LeftOut, findings)
		}
	}
}

// TestAChecksumIsNoSecret: to leave it out would restart what was adopted.
func TestAChecksumIsNoSecret(t *testing.T) {
	const text = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  selector: {matchLabels: {a: b}}
  template:
    metadata:
      labels: {a: b}
      annotations:
        checksum/secret: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
        checksum/db-password: 9f86d081884c7d659a2feaa0c55ad015
        config.example.com/secret-hash: 9f86d081884c7d65
        secret.reloader.example.com/token-sha256: 9f86d081884c7d659a2feaa0c55ad015
    spec: {containers: [{name: web, image: a/b:1, env: [{name: TOKEN, valueFrom: {secretKeyRef: {name: db-token, key: token}}}]}]}
`
	made, findings := Import([]Manifest{{File: "a.yaml", Text: []byte(text)}}, Settings{Cluster: "c", Namespace: "shop"})
	if len(made.LeftOut)+len(findings) > 0 || string(made.Files["manifests/a.yaml"]) != text {
		t.Errorf("left out %v, found %v, wrote %s", made.LeftOut, findings, made.Files["manifests/a.yaml"])
	}
}
