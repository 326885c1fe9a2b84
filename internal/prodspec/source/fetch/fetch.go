// Package fetch reads sources that lie elsewhere: git, HTTP, SQL, lists of
// versions, documents that the store holds, and what other partitions tell. Each is a folder that looks at its source now and then, and keeps
// what it read last, all of it, while the source fails: unavailable is never
// empty (S5, S6). What was read last is kept for other processes too. It only
// reads; it reaches no network, and uses no secret, that the operator's policy
// does not give to the partition. The pipeline in package prodspec opens them.
package fetch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/ground/outputs"
	"lehr.dev/internal/prodspec/source"
)

// State is what a source held at one time, all of it.
type State struct {
	// QueryDigest is what it is an answer to.
	QueryDigest string `json:"asked"`
	// Revision names it for people; empty: by its content.
	Revision string        `json:"revision,omitempty"`
	Commit   intent.Commit `json:"commit,omitzero"`
	Warning  string        `json:"warning,omitempty"`
	// Files in the order of their paths.
	Files []source.File `json:"files"`
	// Contents by path; nil: they are in the mirror, by Objects.
	Contents map[string][]byte `json:"contents,omitempty"`
	Objects  map[string]string `json:"objects,omitempty"`
	// Marks let the next look ask only for what changed since.
	Marks map[string]string `json:"marks,omitempty"`
}

// fetcher reads one source.
type fetcher interface {
	// fetch returns what the source holds: last, when that is it still. Last may
	// be nil. Unavailable and Invalid say why nothing may be concluded.
	fetch(ctx context.Context, last *State) (*State, error)
	// content reads a file of a state without Contents.
	content(ctx context.Context, state *State, file source.File) ([]byte, error)
	// hasContent reports whether content can be read of a state without Contents.
	hasContent(ctx context.Context, state *State) bool
	close()
}

// Keeper keeps what was read last across restarts, and for other replicas.
type Keeper interface {
	// Load is NotFound when nothing is kept.
	Load(ctx context.Context, name string) ([]byte, error)
	// Save keeps it; nil: no longer.
	Save(ctx context.Context, name string, state []byte) error
}

// Mode says how a source is looked at.
type Mode uint8

const (
	// Polled: now and then, beside whoever reads it.
	Polled Mode = iota
	// Once: when it is read.
	Once
	// Offline: never; it is as it was kept.
	Offline
)

// Options of the sources of one partition.
type Options struct {
	Partition intent.PartitionID
	// Folder is where mirrors of this machine lie.
	Folder string
	// Policy in force; nil: nothing is allowed that needs it.
	Policy  func() *Policy
	Keep    Keeper
	Runtime loop.Runtime
	Mode    Mode
	// Wake is called when a source was read anew, or began to fail; nil: nobody
	// waits.
	Wake func()
	// Documents reads those that a store holds; nil: there is none here.
	Documents func(ctx context.Context, partition intent.PartitionID, name string) (document.Document, error)
	// KeepVersions are the names of versions that no limit of a source leaves out: what is
	// deployed, pinned or approved. Nil: none.
	KeepVersions func(ctx context.Context, partition intent.PartitionID, source string) ([]string, error)
	// Outputs reads what a partition tells and grants to another one; NotFound: there is no
	// such partition. Nil: nobody is asked here.
	Outputs func(ctx context.Context, other, reader intent.PartitionID) (outputs.Offer, error)
	// DocumentAt reads one as of a revision, to tell who changed what; nil: nobody
	// asks.
	DocumentAt func(ctx context.Context, partition intent.PartitionID, name, revision string) (document.Document, error)
	// Failing is since when sources failed when their partition was last acted
	// for, by name.
	Failing map[string]intent.Failing
	// Edits are made to files of repositories as they are read, as if they were committed. Then nothing may be kept.
	Edits []FileEdit
	// Within are the folders of this machine below one of which files and
	// repositories must lie, as they are now; nil, or a nil answer: anywhere.
	Within func() []string
}

// Folders are those that Within gives.
func (o Options) Folders() []string {
	if o.Within == nil {
		return nil
	}
	return o.Within()
}

func (o Options) guard() guard {
	return guard{partition: o.Partition, policy: o.policy, allowedFolders: o.Folders}
}

func (o Options) policy() *Policy {
	if o.Policy == nil {
		return &Policy{}
	}
	if policy := o.Policy(); policy != nil {
		return policy
	}
	return &Policy{}
}

// Open names a source. Path is where its files are said to lie. It does no I/O.
func Open(o Options, name, path string, remote source.Remote, files []string, limits source.Limits) (*Folder, error) {
	if err := remote.Check(); err != nil {
		return nil, err
	}
	var patterns source.Patterns
	if remote.Packed == nil || len(files) > 0 { // All of what was packed is meant, if nothing is said.
		var err error
		if patterns, err = source.ParsePatterns(path, files); err != nil {
			return nil, err
		}
	}
	g := o.guard()
	f := newFolder(o, name, path, queryDigest(remote, files), patterns, limits)
	f.every = remote.Every
	switch {
	case remote.Document != "":
		// It is read whenever sources are: whoever holds it tells of its changes.
		f.fetcher = &stored{name: remote.Document, options: o}
		return f, nil
	case remote.Outputs != "":
		// Whoever builds the partition watches the other one.
		f.fetcher = &granted{partition: remote.Outputs, options: o}
		return f, nil
	case remote.Git != nil:
		repository := o.repositoryOf(*remote.Git)
		f.fetcher = &tree{repository: repository, branch: remote.Git.Branch, at: repository.update, directory: remote.Git.Directory, patterns: patterns, limits: limits}
	case remote.HTTP != nil:
		f.fetcher = &web{remote: *remote.HTTP, guard: g, limits: limits}
	case remote.SQL != nil:
		if remote.SQL.Empty {
			f.patterns = nil // No file is an answer too.
		}
		f.fetcher = &table{remote: *remote.SQL, guard: g, limits: limits}
	case remote.Packed != nil:
		f.fetcher = newPacked(*remote.Packed, o.Folder, patterns, g)
	default:
		f.fetcher = newVersions(*remote.Versions, name, o, limits)
		if remote.Versions.Pushed != "" {
			return f, nil // As of a document, whoever holds it tells of its changes.
		}
	}
	if f.every == 0 {
		f.every = source.EveryByDefault
	}
	return f, nil
}

// queryDigest is what a state is an answer to, in words that are compared only. How
// one logs in to ask is no part of it.
func queryDigest(remote source.Remote, files []string) string {
	remote = remote.Bare()
	text, err := json.Marshal(struct {
		Remote source.Remote
		Files  []string
	}{remote, files})
	if err != nil {
		panic(err) // Texts can be encoded.
	}
	return intent.Sum("lehr.asked.v1", text).String()
}

// patience is how long one look may take. The first look at a repository reads
// all of it.
const (
	patience    = time.Minute
	gitPatience = 10 * time.Minute
)

// unreadable is the error of a source that may be read again soon.
func unreadable(subject string, err error) *fault.Error {
	return fault.New(fault.Unavailable, "%s cannot be read: %w", subject, err).
		WithHint("it is tried again; what was read last stays in use, and nothing is taken for empty")
}

// tooLarge is the error of more than is read.
func tooLarge(subject string, most int64) *fault.Error {
	return fault.New(fault.Invalid, "%s has more than %d bytes, which is the most that is read", subject, most).
		WithHint("split it, or ask for less of it").WithCause(errTooLarge)
}

// tooLargeBy is tooLarge of what says how large it is.
func tooLargeBy(subject string, bytes, most int64) error {
	return fault.New(fault.Invalid, "%s has %d bytes, and at most %d are read", subject, bytes, most).
		WithHint("split it, or ask for less of it").WithCause(errTooLarge)
}

// errTooLarge is the cause of what has more bytes than are read.
var errTooLarge = errors.New("it is too large")

// one makes a state of contents by path.
func newState(contents map[string][]byte) *State {
	state := &State{Contents: contents}
	for _, path := range sorted(contents) {
		content := contents[path]
		state.Files = append(state.Files, source.File{Path: path, Digest: source.Digest(content), Size: int64(len(content))})
	}
	return state
}

// snapshot is the state as readers of folders know it.
func (s *State) snapshot() *source.Snapshot {
	return &source.Snapshot{
		Revision: source.Revision(s.Files), Files: s.Files, Name: s.Revision, Commit: s.Commit, Warning: s.Warning,
		Hosts: strings.Fields(s.Marks[markHosts]),
	}
}

// inMemory is what a fetcher embeds whose states have their contents.
type inMemory struct{}

func (inMemory) content(_ context.Context, _ *State, file source.File) ([]byte, error) {
	return nil, fault.New(fault.Internal, "the content of %s was not kept", file.Path)
}
func (inMemory) hasContent(context.Context, *State) bool { return false }
func (inMemory) close()                                  {}

func quoted(text string) string { return fmt.Sprintf("%.300q", text) }
