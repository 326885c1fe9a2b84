// Package storagemark remembers how far the storage of each cluster had come, and notices
// when one is behind that: it was restored from a backup (S15). Nothing is told of such a
// cluster, and nothing pushed to it, until whoever operates the plugin accepts the restore.
// It asks no cluster. Packages kubewatch and kubeobject call it.
package storagemark

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"lehr.dev/internal/ground/files"
)

// Variable names the file where the flag --state does not.
const Variable = "LEHR_KUBERNETES_STATE"

// maxBytes of the file.
const maxBytes = 16 << 20

// writePause is how long new marks may wait to be written: a plugin that was killed knows
// marks that are so much older.
const writePause = 10 * time.Second

// Restored says that the storage of a cluster is behind what was seen of it.
type Restored struct {
	// Resource whose storage was seen to be behind, and the versions.
	Resource       string `json:"resource"`
	Highest, Found uint64
	// ID is what accepts this restore, and no other.
	ID string `json:"id"`
}

func (r *Restored) Error() string {
	return fmt.Sprintf("the cluster was restored from a backup: the storage of %s had version %d and now has %d. Nothing is pushed there until whoever operates lehr-kubernetes has looked at the cluster, and writes restored: %q beside it into the list of clusters",
		r.Resource, r.Highest, r.Found, r.ID)
}

// cluster is what is remembered of one.
type cluster struct {
	// Highest version seen, by resource.
	Highest map[string]uint64 `json:"highest"`
	// Whole is the restore that counts for all of the cluster, Parts those of resources that
	// an aggregated API may keep elsewhere.
	Whole *Restored            `json:"whole,omitempty"`
	Parts map[string]*Restored `json:"parts,omitempty"`
	// Accepted is the ID of the last restore that was accepted.
	Accepted string `json:"accepted,omitempty"`
}

// Marks of all clusters, by their UIDs. Its methods are called from many goroutines.
type Marks struct {
	path string
	now  func() time.Time

	mutex    sync.Mutex
	clusters map[string]*cluster
	changed  bool
	written  time.Time
}

// Open reads the marks of an earlier run; path is empty: there are none, and none are kept.
func Open(path string) (*Marks, error) {
	m := &Marks{path: path, now: time.Now, clusters: map[string]*cluster{}}
	if path == "" {
		return m, nil
	}
	text, err := files.Read(path, maxBytes)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return m, nil
	case err != nil:
		return nil, fmt.Errorf("reading how far clusters had come: %w", err)
	}
	if err := json.Unmarshal(text, &m.clusters); err != nil {
		return nil, fmt.Errorf("reading how far clusters had come from %s: %w; if the file is lost, remove it: a restore that happened meanwhile is then not noticed", path, err)
	}
	if m.clusters == nil || slices.Contains(slices.Collect(maps.Values(m.clusters)), nil) {
		return nil, fmt.Errorf("reading how far clusters had come from %s: it names no marks of a cluster; remove the file: a restore that happened meanwhile is then not noticed", path)
	}
	return m, nil
}

// See notes a version of a resource's storage, as an event or a bookmark shows it.
func (m *Marks) See(uid string, resource schema.GroupVersionResource, version string) {
	m.judge(uid, resource, version, 0)
}

// Begin returns what judges a list that begins now: a list is of now, so its version is no
// lower than any that was seen before it began. It returns the restore for which the
// resource is not to be believed.
func (m *Marks) Begin(uid string, resource schema.GroupVersionResource) func(version string) error {
	m.mutex.Lock()
	highest := m.cluster(uid).Highest[resource.GroupResource().String()]
	m.mutex.Unlock()
	return func(version string) error { return m.judge(uid, resource, version, highest) }
}

// judge notes a version, that is to be no lower than the least.
func (m *Marks) judge(uid string, resource schema.GroupVersionResource, version string, least uint64) error {
	number, err := strconv.ParseUint(version, 10, 64)
	if err != nil || number == 0 {
		return nil // An aggregated API may have versions that are no numbers, or none.
	}
	name := resource.GroupResource().String()
	m.mutex.Lock()
	defer m.mutex.Unlock()
	known := m.cluster(uid)
	switch {
	case known.restored(name) != nil:
	case number < least && least <= known.Highest[name]:
		m.halt(known, resource, least, number)
	case number > known.Highest[name]:
		known.Highest[name], m.changed = number, true
	}
	m.write(false)
	if restored := known.restored(name); restored != nil {
		return restored
	}
	return nil
}

func (m *Marks) halt(known *cluster, resource schema.GroupVersionResource, highest, found uint64) {
	name := resource.GroupResource().String()
	restored := &Restored{Resource: name, Highest: highest, Found: found, ID: fmt.Sprintf("%d-%s", found, m.now().UTC().Format("20060102T150405"))}
	if isOfCluster(resource.Group) {
		known.Whole = restored
	} else {
		known.Parts[name] = restored
	}
	m.changed = true
	m.write(true)
}

// isOfCluster reports whether a group is kept in the API server's own storage. Other
// groups may be an aggregated API's, which may begin anew by itself.
func isOfCluster(group string) bool {
	switch {
	case group == "metrics.k8s.io" || strings.HasSuffix(group, ".metrics.k8s.io"):
		return false
	case !strings.Contains(group, "."):
		return true
	}
	return strings.HasSuffix(group, ".k8s.io")
}

// Halted returns the restore for which a resource of a cluster is not to be believed; nil:
// there is none.
func (m *Marks) Halted(uid string, resource schema.GroupResource) *Restored {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	known, ok := m.clusters[uid]
	if !ok {
		return nil
	}
	return known.restored(resource.String())
}

// Accept ends the halt that has an ID; the cluster's versions are noted anew from now on.
// It reports whether there was one.
func (m *Marks) Accept(uid, id string) bool {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	known, ok := m.clusters[uid]
	if !ok || id == "" {
		return false
	}
	found := false
	if known.Whole != nil && known.Whole.ID == id {
		known = newCluster()
		m.clusters[uid], found = known, true
	}
	for name, part := range known.Parts {
		if part.ID == id {
			delete(known.Parts, name)
			delete(known.Highest, name)
			found = true
		}
	}
	if found {
		known.Accepted, m.changed = id, true
		m.write(true)
	}
	return found
}

// Accepted is the ID of the last restore of a cluster that was accepted; empty: there was
// none. Versions from before may name other contents since.
func (m *Marks) Accepted(uid string) string {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if known, ok := m.clusters[uid]; ok {
		return known.Accepted
	}
	return ""
}

func newCluster() *cluster {
	return &cluster{Highest: map[string]uint64{}, Parts: map[string]*Restored{}}
}

func (m *Marks) cluster(uid string) *cluster {
	known, ok := m.clusters[uid]
	if !ok {
		known = newCluster()
		m.clusters[uid] = known
	}
	if known.Highest == nil {
		known.Highest = map[string]uint64{}
	}
	if known.Parts == nil {
		known.Parts = map[string]*Restored{}
	}
	return known
}

func (c *cluster) restored(resource string) *Restored {
	if c.Whole != nil {
		return c.Whole
	}
	return c.Parts[resource]
}

// write keeps the marks in the file: at once, or when the last time is long enough ago.
// Where it cannot, the marks in memory count, and the log says so.
func (m *Marks) write(atOnce bool) {
	if m.path == "" || !m.changed || !atOnce && m.now().Sub(m.written) < writePause {
		return
	}
	m.written = m.now()
	text, err := json.Marshal(m.clusters)
	next := m.path + ".next"
	if err == nil {
		err = os.WriteFile(next, text, 0o600)
	}
	if err == nil {
		err = os.Rename(next, m.path)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "lehr-kubernetes: how far clusters have come cannot be kept:", err)
		return
	}
	m.changed = false
}
