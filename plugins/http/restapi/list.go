package restapi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"lehr.dev/plugins/http/endpoint"
	"lehr.dev/plugins/http/jsonvalue"
	"lehr.dev/plugins/http/profile"
)

const (
	// readings is how often a list is read whose pages change meanwhile.
	readings = 4
	// mostItems of a list.
	mostItems = 100_000
)

// errMoved says that pages of a list do not belong to one state of it.
var errMoved = errors.New("it changed while it was read")

// Item of a list.
type Item struct {
	Identity map[string]string
	raw      any
	answer   endpoint.Answer
}

// listing is a list that is read once.
type listing struct {
	once  sync.Once
	items []Item
	err   error
}

// List reads all things of a kind. given has what the request asks for, such as the
// owner of repositories. A list of several pages is read until two readings in a row
// agree: otherwise what moved from one page to another would be missing.
func (a *API) List(ctx context.Context, name string, resource *profile.Resource, given map[string]string) ([]Item, error) {
	thing := Thing{Name: name, Resource: resource, Identity: given}
	if resource.List == nil {
		return nil, fmt.Errorf("the profile does not say how a list of %s is read", name)
	}
	path, query, err := resource.List.Request.Fill(thing.value(nil))
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", name, err)
	}
	a.mutex.Lock()
	key := name + " " + path + "?" + query
	if a.lists[key] == nil {
		a.lists[key] = &listing{}
	}
	list := a.lists[key]
	a.mutex.Unlock()
	list.once.Do(func() {
		list.items, list.err = a.agree(ctx, thing, path, query)
		if list.err != nil {
			list.err = fmt.Errorf("listing %s: %w", name, list.err)
		}
	})
	return list.items, list.err
}

// agree reads a list until it can be believed.
func (a *API) agree(ctx context.Context, thing Thing, path, query string) ([]Item, error) {
	var before []Item
	ok := false
	for range readings {
		items, requests, err := a.readList(ctx, thing, path, query)
		switch {
		case errors.Is(err, errMoved):
			ok = false
			continue
		case err != nil:
			return nil, err
		case requests == 1, ok && sameItems(before, items):
			return items, nil
		}
		before, ok = items, true
	}
	return nil, fmt.Errorf("%w, %d times: nothing is known of what it has", errMoved, readings)
}

func sameItems(a, b []Item) bool {
	return slices.EqualFunc(a, b, func(a, b Item) bool { return maps.Equal(a.Identity, b.Identity) })
}

// readList reads all pages once. What one request answers belongs together.
func (a *API) readList(ctx context.Context, thing Thing, path, query string) (items []Item, requests int, err error) {
	list := thing.Resource.List
	total, seen := "", map[string]bool{}
	at := position{path: path, query: query}
	if list.Page != nil {
		at.number = list.Page.First
		at.query = withParameter(query, list.Page.Parameter, strconv.Itoa(at.number))
	}
	for {
		answer, page, err := a.page(ctx, thing, at)
		if err != nil {
			return nil, 0, err
		}
		if list.Total != nil {
			text, ok := textAt(list.Total.Parts, page.value)
			switch {
			case !ok:
				return nil, 0, fmt.Errorf("a page has no total at %s", list.Total)
			case total != "" && total != text:
				return nil, 0, errMoved
			}
			total = text
		}
		requests++
		for _, raw := range page.items {
			key := jsonvalue.Canonical(raw)
			if seen[key] {
				return nil, 0, errMoved // An item came again on the next page.
			}
			seen[key] = true
			item, err := thing.item(raw, answer)
			if err != nil {
				return nil, 0, err
			}
			items = append(items, item)
		}
		next, ok, err := a.next(list, at, page, answer)
		switch {
		case err != nil:
			return nil, 0, err
		case !ok && total != "" && total != strconv.Itoa(len(items)):
			return nil, 0, errMoved
		case !ok:
			return items, requests, nil
		}
		at = next
		if at.count >= list.MostPages || len(items) > mostItems {
			return nil, 0, fmt.Errorf("it has more than %d pages or %d items: narrow the request, or raise most_pages in the profile", list.MostPages, mostItems)
		}
	}
}

// position is where in a list the next page is.
type position struct {
	path, query string
	// number of the page in its parameter; count of pages before it.
	number, count int
}

type page struct {
	value any
	items []any
}

// page reads one, and refuses part of one.
func (a *API) page(ctx context.Context, thing Thing, at position) (endpoint.Answer, page, error) {
	list := thing.Resource.List
	answer, err := a.get(ctx, at.path, at.query)
	if err != nil {
		return answer, page{}, err
	}
	what := fmt.Sprintf("page %d", at.count+1)
	value, err := a.judge(what, answer)
	if err != nil {
		return answer, page{}, err
	}
	if answer.Status != 200 {
		return answer, page{}, fmt.Errorf("%s: the API answers %d, which is not a whole page", what, answer.Status)
	}
	if list.Incomplete != nil {
		if part, _ := list.Incomplete.Parts.Get(value); part == true {
			return answer, page{}, fmt.Errorf("%s says at %s that it is not complete", what, list.Incomplete)
		}
	}
	part, ok := list.Items.Parts.Get(value)
	items, isList := part.([]any)
	if !ok || !isList {
		return answer, page{}, fmt.Errorf("%s has no list at %q, where the profile says that items are", what, list.Items)
	}
	return answer, page{value, items}, nil
}

// next is where the page after this one is; not ok: this was the last.
func (a *API) next(list *profile.List, at position, current page, answer endpoint.Answer) (next position, ok bool, err error) {
	next = at
	next.count++
	switch {
	case list.Page != nil:
		if len(current.items) == 0 || list.Page.Size > 0 && len(current.items) < list.Page.Size {
			return next, false, nil
		}
		next.number++
		next.query = withParameter(at.query, list.Page.Parameter, strconv.Itoa(next.number))
		return next, true, nil
	case list.Cursor != nil:
		cursor, _ := textAt(list.Cursor.At.Parts, current.value)
		if cursor == "" {
			return next, false, nil
		}
		next.query = withParameter(at.query, list.Cursor.Parameter, cursor)
		if next.query == at.query {
			return next, false, fmt.Errorf("a page names itself as the next one")
		}
		return next, true, nil
	case list.Link:
		return a.follow(next, answer)
	}
	return next, false, nil
}

// follow takes the next page from the header Link. It leads to the same API only.
func (a *API) follow(next position, answer endpoint.Answer) (position, bool, error) {
	target := nextLink(answer.Header.Values("Link"))
	if target == "" {
		return next, false, nil
	}
	base := a.endpoint.URL
	here, err := base.Parse(base.EscapedPath() + next.path)
	if err != nil {
		return next, false, err
	}
	there, err := here.Parse(target)
	if err != nil {
		return next, false, fmt.Errorf("the next page %.100q is no URL: %w", target, err)
	}
	path, ok := strings.CutPrefix(there.EscapedPath(), base.EscapedPath())
	if there.Scheme != base.Scheme || !strings.EqualFold(there.Host, base.Host) || !ok || there.User != nil || !strings.HasPrefix(path, "/") {
		return next, false, fmt.Errorf("the next page leads to %s, elsewhere than the API: it is not followed", there.Host)
	}
	if path == next.path && there.RawQuery == next.query {
		return next, false, fmt.Errorf("a page names itself as the next one")
	}
	next.path, next.query = path, there.RawQuery
	return next, true, nil
}

// nextLink finds the target with rel="next" (RFC 8288).
func nextLink(headers []string) string {
	for _, header := range headers {
		for header != "" {
			_, rest, ok := strings.Cut(header, "<")
			if !ok {
				break
			}
			target, parameters, ok := strings.Cut(rest, ">")
			if !ok {
				break
			}
			parameters, header, _ = strings.Cut(parameters, "<")
			for parameter := range strings.SplitSeq(strings.TrimRight(strings.TrimSpace(parameters), ","), ";") {
				name, value, _ := strings.Cut(strings.TrimSpace(parameter), "=")
				if strings.EqualFold(name, "rel") && slices.Contains(strings.Fields(strings.Trim(value, `"`)), "next") {
					return target
				}
			}
			if header != "" {
				header = "<" + header
			}
		}
	}
	return ""
}

// withParameter sets one parameter of a query, and leaves the order of the others.
func withParameter(query, name, value string) string {
	var kept []string
	for part := range strings.SplitSeq(query, "&") {
		if key, _, _ := strings.Cut(part, "="); part != "" && key != url.QueryEscape(name) {
			kept = append(kept, part)
		}
	}
	return strings.Join(append(kept, url.QueryEscape(name)+"="+url.QueryEscape(value)), "&")
}

// item finds what identifies an item of a list.
func (t Thing) item(raw any, answer endpoint.Answer) (Item, error) {
	item := Item{Identity: map[string]string{}, raw: raw, answer: answer}
	for name, place := range t.Resource.Identity {
		if other, ok := t.Resource.List.Identity[name]; ok {
			place = other
		}
		text, ok := textAt(place.Parts, raw)
		if len(place.Parts) == 0 {
			text, ok = t.Identity[name], t.Identity[name] != ""
		}
		if !ok {
			return item, fmt.Errorf("an item has no %s at %q: the profile says that it is there", name, place)
		}
		item.Identity[name] = text
	}
	return item, nil
}

// Open reads the thing that an item stands for.
func (a *API) Open(ctx context.Context, name string, resource *profile.Resource, item Item) (Found, error) {
	thing := Thing{Name: name, Resource: resource, Identity: item.Identity}
	if resource.List.Complete {
		return thing.found("reading "+thing.String(), item.raw, item.answer)
	}
	return a.Read(ctx, thing)
}

// search finds a thing in the list of its kind. Two that bear its identity are no answer.
func (a *API) search(ctx context.Context, thing Thing) (Found, error) {
	items, err := a.List(ctx, thing.Name, thing.Resource, thing.Identity)
	if err != nil {
		return Found{}, err
	}
	var matching []Item
	for _, item := range items {
		if maps.Equal(item.Identity, thing.Identity) {
			matching = append(matching, item)
		}
	}
	switch len(matching) {
	case 0:
		return Found{Base: absentBase}, nil
	case 1:
		return thing.found("finding "+thing.String(), matching[0].raw, matching[0].answer)
	}
	return Found{}, fmt.Errorf("finding %s: %d things bear this identity: remove or rename all but one", thing, len(matching))
}
