package tfcommand

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// The entries of a saved plan that are read: the state as the plan found production, and as it
// was before. The folder has the configuration.
const (
	refreshedEntry = "tfstate"
	previousEntry  = "tfstate-prev"
	configFolder   = "tfconfig/"
)

// planFile is what the file of a saved plan has beside the plan.
type planFile struct {
	// state is which version the plan was made of.
	state State
	// refreshed is the digest of the state as the plan found production.
	refreshed string
	// hasConditions: the configuration may have checks, whose results no state has.
	hasConditions bool
}

// readPlanFile reads it. Its form is documented nowhere: ok is false where it is another than
// Terraform and OpenTofu write today, or encrypted, and where it does not tell whether there is
// a state yet. Then the state itself is read.
func readPlanFile(path string) (found planFile, ok bool) {
	archive, err := zip.OpenReader(path)
	if err != nil {
		return found, false
	}
	defer archive.Close()
	refreshed, err := entry(&archive.Reader, refreshedEntry)
	defer clear(refreshed) // They hold secrets.
	if err != nil {
		return found, false
	}
	previous, err := entry(&archive.Reader, previousEntry)
	defer clear(previous)
	if err != nil || json.Unmarshal(refreshed, &found.state) != nil || found.state.Lineage == "" || found.state.Serial == 0 {
		return found, false
	}
	found.state.Size = len(refreshed)
	if found.state.Digest, err = digestOfState(found.state, previous); err != nil {
		return found, false
	}
	sum := sha256.Sum256(refreshed)
	found.refreshed = hex.EncodeToString(sum[:])
	found.hasConditions, err = hasConditions(&archive.Reader)
	return found, err == nil
}

func entry(archive *zip.Reader, name string) ([]byte, error) {
	file, err := archive.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return readBounded(file)
}

func readBounded(from io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(from, mostShown+1))
	if err == nil && len(text) > mostShown {
		err = fmt.Errorf("it has more than %d MiB", mostShown>>20)
	}
	return text, err
}

// hasConditions reports whether any file of the configuration may have a condition: each check
// block, precondition, postcondition and validation has an argument of that name, which JSON may
// write with escapes.
func hasConditions(archive *zip.Reader) (bool, error) {
	hasAny := false
	for _, file := range archive.File {
		if !strings.HasPrefix(file.Name, configFolder) {
			continue
		}
		hasAny = true
		text, err := entry(archive, file.Name)
		if err != nil {
			return false, err
		}
		if bytes.Contains(text, []byte("condition")) || strings.HasSuffix(file.Name, ".json") && bytes.Contains(text, []byte(`\u`)) {
			return true, nil
		}
	}
	if !hasAny {
		return false, errors.New("it has no configuration")
	}
	return false, nil
}

// DigestOf a state, as "state pull" prints it, as SHA-256 in hex: of its version, resources and
// outputs.
func DigestOf(text []byte) (string, error) {
	var state State
	if err := json.Unmarshal(text, &state); err != nil {
		return "", fmt.Errorf("reading the state: %w", err)
	}
	return digestOfState(state, text)
}

// digestOfState is the digest of a state of which a text has the content. The saved plan has the
// content of the state before it without its version.
func digestOfState(version State, text []byte) (string, error) {
	var content struct {
		Outputs   json.RawMessage `json:"outputs"`
		Resources json.RawMessage `json:"resources"`
	}
	if err := json.Unmarshal(text, &content); err != nil {
		return "", fmt.Errorf("reading the state: %w", err)
	}
	defer clear(content.Outputs)
	defer clear(content.Resources)
	digest := sha256.New()
	fmt.Fprintf(digest, "%q %d", version.Lineage, version.Serial)
	for _, part := range []json.RawMessage{content.Outputs, content.Resources} {
		var compact bytes.Buffer
		if err := json.Compact(&compact, part); err != nil {
			return "", fmt.Errorf("reading the state: %w", err)
		}
		fmt.Fprintf(digest, " %d ", compact.Len())
		digest.Write(compact.Bytes())
		clear(compact.Bytes())
	}
	return hex.EncodeToString(digest.Sum(nil)), nil
}
