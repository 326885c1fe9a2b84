package source_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/prodspec/source"
)

func TestPlacesOfDefinitions(t *testing.T) {
	for text, want := range map[string]source.Definition{
		"/srv/shop/lehr.yaml":                                  {Path: "/srv/shop/lehr.yaml"},
		"https://h/shop.git//prod/lehr.yaml?ref=main":          {Path: "/prod/lehr.yaml", Git: &source.Git{URL: "https://h/shop.git", Branch: "main"}},
		"/srv/shop.git//lehr.yaml":                             {Path: "/lehr.yaml", Git: &source.Git{URL: "/srv/shop.git"}},
		"file:///srv/shop.git//../../lehr.yaml":                {Path: "/lehr.yaml", Git: &source.Git{URL: "/srv/shop.git"}},
		"ssh://git@h/shop.git//a.yml?key=/k&known_hosts=/h":    {Path: "/a.yml", Git: &source.Git{URL: "ssh://git@h/shop.git", Key: source.Secret{File: "/k"}, KnownHosts: source.Secret{File: "/h"}}},
		"https://h/x//lehr.yaml?every=1m&user=bot&token=env:T": {Path: "/lehr.yaml", Every: time.Minute, Git: &source.Git{URL: "https://h/x", Login: source.Login{User: "bot", Token: source.Secret{Env: "T"}}}},
	} {
		got, err := source.ParseDefinition(text)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v: %s", text, err, diff)
		}
	}
	for _, text := range []string{
		"lehr.yaml", "https://h/shop.git", "https://user:password@h/x//lehr.yaml", "https://h/x//lehr.star", "https://h/x//lehr.yaml?ref=--upload-pack=x",
		"https://h/x//lehr.yaml?secret=x", "https://h/x//lehr.yaml?every=1ms", "https://h/x//lehr.yaml?token=plain", "ext::sh -c x//lehr.yaml", "ftp://h/x//lehr.yaml", "",
	} {
		if got, err := source.ParseDefinition(text); !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}
