package source_test

import (
	"net/url"
	"path"
	"strings"
	"testing"

	"lehr.dev/internal/prodspec/source"
)

// FuzzDefinitionPlace: what is taken for a place in a repository is an address
// that git takes for no option and no program, without a password, and a file
// inside.
func FuzzDefinitionPlace(f *testing.F) {
	for _, seed := range []string{
		"/a/lehr.yaml", "https://h/a.git//b/lehr.yaml?ref=main&token=env:A", "ssh://git@h:22/a//b.yml?key=/k", "file:///a//b.yaml", "git@h:a//b.yaml",
		"ext::sh//a.yaml", "https://-h/a//b.yaml", "https://u:p@h/a//b.yaml", "https://h//../../a.yaml", "https://h/a//b.yaml?ref=-x", "https://h/\x00//b.yaml",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		place, err := source.ParseDefinition(text)
		if err != nil {
			return
		}
		if !path.IsAbs(place.Path) {
			t.Fatalf("%q is at %q", text, place.Path)
		}
		if place.Git == nil {
			return
		}
		if place.Path != path.Clean(place.Path) || strings.HasPrefix(place.Git.Branch, "-") || strings.ContainsAny(place.Git.Branch, ":+ \n") {
			t.Fatalf("%q: %+v", text, place)
		}
		if path.IsAbs(place.Git.URL) {
			return
		}
		parsed, err := url.Parse(place.Git.URL)
		if err != nil || parsed.Scheme != "https" && parsed.Scheme != "http" && parsed.Scheme != "ssh" || strings.HasPrefix(parsed.Host, "-") {
			t.Fatalf("%q is %q: %v", text, place.Git.URL, err)
		}
		if _, ok := parsed.User.Password(); ok {
			t.Fatalf("%q has a password", text)
		}
	})
}
