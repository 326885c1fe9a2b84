package source

import (
	"net/url"
	"path"
	"path/filepath"
	"strings"
	"time"

	"lehr.dev/internal/ground/fault"
)

// Definition is where a definition lies.
type Definition struct {
	// Path of the file: on this machine, or in Git, where it begins at the root of
	// the repository.
	Path string
	Git  *Git
	// Every is how long to wait between two looks at the repository; zero: the
	// default.
	Every time.Duration
}

// ParseDefinition reads an absolute path, or the place of a file in a
// repository: REPOSITORY//PATH?ref=BRANCH. The repository is a URL or an
// absolute path; without ref it is what HEAD says.
//
// How often it is looked at may follow, as every=10s, and secrets as references:
// user=NAME&token=env:VARIABLE, or token=file:PATH, key=PATH and known_hosts=PATH.
func ParseDefinition(text string) (Definition, error) {
	refuse := func(format string, arguments ...any) (Definition, error) {
		return Definition{}, fault.New(fault.Invalid, "the definition %.300q "+format, append([]any{text}, arguments...)...).
			WithHint("name a lehr.yaml by its absolute path, or in a repository: https://git.example.com/shop.git//prod/lehr.yaml?ref=main")
	}
	place, query, _ := strings.Cut(text, "?")
	scheme, rest, isURL := strings.Cut(place, "://")
	if !isURL {
		rest = place
	}
	repository, file, hasFile := strings.Cut(rest, "//")
	if !hasFile {
		if !isURL && filepath.IsAbs(text) {
			return Definition{Path: text}, nil
		}
		if isURL {
			return refuse("does not say which file of the repository it is")
		}
		return refuse("is not an absolute path")
	}
	if isURL {
		repository = scheme + "://" + repository
	}
	file = path.Clean("/" + file)
	if ext := path.Ext(file); ext != ".yaml" && ext != ".yml" {
		return refuse("names no .yaml file of the repository")
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return refuse("has a query that cannot be read")
	}
	var every time.Duration
	git := &Git{URL: GitURL(repository, "/"), Branch: values.Get("ref")}
	for key := range values {
		switch value := values.Get(key); key {
		case "ref":
		case "every":
			if every, err = time.ParseDuration(value); err != nil || every < EveryAtLeast {
				return refuse("has an every that is no length of time from %s", EveryAtLeast)
			}
		case "user":
			git.User = value
		case "token":
			kind, location, _ := strings.Cut(value, ":")
			if git.Token = (Secret{Env: location}); kind == "file" {
				git.Token = Secret{File: location}
			} else if kind != "env" {
				return refuse("has a token that is neither env:VARIABLE nor file:PATH")
			}
		case "key":
			git.Key = Secret{File: value}
		case "known_hosts":
			git.KnownHosts = Secret{File: value}
		default:
			return refuse("has a parameter %s that is not known", key)
		}
	}
	return Definition{Path: file, Git: git, Every: every}, Remote{Git: git}.Check()
}
