// Package trace says what actors tell of how long the steps of one thing took:
// a build, a push. Who is told, package app wires; nobody decides anything by it,
// and where nobody is told it costs nothing. The ids of a trace follow from what it
// is of: they are stored nowhere, and every replica, now or later, finds the same.
package trace

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"
)

// ID names one span, and its trace.
type ID struct {
	Trace [16]byte
	Span  [8]byte
}

// Of is the root of the trace of what has that name, unique in its store, and was
// made at that time: names of another store may be the same. The time counts to the
// millisecond.
func Of(name string, made time.Time) (id ID) {
	sum := sha256.Sum256(fmt.Appendf(nil, "lehr.trace.v1\x00%s\x00%d", name, made.UnixMilli()))
	copy(id.Trace[:], sum[:16])
	copy(id.Span[:], sum[16:24])
	return id
}

// Child is the span of a step, whose name is unique in the trace.
func (id ID) Child(step string) ID {
	sum := sha256.Sum256(append(append(id.Trace[:], id.Span[:]...), step...))
	copy(id.Span[:], sum[:8])
	return id
}

// String is the trace's part, in hexadecimal digits.
func (id ID) String() string { return hex.EncodeToString(id.Trace[:]) }

// Parent is the ID as W3C's traceparent has it.
func (id ID) Parent(sampled bool) string {
	flags := 0
	if sampled {
		flags = 1
	}
	return fmt.Sprintf("00-%x-%x-%02x", id.Trace, id.Span, flags)
}

// Attribute is something that a span tells: Value is a string, a bool, an int, or a
// []string. No payload, no secret, and no words of a plugin or tenant but names.
type Attribute struct {
	Key   string
	Value any
}

// Keys of attributes.
const (
	Partition   = "lehr.partition"
	Asset       = "lehr.asset"
	Type        = "lehr.type"
	Incarnation = "lehr.incarnation"
	Push        = "lehr.push"
	Plan        = "lehr.plan"
	Plugin      = "lehr.plugin"
	Guarantee   = "lehr.guarantee"
	Ending      = "lehr.ending"
	Outcome     = "lehr.outcome"
	Sources     = "lehr.sources"
	Assets      = "lehr.assets"
	Checks      = "lehr.checks"
	Base        = "lehr.base"
)

// Step is a part that is over. Failed: it did not do what it is for.
type Step struct {
	Name       string
	Begin, End time.Time
	Failed     bool
	About      []Attribute
}

// Tracer begins traces. It and its Spans never wait, and are used by many
// goroutines.
type Tracer interface {
	// Begin begins the root with this ID; cause is another trace's, or zero.
	Begin(id, cause ID, name string, at time.Time, about ...Attribute) Span
	// Sampled reports whether it is told of a trace.
	Sampled(id ID) bool
}

// Span is a root that has begun.
type Span interface {
	// Tell adds a step below it.
	Tell(step Step)
	// End ends it, once. What it then tells of is added to what it told before.
	End(at time.Time, failed bool, about ...Attribute)
}
