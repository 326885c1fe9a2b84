package intent

import "time"

// Output is a value of the real thing that others need, as its plugin tells it while the
// asset is in sync.
type Output struct {
	Name string
	// Value is canonical JSON.
	Value []byte
}

// OutputProblem says why an output is not taken up as its plugin tells it.
type OutputProblem struct {
	// Name of the output; empty: it is about all of the asset.
	Name string            `json:"name,omitempty"`
	Kind OutputProblemKind `json:"kind"`
	// Reason for people.
	Reason string `json:"reason"`
	// Until is when it is taken up; zero: when something else changes.
	Until time.Time `json:"until,omitzero"`
}

// OutputProblemKind is what is wrong with an output.
type OutputProblemKind string

// Kinds of problems.
const (
	// OutputChanging: it keeps changing, and its next change waits.
	OutputChanging OutputProblemKind = "changing"
	// OutputRefused: it is beyond the limits, or looks like a secret.
	OutputRefused OutputProblemKind = "refused"
	// OutputUnsaved: the document of outputs cannot take it.
	OutputUnsaved OutputProblemKind = "unsaved"
)

// PreviewActor is who writes the documents of previews.
var PreviewActor = Actor{Name: "previews", Origin: ServerOrigin}

// OutputActor is who writes the document of outputs.
var OutputActor = Actor{Name: "outputs", Origin: ServerOrigin}
