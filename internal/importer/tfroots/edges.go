package tfroots

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zclconf/go-cty/cty"

	"lehr.dev/internal/ground/secrecy"
)

// identifying are the settings of backends by which one state is told from another, those
// without which it cannot be told first.
var identifying = map[string]struct{ needed, optional []string }{
	"azurerm":    {[]string{"storage_account_name", "container_name", "key"}, nil},
	"consul":     {[]string{"path"}, []string{"address"}},
	"cos":        {[]string{"bucket"}, []string{"prefix", "key"}},
	"gcs":        {[]string{"bucket"}, []string{"prefix"}},
	"http":       {[]string{"address"}, nil},
	"kubernetes": {[]string{"secret_suffix"}, []string{"namespace"}},
	"local":      {[]string{"path"}, nil},
	"oss":        {[]string{"bucket"}, []string{"prefix", "key"}},
	"pg":         {nil, []string{"schema_name"}},
	"s3":         {[]string{"bucket", "key"}, nil},
}

// identityOf names a state. The error says which setting is not known.
func identityOf(kind, workspace string, config map[string]cty.Value, home string) (string, error) {
	settings, ok := identifying[kind]
	if !ok {
		return "", fmt.Errorf("the backend %s is not known here", kind)
	}
	parts := []string{kind}
	for _, name := range append(slices.Clone(settings.needed), settings.optional...) {
		text, ok := scalarText(config[name])
		if !ok && slices.Contains(settings.needed, name) {
			return "", fmt.Errorf("its setting %s is no constant", name)
		}
		if kind == "local" && !filepath.IsAbs(text) {
			text = filepath.Join(home, text)
		}
		parts = append(parts, name+"="+strings.Trim(text, "/"))
	}
	return strings.Join(append(parts, "workspace="+workspace), " "), nil
}

// identity is the state of a root module; empty: it cannot be told.
func (r *root) identity(top string) string {
	config := map[string]cty.Value{}
	for name, value := range r.folder.backend.config {
		config[name] = value
	}
	for name, text := range r.backend {
		config[name] = cty.StringVal(text)
	}
	workspace := r.workspace
	if workspace == "" {
		workspace = "default"
	}
	text, err := identityOf(r.folder.backend.kind, workspace, config, filepath.Join(top, filepath.FromSlash(r.folder.path)))
	if err != nil {
		return ""
	}
	return text
}

// connect gives each root module edges to those whose states it reads.
func (l *layout) connect() {
	byState := map[string]*root{}
	for _, r := range l.roots {
		if state := r.identity(l.top); state != "" {
			byState[state] = r
		}
	}
	for _, r := range l.roots {
		for _, reader := range l.closure(r.folder) {
			for _, state := range reader.states {
				l.connectState(r, state, byState)
			}
		}
	}
	l.cutCircles()
}

func (l *layout) connectState(r *root, state remoteState, byState map[string]*root) {
	if reason := state.unread; reason != "" {
		l.leave(state.place.String(), "which state it reads cannot be told: "+reason+"; declare the edge by the addon Dependencies", false)
		return
	}
	identity, err := identityOf(state.kind, state.workspace, state.config, filepath.Join(l.top, filepath.FromSlash(r.folder.path)))
	if err != nil {
		l.leave(state.place.String(), "which state it reads cannot be told: "+err.Error()+"; declare the edge by the addon Dependencies", false)
		return
	}
	if text, _ := scalarText(state.config["path"]); state.kind == "local" && !filepath.IsAbs(text) {
		l.leave(state.place.String(), "it reads a state by a path that is relative to where terraform is run, and Lehr runs it elsewhere: write the whole path, or take the value as an output (${output:ASSET#NAME} in with.variables)", true)
	}
	other, ok := byState[identity]
	switch {
	case !ok:
		l.leave(state.place.String(), "it reads a state of no root module here, and has no edge: "+secrecy.Redact(identity), false)
	case other != r:
		r.dependOn(other.id)
	}
}

func (r *root) dependOn(id string) {
	if !slices.Contains(r.edges, id) {
		r.edges = append(r.edges, id)
		slices.Sort(r.edges)
	}
}

// cutCircles leaves out the edges that would close one: Lehr refuses a circle.
func (l *layout) cutCircles() {
	byID := map[string]*root{}
	for _, r := range l.roots {
		byID[r.id] = r
	}
	isDone, isOpen := map[string]bool{}, map[string]bool{}
	var visit func(r *root)
	visit = func(r *root) {
		if isDone[r.id] {
			return
		}
		isOpen[r.id] = true
		var kept []string
		for _, id := range r.edges {
			if isOpen[id] {
				l.leave("the edge from "+r.id+" to "+id, "it would close a circle: each waits for the other", true)
				continue
			}
			kept = append(kept, id)
			if other := byID[id]; other != nil {
				visit(other)
			}
		}
		r.edges = kept
		isOpen[r.id], isDone[r.id] = false, true
	}
	for _, r := range l.roots {
		visit(r)
	}
}
