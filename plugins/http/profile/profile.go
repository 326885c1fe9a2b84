// Package profile holds what a profile says of a JSON REST API: how a kind of thing is
// read, listed, created, updated and deleted, what identifies it, what says that it is
// absent, and what a write can be compared with. Profiles are YAML; three are ready. The
// package reads and checks them, and sends nothing. Package restapi carries out what
// they say.
package profile

import (
	"time"

	"lehr.dev/plugins/http/jsonvalue"
)

// Profile of an API.
type Profile struct {
	Version string `yaml:"http-profile"`
	// Name for people.
	Name string `yaml:"name"`
	// Headers of each request. They hold no secret.
	Headers map[string]string `yaml:"headers"`
	// Errors are places in an answer whose presence says that it is an error, whatever
	// its status: neither null, false, "" nor an empty list.
	Errors []Pointer `yaml:"errors"`
	// Message is where an error's words are.
	Message Pointer `yaml:"message"`
	// RequestsPerSecond bounds all requests to one endpoint; default 10.
	RequestsPerSecond float64 `yaml:"requests_per_second"`
	// Retries of a read that failed on its way or was answered 500, 502 or 504; default 2.
	Retries *int `yaml:"retries"`
	// Timeout of one request, and how late one that was sent may still take effect;
	// default 5 s, at most 60 s.
	Timeout Duration `yaml:"timeout"`
	Busy    Busy     `yaml:"busy"`
	// Resources by name.
	Resources map[string]*Resource `yaml:"resources"`
}

// Busy says how the API says that it has too much to do. 429, and 503 with Retry-After,
// always do.
type Busy struct {
	// Remaining is a header that says how many requests are left: at 0, 403 is busy too.
	Remaining string `yaml:"remaining"`
	// Reset is a header with the Unix time, by the API's clock, when there are more.
	Reset string `yaml:"reset"`
}

// Resource is a kind of thing.
type Resource struct {
	// Identity is, by name, where the thing itself says what identifies it. "" says
	// that it does not, so that only the path does.
	Identity map[string]Pointer `yaml:"identity"`
	Read     *Read              `yaml:"read"`
	List     *List              `yaml:"list"`
	// Fields are, by their place in the body of intent, where they are in what the API
	// answers ("*" in it: in each element of a list). None: they are at the same places.
	Fields map[string]Pointer `yaml:"fields"`
	// ReadOnly are fields of the body that the API writes: never compared, never sent.
	ReadOnly []Pointer `yaml:"read_only"`
	// Lists are, by the place of a list in the body, the key by which its elements are
	// told apart: elements of other keys are production's. Other lists are a whole.
	Lists map[string]string `yaml:"lists"`
	// Whole are objects that are compared and written as a whole: keys of production
	// that intent does not have are to go.
	Whole []Pointer `yaml:"whole"`
	// Immutable are fields that the API does not change once the thing is there.
	Immutable []Pointer `yaml:"immutable"`
	// Destructive are fields whose change destroys something.
	Destructive []Pointer `yaml:"destructive"`
	// Create, Update, Delete; without one it cannot be done.
	Create *Write `yaml:"create"`
	Update *Write `yaml:"update"`
	Delete *Write `yaml:"delete"`
	// Compare is what a write can be compared with; none: nothing.
	Compare *Compare `yaml:"compare"`
	Health  *Health  `yaml:"health"`
}

// Read reads one thing by its identity.
type Read struct {
	Request Request `yaml:"request"`
	// Object is where in the answer the thing is; "" is the answer itself.
	Object Pointer `yaml:"object"`
	// Absent are the answers that say that nothing is there. All others that are not a
	// success say nothing. There is at least one.
	Absent []Absent `yaml:"absent"`
}

// Absent is an answer that says that nothing is there: the status, with JSON whose
// text at At is Is. Without Is something must be at At; without At any JSON object will do.
type Absent struct {
	Status int      `yaml:"status"`
	At     *Pointer `yaml:"at"`
	Is     string   `yaml:"is"`
}

// List reads all things of a kind.
type List struct {
	Request Request `yaml:"request"`
	// Items is where in a page they are; "" is the page itself.
	Items Pointer `yaml:"items"`
	// Identity is where an item has what identifies it, if not where the thing has it.
	Identity map[string]Pointer `yaml:"identity"`
	// Complete says that an item is the thing with all its fields. Else each is read.
	Complete bool `yaml:"complete"`
	// Total is where a page says how many there are in all.
	Total *Pointer `yaml:"total"`
	// Incomplete is a place at which true says that the page lacks something.
	Incomplete *Pointer `yaml:"incomplete"`
	// Page counts pages in a parameter of the query; Cursor copies one from the
	// answer; Link follows the header Link with rel="next". None: there is one page.
	Page   *Page   `yaml:"page"`
	Cursor *Cursor `yaml:"cursor"`
	Link   bool    `yaml:"link"`
	// MostPages; what has more is refused. Default 100.
	MostPages int `yaml:"most_pages"`
}

// Page is a parameter that counts pages. The page after the last has no items.
type Page struct {
	Parameter string `yaml:"parameter"`
	First     int    `yaml:"first"`
	// Size is how many items a page has that is not the last; 0: the last page is the
	// first that is empty.
	Size int `yaml:"size"`
}

// Cursor is copied from a page into a parameter of the next; absent, null or "" ends it.
type Cursor struct {
	Parameter string  `yaml:"parameter"`
	At        Pointer `yaml:"at"`
}

// Send is what of a thing an update sends.
type Send string

const (
	// SendOurs sends intent's fields only: PATCH, and PUT that leaves others alone.
	SendOurs Send = "ours"
	// SendWhole sends what was read with intent's fields in it: PUT that replaces.
	SendWhole Send = "whole"
)

// Write changes something.
type Write struct {
	Request Request `yaml:"request"`
	// Send of an update; default whole for PUT and POST, ours for PATCH. A creation
	// sends intent's fields.
	Send Send `yaml:"send"`
	// Set are fields that are sent with fixed values, by their places. "{uid}" in a text
	// is the identity's.
	Set map[string]any `yaml:"set"`
	// Defaults are fields that are sent where neither intent nor production has them.
	Defaults map[string]any `yaml:"defaults"`
	// Exclusive says of a creation that the API refuses it when something is there.
	Exclusive bool `yaml:"exclusive"`
	// IfNoneMatch sends If-None-Match: * with a creation; it is exclusive then.
	IfNoneMatch bool `yaml:"if_none_match"`
	// Idempotency is a header in which the push's id is sent, so that a request that
	// comes twice takes effect once.
	Idempotency string `yaml:"idempotency"`
	// Conflict are the statuses that say that production moved; default 409 and 412.
	Conflict []int `yaml:"conflict"`
}

// Compare is what a write is compared with by the API, in the call that changes.
type Compare struct {
	// ETag sends the answer's ETag as If-Match, with updates and deletions.
	ETag bool `yaml:"etag"`
	// At is where the thing has its version, Send where an update's body has it.
	At   *Pointer `yaml:"at"`
	Send *Pointer `yaml:"send"`
	// SendDelete is where the body of a deletion has the version.
	SendDelete *Pointer `yaml:"send_delete"`
	// Unique says that no two states of a thing ever have one version, also when it was
	// removed and made again in between. Digests of content and counters that begin
	// anew are not.
	Unique bool `yaml:"unique"`
}

// Health is where a thing says how it is.
type Health struct {
	At        Pointer  `yaml:"at"`
	Healthy   []string `yaml:"healthy"`
	Unhealthy []string `yaml:"unhealthy"`
	// Reason is where it says why.
	Reason *Pointer `yaml:"reason"`
}

const (
	defaultRate    = 10
	defaultRetries = 2
	defaultTimeout = 5 * time.Second
	maxTimeout     = 60 * time.Second
	defaultPages   = 100
)

// IsGuarded reports whether the API itself keeps each write of the kind that comes late
// from doing harm: class C.
func (r *Resource) IsGuarded() bool {
	compare := r.Compare
	if compare == nil || !compare.Unique || r.Read == nil {
		return false
	}
	updates := r.Update == nil || compare.ETag || compare.Send != nil
	deletes := r.Delete == nil || compare.ETag || compare.SendDelete != nil
	creates := r.Create == nil || r.Create.Exclusive || r.Create.IfNoneMatch
	return updates && deletes && creates
}

// IsReadOnly reports whether a field is one that the API writes.
func (r *Resource) IsReadOnly(place jsonvalue.Pointer) bool { return coveredByAny(r.ReadOnly, place) }

// IsImmutable reports whether the API cannot change a field.
func (r *Resource) IsImmutable(place jsonvalue.Pointer) bool { return coveredByAny(r.Immutable, place) }

// IsDestructive reports whether a change of the field destroys something.
func (r *Resource) IsDestructive(place jsonvalue.Pointer) bool {
	return coveredByAny(r.Destructive, place)
}

// IsWhole reports whether an object is compared as a whole.
func (r *Resource) IsWhole(place jsonvalue.Pointer) bool {
	for _, whole := range r.Whole {
		if len(whole.Parts) == len(place) && whole.Parts.Covers(place) {
			return true
		}
	}
	return false
}

// ListKey is the key by which the elements of the list at a place are told apart; "":
// the list is a whole.
func (r *Resource) ListKey(place jsonvalue.Pointer) string {
	for text, key := range r.Lists {
		pattern, err := jsonvalue.ParsePointer(text)
		if err == nil && len(pattern) == len(place) && pattern.Covers(place) {
			return key
		}
	}
	return ""
}

func coveredByAny(patterns []Pointer, place jsonvalue.Pointer) bool {
	for _, pattern := range patterns {
		if pattern.Parts.Covers(place) {
			return true
		}
	}
	return false
}
