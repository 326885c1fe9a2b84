package tfroots

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"lehr.dev/internal/ground/files"
	"lehr.dev/internal/ground/secrecy"
)

// addInitialised adds the settings that init was given beside the files, as it noted them in
// the folder's working copy.
func (l *layout) addInitialised(r *root) {
	name := filepath.Join(l.top, filepath.FromSlash(r.folder.path), ".terraform", "terraform.tfstate")
	text, err := files.ReadForeign(name, mostFile)
	if err != nil {
		return // It was never initialised here.
	}
	var noted struct {
		Backend struct {
			Type   string         `json:"type"`
			Config map[string]any `json:"config"`
		} `json:"backend"`
	}
	if json.Unmarshal(text, &noted) != nil || noted.Backend.Type != r.folder.backend.kind {
		return
	}
	for _, setting := range slices.Sorted(maps.Keys(noted.Backend.Config)) {
		value := noted.Backend.Config[setting]
		if _, isWritten := r.folder.backend.config[setting]; isWritten {
			continue
		}
		switch value.(type) {
		case string, bool, float64:
		default:
			continue // Nothing, or what after -backend-config cannot be said.
		}
		l.addSetting(r, setting, fmt.Sprint(value), "as init was given it in "+r.folder.path)
	}
}

// addSetting adds a setting of the backend, unless it is secret.
func (l *layout) addSetting(r *root, name, text, from string) {
	if text == "" {
		return
	}
	if _, isSecret := secrecy.Field(name, text); isSecret || isSecretSetting(name) {
		l.leave("the backend's setting "+name+" of "+r.id, "it is secret: "+from, false)
		l.addHint("give " + r.id + " its secret setting of the backend: with: {backend: [" + name + "=env:LEHR_VARIABLE]}, or " + name + "=file:/path")
		return
	}
	r.backend[name] = text
}

func (l *layout) addHint(text string) {
	if !slices.Contains(l.Hints, text) {
		l.Hints = append(l.Hints, text)
	}
}

// isSecretSetting is as strict as the renderer, which refuses a value for such a setting.
func isSecretSetting(name string) bool {
	small := strings.ToLower(name)
	return slices.ContainsFunc([]string{"secret", "password", "token", "access_key", "sas", "credentials", "conn_str", "private"}, func(word string) bool {
		return strings.Contains(small, word)
	})
}

// completeLocal names the state of the backend local where it lies now: Terraform is run in
// another folder from now on.
func (l *layout) completeLocal(r *root) {
	home := filepath.Join(l.top, filepath.FromSlash(r.folder.path))
	within := func(setting, standard string) {
		text, ok := r.backend[setting]
		if !ok {
			text, ok = scalarText(r.folder.backend.config[setting])
		}
		if !ok {
			text = standard
		}
		if !filepath.IsAbs(text) {
			r.backend[setting] = filepath.Join(home, text)
		}
	}
	if r.workspace != "" {
		within("workspace_dir", "terraform.tfstate.d")
	}
	within("path", "terraform.tfstate")
}

// locking are backends that lock the state whatever their settings.
var locking = []string{"azurerm", "consul", "cos", "gcs", "kubernetes", "local", "pg"}

// locksState reports whether a root module's backend locks its state.
func (r *root) locksState() bool {
	if slices.Contains(locking, r.folder.backend.kind) {
		return true
	}
	has := func(setting string) bool {
		text, ok := scalarText(r.folder.backend.config[setting])
		if !ok {
			text = r.backend[setting]
		}
		return text != "" && text != "false"
	}
	switch r.folder.backend.kind {
	case "s3":
		return has("use_lockfile") || has("dynamodb_table")
	case "http":
		return has("lock_address")
	case "oss":
		return has("tablestore_table")
	}
	return false
}

// tellValues says which values of variables are left out, and which files nobody names.
func (l *layout) tellValues(r *root) {
	v := r.folder.values
	for _, file := range slices.Sorted(maps.Keys(v.secret)) {
		l.leave(file+": "+strings.Join(v.secret[file], ", "), "they are secret, or may be; the other values of the file are copied", false)
		for _, name := range v.secret[file] {
			l.addHint("give the variable " + name + " in the operator's list: secrets: {TF_VAR_" + name + ": {file: /path}}")
		}
	}
	for _, file := range v.named {
		l.leave(file, "only -var-file reads it; where it is used and holds no secret, add it to the source's files and to with: {variable_files: [PATH]}", false)
	}
}
