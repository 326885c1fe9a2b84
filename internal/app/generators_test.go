package app

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec/generate/native"
)

// TestGeneratorsAreListed: native programs run for the partitions that the file
// names, as it says now, and for no others.
func TestGeneratorsAreListed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "generators.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if runner("", "").Native != nil {
		t.Error("without a file there is somebody who may")
	}
	allowed := runner("", file).Native
	write("generators: v1\nnative:\n  - {partitions: [shop], visible: [/usr]}\n  - {partitions: [lab], sandbox: \"off\"}\n")
	for partition, sandbox := range map[intent.PartitionID]native.Sandbox{"shop": native.Required, "lab": native.Off, "bank": ""} {
		policy, err := allowed(partition)
		if policy.Sandbox != sandbox || (sandbox == "") != fault.Is(err, fault.Denied) {
			t.Errorf("%s: %+v, %v", partition, policy, err)
		}
	}
	if policy, _ := allowed("shop"); !slices.Equal(policy.Visible, []string{"/usr"}) {
		t.Errorf("visible: %v", policy.Visible)
	}
	write("generators: v1\nnative: [{partitions: ['*'], sandbox: preferred}]\n")
	if policy, err := allowed("bank"); err != nil || policy.Sandbox != native.Preferred {
		t.Errorf("the file was changed, and %+v, %v counts", policy, err)
	}
	write("generators: v1\nrun_time: 45s\n")
	if limits := runner("", file).Limits; limits.Milliseconds != 45_000 {
		t.Errorf("a run has %d ms", limits.Milliseconds)
	}
	for text, told := range map[string]string{
		"generators: v1\nrun_time: 1h\n": `run_time "1h" is no length of time from 1s to 10m0s`, "generators: v1\nrun_time: fast\n": `run_time "fast" is no length of time`,
		"": `no list`, "generators: v2\n": `version v1`, "generators: v1\nnativ: []\n": `nativ`, "generators: v1\n---\ngenerators: v1\n": `more than one`,
		"generators: v1\nnative: [{}]\n":                                        `no partition may use it`,
		"generators: v1\nnative: [{partitions: [A]}]\n":                         `A`,
		"generators: v1\nnative: [{partitions: [a], sandbox: maybe}]\n":         `"maybe" is not known`,
		"generators: v1\nnative: [{partitions: [a], visible: [usr]}]\n":         `whole path`,
		"generators: v1\nnative: [{partitions: [a], visible: [/]}]\n":           `whole path`,
		"generators: v1\nnative: [{partitions: [a], visible: [/usr/../etc]}]\n": `whole path`,
		"generators: v1\nnative: [{partitions: [a], visible: [/tmp/x]}]\n":      `has its own`,
		"generators: v1\nnative: [{partitions: [a], visible: [/work]}]\n":       `has its own`,
	} {
		write(text)
		if _, err := allowed("a"); err == nil || fault.Is(err, fault.Denied) || !regexp.MustCompile(told).MatchString(err.Error()) {
			t.Errorf("%q: %v, want %q", text, err, told)
		}
	}
	options := DefaultOptions()
	options.Store, options.Listen, options.Generators = filepath.Join(t.TempDir(), "lehr.db"), "", file
	made, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	if err := made.Start(t.Context()); err == nil {
		_ = made.Stop(t.Context())
		t.Error("a server starts with a list that is wrong")
	}
}
