package access

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
)

// Rendezvous is what a server leaves beside its store for clients of the same
// user to find it by.
type Rendezvous struct {
	URL   string `json:"url"`
	Token string `json:"token"`
	PID   int    `json:"pid"`
}

// RendezvousPath is the file beside a store.
func RendezvousPath(store string) string { return store + ".server.json" }

// Write leaves the file, readable by its user only; it replaces what a dead
// server left.
func (r Rendezvous) Write(store string) error {
	path := RendezvousPath(store)
	content, err := json.Marshal(r)
	if err != nil {
		return err
	}
	// One name, so that what a killed server left half written goes with the
	// next; made anew, so that it is nobody else's.
	temporary := path + ".new"
	os.Remove(temporary)
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return unwritten(path, err)
	}
	_, err = file.Write(append(content, '\n'))
	if err == nil {
		err = file.Sync() // Or its name may outlive a power loss, and not its content.
	}
	err = errors.Join(err, file.Close())
	if err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		os.Remove(temporary)
		return unwritten(path, err)
	}
	return nil
}

func unwritten(path string, err error) error {
	return fault.New(fault.Unavailable, "leaving word for clients in %s: %w", path, err).
		WithHint("the folder of the store must be writable and have space left: free some, and start again")
}

// Remove takes the file away, unless another server has written its own since.
func (r Rendezvous) Remove(store string) {
	if current, err := ReadRendezvous(store); err == nil && current == r {
		os.Remove(RendezvousPath(store))
	}
}

// maxRendezvous bounds the file, in bytes.
const maxRendezvous = 64 << 10

// ReadRendezvous is NotFound when no server left a file beside the store.
func ReadRendezvous(store string) (Rendezvous, error) {
	path := RendezvousPath(store)
	content, err := files.Read(path, maxRendezvous)
	if errors.Is(err, fs.ErrNotExist) {
		return Rendezvous{}, fault.New(fault.NotFound, "no server runs on store %s: %s is not there", store, path).
			WithHint("start one with: lehr serve --store %s", store)
	}
	if err != nil {
		return Rendezvous{}, fault.New(fault.Unavailable, "looking for the server: %w", err)
	}
	var r Rendezvous
	if err := json.Unmarshal(content, &r); err != nil || r.URL == "" {
		return Rendezvous{}, fault.New(fault.Invalid, "%s does not name a server: %v", path, err).WithHint("restart lehr serve, which writes it anew")
	}
	return r, nil
}
