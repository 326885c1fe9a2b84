package balancer

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

const (
	rootPath    = "/config/"
	idPath      = "/config/@id"
	serversPath = "/config/apps/http/servers/"
	// runID begins the id of the configuration that "lehr-caddy run" starts
	// with.
	runID = "lehr-caddy:"
)

// snapshot is a Caddy's whole configuration at one moment.
type snapshot struct {
	root any
	// digest of the text.
	digest string
}

func (a admin) snapshot(ctx context.Context) (snapshot, error) {
	body, _, err := a.get(ctx, rootPath)
	if err != nil {
		return snapshot{}, err
	}
	s := snapshot{digest: digest(body)}
	if err := json.Unmarshal(body, &s.root); err != nil {
		return s, fmt.Errorf("reading the configuration of the Caddy at %s: it is not JSON (%w): is this Caddy's admin endpoint?", a.address, err)
	}
	if _, isObject := s.root.(map[string]any); !isObject && s.root != nil {
		return s, fmt.Errorf("reading the configuration of the Caddy at %s: it is no object: is this Caddy's admin endpoint?", a.address)
	}
	return s, nil
}

// member returns an object's member.
func member(value any, name string) (any, bool) {
	object, _ := value.(map[string]any)
	result, found := object[name]
	return result, found
}

func (s snapshot) server(name string) (live any, exists bool) {
	apps, _ := member(s.root, "apps")
	app, _ := member(apps, "http")
	servers, _ := member(app, "servers")
	return member(servers, name)
}

// shared reports whether "lehr-caddy run" is what runs.
func (s snapshot) shared() bool {
	id, _ := member(s.root, "@id")
	text, _ := id.(string)
	return strings.HasPrefix(text, runID)
}

// base is what a write is bound to: a path of Caddy's configuration that
// must be as it was read, with the digest of what was there.
//
// Of a server that exists this is the server, with the id of the push that
// wrote it. Where none exists it is the id of the configuration: "lehr-caddy
// run" has another one with each start. That there still is no server, Caddy
// sees to itself.
type base struct {
	path   string
	digest string
	shared bool
}

func (s snapshot) base(name string) (base, error) {
	at, value := serversPath+name, any(nil)
	live, exists := s.server(name)
	switch {
	case exists:
		value = live
	case s.root == nil:
		at = rootPath
	default:
		at = idPath
		value, _ = member(s.root, "@id")
	}
	text, err := json.Marshal(value)
	return base{path: at, digest: digest(text), shared: s.shared()}, err
}

func (b base) String() string {
	kind := "plain"
	if b.shared {
		kind = "shared"
	}
	return b.path + " " + b.digest + " " + kind
}

func parseBase(text string) (base, error) {
	parts := strings.Split(text, " ")
	if len(parts) != 3 {
		return base{}, errors.New("the base of the change is not one that this plugin told: a defect")
	}
	return base{path: parts[0], digest: parts[1], shared: parts[2] == "shared"}, nil
}

// covers reports whether the base is of what Caddy now has at its path.
func (b base) covers(body []byte) bool {
	var value any
	if json.Unmarshal(body, &value) != nil {
		return false
	}
	text, err := json.Marshal(value)
	return err == nil && digest(text) == b.digest
}

// digest of JSON whose members are in order.
func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return fmt.Sprintf("%x", sum[:16])
}
