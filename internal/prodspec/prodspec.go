// Package prodspec says what production should be: it reads a partition's
// sources, runs its generators, has the candidate judged, and publishes it as
// an incarnation, at a cost that follows the change. What fails half-way, is
// rejected or held is kept as a candidate with its findings and never served;
// the last incarnation stays head (S6). It touches nothing in production and
// nothing in the sources. Pipeline is the actor that app runs for each
// partition; Build does the same without a server or a store.
package prodspec

import (
	"context"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/measure"
	"lehr.dev/internal/prodspec/generate"
	"lehr.dev/internal/prodspec/source"
	"lehr.dev/internal/prodspec/source/fetch"
	"lehr.dev/internal/prodspec/validate"
	"lehr.dev/internal/store"
)

// State of a partition's pipeline.
type State string

const (
	// Serving: head is what the sources say now.
	Serving State = "serving"
	// Rejected: the sources say something that must not be served.
	Rejected State = "rejected"
	// Held: a guard or a rule waits for a person's acknowledgement.
	Held State = "held"
	// Unavailable: a source cannot be read, or the build could not end.
	Unavailable State = "unavailable"
)

// Status of the last build.
type Status struct {
	State State     `json:"state"`
	At    time.Time `json:"at"`
	// Took is how long the build took.
	Took time.Duration        `json:"took"`
	Head intent.IncarnationID `json:"head"`
	// Candidate that is not served, if there is one.
	Candidate intent.CandidateID      `json:"candidate,omitzero"`
	Sources   []intent.SourceRevision `json:"sources"`
	Findings  []intent.Finding        `json:"findings,omitempty"`
	// Failing are the sources that cannot be read now. What they held last is
	// still in use.
	Failing []intent.SourceRevision `json:"failing,omitempty"`
	// Executions counts the generator runs since the pipeline started.
	Executions int `json:"executions"`
	// Overtaken counts the builds that newer sources ended, since then.
	Overtaken int `json:"overtaken,omitempty"`
}

// Program is what builds a partition: from which definition, with what.
type Program struct {
	// Definition is the absolute path of lehr.yaml, or its place in a repository
	// (source.ParseDefinition).
	Definition string
	// Partition expected in it; empty: any.
	Partition intent.PartitionID
	Runner    generate.Runner
	Limits    source.Limits
	// Place where sources are kept; nil: the disk.
	Place source.Place
	// Elsewhere says how sources are read that are no folders.
	Elsewhere fetch.Options
	// HasDocument reports whether the partition has a document of Lehr's own, which no
	// definition names and Elsewhere reads; nil: it has those that Elsewhere keeps.
	HasDocument func(ctx context.Context, partition intent.PartitionID, name string) (bool, error)
	// Common is the common policy of the server now; nil: there is none.
	Common func(ctx context.Context) (*intentpb.CommonPolicy, error)
	// Outside asks what rules ask outside; nil: they are held.
	Outside validate.Outside
	// Against is what a Build is compared with and judged by; nil: nothing.
	Against *Against
	// Progress is told of a Build's steps; nil: nobody waits to see them.
	Progress *measure.Progress
}

// Against is a stored incarnation.
type Against struct {
	Store interface {
		store.Snapshots
		validate.History
	}
	// Head of the partition; zero: it has none.
	Head intent.IncarnationID
}

func (p Program) place() source.Place {
	if p.Place == nil {
		return source.Disk{}
	}
	return p.Place
}
