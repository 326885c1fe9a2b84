// Package restapi does with an API what its profile says: reads and lists things, and
// writes them. It takes nothing for absent but the answers that the profile names, and
// believes no write. The plugin and "lehr import http" call it.
package restapi

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"lehr.dev/plugins/http/endpoint"
	"lehr.dev/plugins/http/jsonvalue"
	"lehr.dev/plugins/http/profile"
	"lehr.dev/sdk/secret"
	"lehr.dev/sdk/serve"
)

// API is an endpoint for the time of one look: a list is read once for all things that
// are found in it.
type API struct {
	endpoint *endpoint.Endpoint
	secrets  secret.Request

	mutex sync.Mutex
	lists map[string]*listing
}

// New returns an API that remembers no list. secrets says on whose behalf those of the
// endpoint are read.
func New(e *endpoint.Endpoint, secrets secret.Request) *API {
	return &API{endpoint: e, secrets: secrets, lists: map[string]*listing{}}
}

// Thing is what somebody asks about.
type Thing struct {
	// Name of the resource, for people.
	Name     string
	Resource *profile.Resource
	Identity map[string]string
}

func (t Thing) String() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(t.Identity)) {
		parts = append(parts, name+"="+t.Identity[name])
	}
	return t.Name + " " + strings.Join(parts, ",")
}

// CheckIdentity refuses an identity that the resource does not have, or lacks.
func (t Thing) CheckIdentity() error {
	want := slices.Sorted(maps.Keys(t.Resource.Identity))
	if have := slices.Sorted(maps.Keys(t.Identity)); !slices.Equal(have, want) {
		return fmt.Errorf("a %s is identified by %s, and identity has %s", t.Name, strings.Join(want, ", "), strings.Join(have, ", "))
	}
	return nil
}

// Found is what an API tells of a thing.
type Found struct {
	// Exists: it is there. All below is empty otherwise.
	Exists bool
	// Raw is the thing as the API tells it, Body as intent would have it: fields at
	// their places in a body, without those that the API writes.
	Raw  any
	Body map[string]any
	// Base changes when the thing does.
	Base string
	// ETag and Version are what a write is compared with; "" and nil without one.
	ETag    string
	Version any
	// Redact removes the operator's secrets from what is shown. Never nil when it exists.
	Redact func(string) string
}

// absentBase is the base of what is not there.
const absentBase = "absent"

// Refusal is an answer that is neither the thing nor says that it is absent.
type Refusal struct {
	Status int
	Text   string
	// Conflict: production moved, and nothing was changed.
	Conflict bool
}

func (r *Refusal) Error() string { return r.Text }

// IsUncertain reports whether a write that ended with the error may have taken effect, or
// may yet.
func IsUncertain(err error) bool {
	refusal, ok := errors.AsType[*Refusal](err)
	_, unanswered := errors.AsType[*endpoint.NoAnswerError](err)
	return unanswered || ok && (refusal.Status >= 500 || refusal.Status < 300)
}

// maxWords is how much of an answer is told in a reason.
const maxWords = 300

// words are what an API says of an error.
func (a *API) words(answer endpoint.Answer, value any) string {
	text, ok := "", false
	if place := a.endpoint.Profile.Message.Parts; len(place) > 0 {
		part, _ := place.Get(value)
		text, ok = part.(string)
	}
	if !ok {
		text = string(answer.Body)
	}
	text = strings.ToValidUTF8(strings.Join(strings.Fields(answer.Redact(text)), " "), "?")
	if len(text) > maxWords {
		cut := maxWords
		for !utf8.RuneStart(text[cut]) {
			cut--
		}
		text = text[:cut] + "…"
	}
	if text == "" {
		return "without a word"
	}
	return text
}

// judge returns the JSON of a successful answer. What the profile calls an error is one,
// whatever its status.
func (a *API) judge(what string, answer endpoint.Answer) (any, error) {
	value, err := jsonvalue.Parse(answer.Body)
	if err == nil {
		for _, place := range a.endpoint.Profile.Errors {
			if part, ok := place.Parts.Get(value); ok && !isNothing(part) {
				return nil, &Refusal{Status: answer.Status, Text: fmt.Sprintf("%s: the API answers %d with an error in %s: %s", what, answer.Status, place, a.words(answer, value))}
			}
		}
	}
	if answer.Status < 200 || answer.Status > 299 {
		return nil, &Refusal{Status: answer.Status, Text: fmt.Sprintf("%s: the API answers %d: %s", what, answer.Status, a.words(answer, value))}
	}
	if err != nil {
		return nil, &endpoint.NoAnswerError{Err: fmt.Errorf("%s: the API answers %d with what is no JSON: %w", what, answer.Status, err)}
	}
	return value, nil
}

func isNothing(value any) bool {
	switch value := value.(type) {
	case nil:
		return true
	case bool:
		return !value
	case string:
		return value == ""
	case []any:
		return len(value) == 0
	}
	return false
}

// get sends a read, again where it failed on its way or the API stumbled.
func (a *API) get(ctx context.Context, path, query string) (answer endpoint.Answer, err error) {
	for attempt := 0; ; attempt++ {
		answer, err = a.endpoint.Do(ctx, endpoint.Call{Method: "GET", Path: path, Query: query, Secrets: a.secrets})
		_, isBusy := serve.BusyPause(err)
		stumbled := err == nil && (answer.Status == 500 || answer.Status == 502 || answer.Status == 504)
		if attempt >= *a.endpoint.Profile.Retries || isBusy || ctx.Err() != nil || err == nil && !stumbled || errors.Is(err, endpoint.ErrNotListed) {
			return answer, err
		}
		if err := pause(ctx, retryPause<<attempt); err != nil {
			return answer, err
		}
	}
}

const retryPause = 100 * time.Millisecond

func pause(ctx context.Context, length time.Duration) error {
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Read reads a thing anew, or finds it in a list that this API has read. An error says
// that nothing is known of it.
func (a *API) Read(ctx context.Context, thing Thing) (Found, error) {
	if thing.Resource.Read == nil {
		return a.search(ctx, thing)
	}
	what := "reading " + thing.String()
	path, query, err := thing.Resource.Read.Request.Fill(thing.value(nil))
	if err != nil {
		return Found{}, fmt.Errorf("%s: %w", what, err)
	}
	answer, err := a.get(ctx, path, query)
	if err != nil {
		return Found{}, fmt.Errorf("%s: %w", what, err)
	}
	if isAbsent(thing.Resource.Read.Absent, answer) {
		return Found{Base: absentBase}, nil
	}
	value, err := a.judge(what, answer)
	switch {
	case err != nil:
		return Found{}, err
	case answer.Status != 200:
		return Found{}, &Refusal{Status: answer.Status, Text: fmt.Sprintf("%s: the API answers %d, which is not the whole thing", what, answer.Status)}
	}
	raw, ok := thing.Resource.Read.Object.Parts.Get(value)
	if !ok {
		return Found{}, fmt.Errorf("%s: the answer has nothing at %s, where the profile says that the thing is", what, thing.Resource.Read.Object)
	}
	return thing.found(what, raw, answer)
}

// isAbsent reports whether an answer is one of those that say that nothing is there: by
// its status and by JSON of the API's own, so that no proxy or page of errors says so.
func isAbsent(all []profile.Absent, answer endpoint.Answer) bool {
	object, err := jsonvalue.Object(answer.Body)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(all, func(absent profile.Absent) bool {
		if absent.Status != answer.Status || absent.At == nil {
			return absent.Status == answer.Status
		}
		value, ok := absent.At.Parts.Get(object)
		text, isText := value.(string)
		return ok && (absent.Is == "" || isText && text == absent.Is)
	})
}

// value fills requests: names are the identity's, places those of what was read.
func (t Thing) value(raw any) func(string) (string, error) {
	return func(name string) (string, error) {
		if text, ok := t.Identity[name]; ok {
			return text, nil
		}
		place, err := jsonvalue.ParsePointer(name)
		if err != nil {
			return "", fmt.Errorf("which %s? name it: %s=…", name, name)
		}
		value, ok := place.Get(raw)
		switch found := value.(type) {
		case string:
			return found, nil
		case map[string]any, []any, nil, bool:
		default:
			return jsonvalue.Canonical(found), nil
		}
		return "", fmt.Errorf("what was read has no text or number at %s (there: %v)", name, ok)
	}
}

// found makes of what the API tells what intent is compared with.
func (t Thing) found(what string, raw any, answer endpoint.Answer) (Found, error) {
	object, ok := raw.(map[string]any)
	if !ok {
		return Found{}, fmt.Errorf("%s: the API tells %s, not an object", what, jsonvalue.Describe(raw))
	}
	for name, place := range t.Resource.Identity {
		if len(place.Parts) == 0 {
			continue
		}
		if text, ok := textAt(place.Parts, object); !ok || !sameIdentity(text, t.Identity[name]) {
			return Found{}, fmt.Errorf("%s: the API tells of another thing: at %s it has %.100q", what, place, answer.Redact(text))
		}
	}
	found := Found{Exists: true, Raw: object, Body: t.body(object), Redact: answer.Redact}
	return found, t.stamp(what, &found, answer)
}

// sameIdentity leaves aside whether letters are small: an API that finds a thing by its
// name in small letters tells it as it was registered.
func sameIdentity(told, asked string) bool { return strings.EqualFold(told, asked) }

// textAt is a text or number, as an identity has it.
func textAt(place jsonvalue.Pointer, value any) (string, bool) {
	part, ok := place.Get(value)
	switch found := part.(type) {
	case string:
		return found, ok
	case nil, bool, []any, map[string]any:
		return "", false
	default:
		return jsonvalue.Canonical(found), ok
	}
}

// body puts fields to their places in a body, and leaves out those that the API writes.
func (t Thing) body(object map[string]any) map[string]any {
	body := jsonvalue.Clone(object).(map[string]any)
	if len(t.Resource.Fields) > 0 {
		body = map[string]any{}
		for _, text := range slices.Sorted(maps.Keys(t.Resource.Fields)) {
			value, ok := t.Resource.Fields[text].Parts.Get(object)
			place, err := jsonvalue.ParsePointer(text)
			if !ok || err != nil {
				continue
			}
			// Fields of a profile do not lie within each other's texts.
			_ = place.Set(body, jsonvalue.Clone(value))
		}
	}
	t.dropReadOnly(body)
	return body
}

func (t Thing) dropReadOnly(body map[string]any) {
	for _, place := range t.Resource.ReadOnly {
		place.Parts.Delete(body)
	}
}

// stamp finds what a write is compared with.
func (t Thing) stamp(what string, found *Found, answer endpoint.Answer) error {
	compare := t.Resource.Compare
	found.Base = fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(jsonvalue.Canonical(found.Body))))
	if compare == nil {
		return nil
	}
	if compare.At != nil {
		version, ok := compare.At.Parts.Get(found.Raw)
		if !ok || version == nil {
			return fmt.Errorf("%s: the answer has no version at %s, with which a write is to be compared", what, compare.At)
		}
		found.Version, found.Base = version, "version:"+jsonvalue.Canonical(version)
	}
	if !compare.ETag {
		return nil
	}
	etag := answer.Header.Get("ETag")
	if strings.HasPrefix(etag, `"`) { // A weak one is never equal to If-Match.
		found.ETag, found.Base = etag, "etag:"+etag
	} else if compare.Unique {
		return fmt.Errorf("%s: the answer has the ETag %.60q, which no write can be compared with: take unique out of the profile or the list", what, etag)
	}
	return nil
}
