package applykeeper

import (
	"log"
	"os"
	"path/filepath"

	"lehr.dev/sdk/secret"
)

// Secret is one that the apply is given, with the keyed digest that stands for it. It is handed
// to the keeper with the environment, and written nowhere.
type Secret struct {
	Name   string
	Value  string
	Digest secret.Digest
}

// redact takes the secrets out of the reason, and of what Terraform told: it was written by
// Terraform itself, as what a program of the module printed.
func (e *End) redact(spec Spec) {
	for _, one := range spec.Secrets {
		secret.Know(one.Name, []byte(one.Value), one.Digest)
	}
	e.Reason = secret.Redact(e.Reason)
	path := filepath.Join(spec.Asset.Path, progressName)
	text, err := os.ReadFile(path)
	if err != nil {
		return // Nothing was told.
	}
	redacted := secret.Redact(string(text))
	if redacted == string(text) {
		return
	}
	// A whole file in its place, since the plugin reads it meanwhile.
	err = os.WriteFile(path+".new", []byte(redacted), 0o600)
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		log.Printf("taking secrets out of %s: %v", path, err)
		_ = os.Remove(path)
	}
}
