package profile

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"lehr.dev/plugins/http/jsonvalue"
)

// Pointer is a JSON pointer, as profiles write it.
type Pointer struct{ Parts jsonvalue.Pointer }

// UnmarshalYAML reads "/a/b".
func (p *Pointer) UnmarshalYAML(node *yaml.Node) (err error) {
	var text string
	if err := node.Decode(&text); err != nil {
		return err
	}
	if p.Parts, err = jsonvalue.ParsePointer(text); err != nil {
		return fmt.Errorf("line %d: %w", node.Line, err)
	}
	return nil
}

func (p Pointer) String() string { return p.Parts.String() }

// Duration is a length of time, as profiles write it: 5s.
type Duration struct{ time.Duration }

// UnmarshalYAML reads "5s".
func (d *Duration) UnmarshalYAML(node *yaml.Node) (err error) {
	if d.Duration, err = time.ParseDuration(node.Value); err != nil {
		return fmt.Errorf("line %d: %q is no length of time: write 5s", node.Line, node.Value)
	}
	return nil
}

// Request is a method and a path with a query, such as "GET /folders/{uid}?all=1".
// "{uid}" is what the identity has, "{/id}" what is at that place in what was read.
type Request struct {
	Method string
	path   string
	query  string
	names  []string
}

var (
	placeholder = regexp.MustCompile(`\{([^{}]*)\}`)
	nameOf      = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
)

// UnmarshalYAML reads "METHOD PATH".
func (r *Request) UnmarshalYAML(node *yaml.Node) error {
	fail := func(format string, arguments ...any) error {
		return fmt.Errorf("line %d: the request %q %s: write it as GET /folders/{uid}", node.Line, node.Value, fmt.Sprintf(format, arguments...))
	}
	method, target, ok := strings.Cut(node.Value, " ")
	if !ok || !slices.Contains([]string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}, method) {
		return fail("begins with no method")
	}
	path, query, _ := strings.Cut(target, "?")
	if !strings.HasPrefix(path, "/") || strings.ContainsAny(target, " #\\") || strings.Contains(path, "..") {
		return fail("has no plain path")
	}
	*r = Request{Method: method, path: path, query: query}
	for _, match := range placeholder.FindAllStringSubmatch(target, -1) {
		if !nameOf.MatchString(match[1]) && !strings.HasPrefix(match[1], "/") {
			return fail("has {%s}, which is neither a name nor a place", match[1])
		}
		r.names = append(r.names, match[1])
	}
	if strings.ContainsAny(placeholder.ReplaceAllString(target, ""), "{}") {
		return fail("has a { that does not end")
	}
	return nil
}

// Names are what the request has in braces.
func (r *Request) Names() []string { return r.names }

// Fill puts values into the path and the query, by their names. It refuses a value that
// would lead to another path than the profile has.
func (r *Request) Fill(value func(name string) (string, error)) (path, query string, err error) {
	fill := func(text string, escape func(string) string, plain bool) string {
		return placeholder.ReplaceAllStringFunc(text, func(match string) string {
			name := match[1 : len(match)-1]
			filled, problem := value(name)
			switch {
			case err != nil:
			case problem != nil:
				err = problem
			case filled == "", plain && (filled == "." || filled == ".."):
				err = fmt.Errorf("%s is %q, which is no part of a path", name, filled)
			}
			return escape(filled)
		})
	}
	path, query = fill(r.path, url.PathEscape, true), fill(r.query, url.QueryEscape, false)
	return path, query, err
}
