package secrecy

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

func TestNames(t *testing.T) {
	for name, secret := range map[string]bool{
		"password": true, "DB_PASSWORD": true, "dbPassword": true, "--db-password": true, "spec.auth.clientSecret": true, "API-Key": true, "apiKey": true,
		"AWS_SECRET_ACCESS_KEY": true, "password2": true, "secret-1": true, "X-Auth-Token": true, "Authorization": true, "private_key_pem": true,
		"primary_connection_string": true, "user_data": true, "ses_smtp_password_v4": true, "secret_string": true, "kube_config_raw": true, "PGPASSWORD": true,
		"secretName": false, "passwordFile": false, "tokenUrl": false, "token_ttl": false, "password_policy": false, "secretKeyRef": false, "checksum/secret": false,
		"checksum/db-password": false, "public_token": false, "automountServiceAccountToken": false, "tokenReviewers": false, "key": false, "keyId": false, "compass": false,
		"max_tokens": false, "secret_id": false, "passthrough": false, "": false, "123": false, "bypass": false, "access_key_id": false,
	} {
		if Name(name) != secret {
			t.Errorf("%s: %t", name, !secret)
		}
	}
}

func TestTexts(t *testing.T) {
	for text, secret := range map[string]bool{
		"postgres://u:hunter2hunter@db/x": true, "redis://:hunter22@cache:6379": true, "https://0123456789abcdefABCDEF@sentry.io/1": true, "https://u:${PASSWORD}@h/x": false,
		"-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----": true, "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----": false,
		"--db-password=hunter2hunter": true, "--db-password hunter2hunter": true, "mysql -u root -phunter2hunter": true, "curl -u ann:hunter2hunter https://x": true,
		"export TOKEN=abcdEFGH1234": true, "export TOKEN=$(cat /x)": false, "--password-file=/run/secrets/x": false, "--token=${TOKEN}": false,
		"Authorization: Bearer abcdefgh12345678": true, "a bearer certificate": false, "Basic dXNlcjpwYXNzd29yZA==": true, "basic authentication": false,
		"Server=x;Password=hunter2hunter;": true, "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=abcdefghijklmnop==": true, "host=x password=hunter2hunter": true,
		"password: hunter2hunter\nuser: x": true, "the password: must be given by hand": false, "secret:\n  name: things": false, "token: https://x/y": false,
		"https://x.blob.core.windows.net/c?sv=1&sig=abcdefghijklmnop%3D": true, "AKIAIOSFODNN7EXAMPLE": true, "ghp_0123456789abcdefghijABCDEFGHIJ012345": true,
		"$2a$10$abcdefghijk": true, "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08": false, "a.b.c/d:1.2.3@sha256:9f86d081": false,
		"": false, "secret": false, "https://user@example.com/x": false, "git@github.com:a/b.git": false,
	} {
		if is, ok := Text(text); ok != secret {
			t.Errorf("%q: %s, %t", text, is, ok)
		}
	}
}

func TestRedact(t *testing.T) {
	for text, want := range map[string]string{
		"dial postgres://u:hunter2hunter@db/x: refused": "dial postgres://u:(redacted)@db/x: refused",
		`run --db-password="hunter2hunter" --verbose`:   `run --db-password="(redacted)" --verbose`,
		"password=hunter2hunter token=abcdefgh1":        "password=(redacted) token=(redacted)",
		"nothing of the kind: it is as it was":          "nothing of the kind: it is as it was",
		"key -----BEGIN PRIVATE KEY-----\nMIIE":         "key (redacted)",
	} {
		if got := Redact(text); got != want {
			t.Errorf("%q: %q", text, got)
		}
		if got := Redact(Redact(text)); got != want {
			t.Errorf("%q twice: %q", text, got)
		}
	}
}

func TestKnown(t *testing.T) {
	var known Known
	known.Add(map[string]any{"a": "hunter2&hunter2", "b": []any{"x", "default", "12345"}})
	for text, in := range map[string]bool{
		"x hunter2&hunter2 y": true, "aHVudGVyMiZodW50ZXIy": true, "p=hunter2%26hunter2": true, "hunter2": false, "default": false, "12345": false, "x": false,
	} {
		if known.In(text) != in {
			t.Errorf("%q: %t", text, !in)
		}
	}
}

func TestFindKnowsPairsAndArguments(t *testing.T) {
	var value any
	if err := json.Unmarshal([]byte(`{"env":[{"name":"DB_PASSWORD","value":"hunter2hunter"},{"name":"MODE","value":"hunter2hunter"},{"name":"TOKEN","valueFrom":{"secretKeyRef":{"name":"some-secret","key":"token-key"}}}],
		"args":["--password","hunter2hunter","--token-file","/run/token","--secret","--verbose"],"annotations":{"checksum/secret":"9f86d081884c7d65"},
		"values":"{\"auth\":{\"password\":\"hunter2hunter\"}}"}`), &value); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(Find(value)); got != "[{args[1] a secret, by its name} {env[0].value a secret, by its name} {values an assignment of a secret}]" {
		t.Error(got)
	}
}

// TestFalseHits: of the values of real configuration, at most 1 in 500 is taken for a
// secret. LEHR_CORPUS names more of it.
func TestFalseHits(t *testing.T) {
	folders := []string{"../../../examples", "../../../sdk/generator", "../../../renderers", "../../demo", "../../../test/scripts"}
	if corpus := os.Getenv("LEHR_CORPUS"); corpus != "" {
		folders = append(folders, corpus)
	}
	values, hits := 0, []string{}
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() || filepath.Ext(name) != ".yaml" && filepath.Ext(name) != ".yml" {
				return err
			}
			text, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			decoder := yaml.NewDecoder(strings.NewReader(string(text)))
			for {
				var value any
				if decoder.Decode(&value) != nil {
					return nil
				}
				values += count(value)
				for _, hit := range Find(value) {
					hits = append(hits, name+": "+hit.Path+": "+hit.Is)
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d values, %d hits: %s", values, len(hits), strings.Join(hits, "\n"))
	if values < 300 || len(hits)*500 > values {
		t.Errorf("%d of %d values are taken for secrets: %s", len(hits), values, strings.Join(hits, "\n"))
	}
}

func count(value any) (n int) {
	switch value := value.(type) {
	case map[string]any:
		for _, element := range value {
			n += count(element)
		}
	case []any:
		for _, element := range value {
			n += count(element)
		}
	default:
		n = 1
	}
	return n
}
