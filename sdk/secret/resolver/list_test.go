package resolver

import (
	"os"
	"strings"
	"testing"

	"lehr.dev/internal/ground/fault"
)

func TestListsThatAreRefused(t *testing.T) {
	d := newDesk(t)
	key := "key: " + d.path("key") + "\n"
	one := func(entry string) string { return "lehr-secrets: v1\n" + key + "secrets:\n- {" + entry + "}\n" }
	const who = "partitions: [shop], plugins: [lehr-test]"
	loose := d.write("loose", strings.Repeat("0123456789abcdef", 2))
	if err := os.Chmod(loose, 0o644); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"":                         "is no list of secrets",
		"lehr-secrets: v2\n" + key: "of version v1",
		"lehr-secrets: v1\nsecrets: [{env: A, " + who + "}]\n":                      "names no key",
		"lehr-secrets: v1\nkey: key\n":                                              "no absolute path",
		"lehr-secrets: v1\nkey: " + d.path("none") + "\n":                           "no such file",
		"lehr-secrets: v1\nkey: " + d.write("short", "abc") + "\n":                  "not random",
		"lehr-secrets: v1\nkey: " + d.write("same", strings.Repeat("a", 64)) + "\n": "not random",
		"lehr-secrets: v1\nkey: " + loose + "\n":                                    "chmod o=",
		one("env: A, " + who + ", partition: shop"):                                 "lehr-secrets.yaml:4: unknown key",
		one("env: A, file: /b, " + who):                                             "lehr-secrets.yaml:4: a secret is in one place",
		one(who):                                                                    "names 0",
		one("env: 'LEHR_*', " + who):                                                "patterns are not read",
		one("file: run/secret, " + who):                                             "no absolute path",
		one("file: /run/../secret, " + who):                                         "no absolute path",
		one("sops: age.txt, " + who):                                                "no absolute path",
		one("file: " + d.path("key") + ", " + who):                                  "the key or the list itself",
		one("command: vault, " + who):                                               "run names the program",
		one("command: vault, run: [vault], " + who):                                 "run names the program",
		one("command: ../vault, run: [/bin/true], " + who):                          "is no name",
		one("env: A, run: [/bin/true], " + who):                                     "belong to a command",
		one("kubernetes: {namespace: a}, " + who):                                   "a namespace and a name",
		one("env: A, partitions: [shop]"):                                           "no plugin may use it",
		one("env: A, plugins: [lehr-test]"):                                         "no partition may use it",
		one("env: A, partitions: [Shop!], plugins: [lehr-test]"):                    "Shop!",
		"lehr-secrets: v1\n" + key + "kubernetes: {kubeconfig: config}\n":           "no absolute path",
		"lehr-secrets: v1\n" + key + "kubernetes: {context: a}\n":                   "needs kubernetes.kubeconfig",
	} {
		d.write("lehr-secrets.yaml", text)
		_, err := New("lehr-test", d.list).Resolve(t.Context(), look, ofEnv("A"))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "(") {
			t.Errorf("%s\n%v, want %q and a hint", text, err, want)
		}
	}
	d.write("lehr-secrets.yaml", one("env: A, "+who))
	if err := os.Chmod(d.list, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := New("lehr-test", d.list).Resolve(t.Context(), look, ofEnv("A")); !fault.Is(err, fault.Denied) || !strings.Contains(err.Error(), "chmod o-w") {
		t.Errorf("a list that others can write: %v", err)
	}
}
