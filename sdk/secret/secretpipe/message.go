package secretpipe

import (
	"errors"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/sdk/secret"
)

// Protocol is the version of the messages. The plugin's package names it when it starts
// the program, for the two may be of different Lehrs.
const Protocol = 1

// question is what the plugin's package asks. Exactly one of the pointers is set.
type question struct {
	// ID ties answers to it. The plugin's package never uses one twice.
	ID      uint64   `json:"id"`
	Resolve *resolve `json:"resolve"`
	// Digest asks for the digest that the body would have as a value.
	Digest *naming `json:"digest"`
	// Redact has the length of each text of the body, in which known secrets are
	// replaced.
	Redact *[]int `json:"redact"`
	// Document is the answer to needsDocument of the question with this ID; the body is
	// the document.
	Document *document `json:"document"`
	// Ended is a push of which nothing is asked any more. It has no answer.
	Ended *string `json:"ended"`
}

// naming is a reference with who names it.
type naming struct {
	// Ref is a lehr.intent.v1.SecretRef in its binary form.
	Ref       []byte `json:"ref"`
	Partition string `json:"partition"`
	Asset     string `json:"asset"`
}

type resolve struct {
	naming
	// Push is a name that the plugin's package made for one push; empty: a look.
	Push string `json:"push"`
}

type document struct {
	// Failure says why there is none; empty: the body is it.
	Failure string `json:"failure"`
}

// answer is what is said of a question. The body is the value of a resolve, and the
// texts of a redact.
type answer struct {
	ID uint64 `json:"id"`
	// Digest of a value, in hex, and the words that stand for it in a plan.
	Digest string `json:"digest,omitempty"`
	Words  string `json:"words,omitempty"`
	// Rotated lists the secrets that have another value than at the last look, of a push.
	Rotated []string `json:"rotated,omitempty"`
	// Redacted has the length of each text of the body.
	Redacted []int `json:"redacted,omitempty"`
	// NeedsDocument is a blob that the plugin's package fetches; another answer follows.
	NeedsDocument *blob    `json:"needs_document,omitempty"`
	Failure       *failure `json:"failure,omitempty"`
}

type blob struct {
	URI    string `json:"uri"`
	SHA256 []byte `json:"sha256"`
}

// failure says that a question has no other answer. Reason is for people.
type failure struct {
	Kind   kind   `json:"kind"`
	Reason string `json:"reason"`
}

// kind of a failure, for programs: what Resolver.Resolve tells by errors.
type kind string

const (
	denied      kind = "denied"
	notFound    kind = "not_found"
	invalid     kind = "invalid"
	unavailable kind = "unavailable"
	internal    kind = "internal"
	rotated     kind = "rotated"
)

var kinds = map[fault.Kind]kind{fault.Denied: denied, fault.NotFound: notFound, fault.Invalid: invalid, fault.Unavailable: unavailable}

func failureOf(err error) *failure {
	if errors.Is(err, secret.ErrRotated) {
		return &failure{rotated, err.Error()}
	}
	if known, ok := kinds[fault.KindOf(err)]; ok {
		return &failure{known, err.Error()}
	}
	return &failure{internal, err.Error()}
}
