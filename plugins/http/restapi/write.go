package restapi

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"lehr.dev/plugins/http/bodydiff"
	"lehr.dev/plugins/http/endpoint"
	"lehr.dev/plugins/http/jsonvalue"
	"lehr.dev/plugins/http/profile"
)

// Change is a write that is about to be sent.
type Change struct {
	Thing Thing
	// Ours are the fields of intent; Found what was read just before.
	Ours  map[string]any
	Found Found
	// Push is the idempotency key.
	Push string
	// Begin is asked just before the request is sent; its error ends the write.
	Begin func(ctx context.Context) error
}

// Create makes what is not there.
func (a *API) Create(ctx context.Context, c Change) error {
	write := c.Thing.Resource.Create
	body := bodydiff.Ours(c.Thing.Resource, nil, c.Ours)
	headers := map[string]string{}
	if write.IfNoneMatch {
		headers["If-None-Match"] = "*"
	}
	return a.write(ctx, "creating ", c, write, body, headers)
}

// Update changes what is there. Where the API compares, it does so with what was read.
func (a *API) Update(ctx context.Context, c Change) error {
	write, compare := c.Thing.Resource.Update, c.Thing.Resource.Compare
	body := bodydiff.Ours(c.Thing.Resource, c.Found.Body, c.Ours)
	if write.Send == profile.SendWhole {
		body = bodydiff.Overlay(c.Thing.Resource, c.Found.Body, c.Ours)
	}
	if compare != nil && compare.Send != nil && c.Found.Version != nil {
		if err := compare.Send.Parts.Set(body, c.Found.Version); err != nil {
			return err
		}
	}
	return a.write(ctx, "changing ", c, write, body, ifMatch(c.Found))
}

// Delete removes what is there. What went meanwhile is no error.
func (a *API) Delete(ctx context.Context, c Change) error {
	var body map[string]any
	if compare := c.Thing.Resource.Compare; compare != nil && compare.SendDelete != nil && c.Found.Version != nil {
		body = map[string]any{}
		if err := compare.SendDelete.Parts.Set(body, c.Found.Version); err != nil {
			return err
		}
	}
	return a.write(ctx, "deleting ", c, c.Thing.Resource.Delete, body, ifMatch(c.Found))
}

func ifMatch(found Found) map[string]string {
	if found.ETag == "" {
		return map[string]string{}
	}
	return map[string]string{"If-Match": found.ETag}
}

// write sends one request, once.
func (a *API) write(ctx context.Context, verb string, c Change, write *profile.Write, body map[string]any, headers map[string]string) error {
	what := verb + c.Thing.String()
	path, query, err := write.Request.Fill(c.Thing.value(c.Found.Raw))
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if write.Idempotency != "" && c.Push != "" {
		headers[write.Idempotency] = c.Push
	}
	call := endpoint.Call{Method: write.Request.Method, Path: path, Query: query, Headers: headers, Secrets: a.secrets, Begin: c.Begin}
	if body != nil || len(write.Set) > 0 {
		if body == nil {
			body = map[string]any{}
		}
		if err := c.complete(body, write); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		call.Body = []byte(jsonvalue.Canonical(body))
	}
	answer, err := a.endpoint.Do(ctx, call)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return a.judgeWrite(what, c, write, answer)
}

// complete adds the fields that the profile has for the request.
func (c Change) complete(body map[string]any, write *profile.Write) error {
	for _, text := range slices.Sorted(maps.Keys(write.Defaults)) {
		place, _ := jsonvalue.ParsePointer(text) // The profile was checked.
		if _, ok := place.Get(body); !ok {
			if err := place.Set(body, jsonOf(write.Defaults[text])); err != nil {
				return err
			}
		}
	}
	for _, text := range slices.Sorted(maps.Keys(write.Set)) {
		place, _ := jsonvalue.ParsePointer(text) // The profile was checked.
		value := jsonOf(write.Set[text])
		if template, ok := value.(string); ok {
			value = c.fill(template)
		}
		if err := place.Set(body, value); err != nil {
			return err
		}
	}
	return nil
}

// fill puts the identity into a text.
func (c Change) fill(template string) string {
	for name, value := range c.Thing.Identity {
		template = strings.ReplaceAll(template, "{"+name+"}", value)
	}
	return template
}

// judgeWrite says how a write ended. Its answer need not be JSON.
func (a *API) judgeWrite(what string, c Change, write *profile.Write, answer endpoint.Answer) error {
	if slices.Contains(write.Conflict, answer.Status) {
		value, _ := jsonvalue.Parse(answer.Body)
		return &Refusal{Status: answer.Status, Conflict: true, Text: fmt.Sprintf("%s: the API answers %d: %s", what, answer.Status, a.words(answer, value))}
	}
	read := c.Thing.Resource.Read
	switch {
	case read == nil || !c.Found.Exists || !isAbsent(read.Absent, answer):
	case write == c.Thing.Resource.Delete:
		return nil
	default:
		return &Refusal{Status: answer.Status, Conflict: true, Text: what + ": it went meanwhile"}
	}
	if answer.Status >= 200 && answer.Status < 300 && len(strings.TrimSpace(string(answer.Body))) == 0 {
		return nil
	}
	_, err := a.judge(what, answer)
	if _, ok := err.(*endpoint.NoAnswerError); ok && len(a.endpoint.Profile.Errors) == 0 && !looksCut(answer) {
		return nil // A word such as "OK"; the next look tells what came of it.
	}
	return err
}

// looksCut reports whether an answer begins as JSON does, and is none.
func looksCut(answer endpoint.Answer) bool {
	text := strings.TrimSpace(string(answer.Body))
	return strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[")
}
