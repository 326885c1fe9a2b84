package prodspec

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"

	"lehr.dev/internal/prodspec/generate"
	"lehr.dev/internal/prodspec/source"
)

// patience is how many builds in a row newer sources may end. The next one
// ends by itself: sources that change all the time are still served, at most
// this many changes and one build after they were read.
const patience = 3

// overtaking ends the build under way when newer sources are told of. What its
// runs gave until then stays in the cache.
type overtaking struct {
	mutex sync.Mutex
	// end of what is under way; nil: nothing is.
	end context.CancelCauseFunc
	// wanted are the files that the sources consist of.
	wanted []wanted
	// total and inRow count the builds that were ended.
	total, inRow int
}

// wanted are files of a folder of this machine.
type wanted struct {
	folder   string
	patterns source.Patterns
}

// begin returns the context of a build, and what ends it.
func (o *overtaking) begin(ctx context.Context) (context.Context, func()) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	ctx, cancel := context.WithCancelCause(ctx)
	o.end = cancel
	if o.inRow >= patience {
		o.end = nil
	}
	return ctx, func() {
		o.mutex.Lock()
		defer o.mutex.Unlock()
		o.end = nil
		cancel(nil)
	}
}

// patient: the build under way is not ended by newer sources.
func (o *overtaking) patient() bool {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.inRow >= patience
}

// overtook reports whether a build ended because of newer sources, and counts it.
func (o *overtaking) overtook(err error) bool {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if !errors.Is(err, generate.ErrOvertaken) {
		o.inRow = 0
		return false
	}
	o.total++
	o.inRow++
	return true
}

// newer sources are there, or may be.
func (o *overtaking) newer() {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if o.end != nil {
		o.end(generate.ErrOvertaken)
	}
}

// changed: a path was told of. A file that no pattern matches makes no newer
// sources; nor does the empty path, of which nothing is known but that all is to
// be looked at again.
func (o *overtaking) changed(path string) {
	o.mutex.Lock()
	list := o.wanted
	o.mutex.Unlock()
	if path != "" && slices.ContainsFunc(list, func(w wanted) bool { return w.matches(path) }) {
		o.newer()
	}
}

func (w wanted) matches(path string) bool {
	rel, err := filepath.Rel(w.folder, path)
	return err == nil && w.patterns.Match(filepath.ToSlash(rel))
}

// want sets of which files it is to be heard.
func (o *overtaking) want(list []wanted) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.wanted = list
}

// wanted are the files of this machine that the sources were last read from.
func (s *sources) wanted() (list []wanted) {
	add := func(folder string, files []string) {
		if patterns, err := source.ParsePatterns(folder, files); err == nil {
			list = append(list, wanted{folder, patterns})
		}
	}
	if s.repository == nil {
		add(s.home, []string{s.file})
	}
	for _, f := range s.folders {
		if _, ok := f.directory.(source.Lasting); !ok {
			add(f.directory.Path(), f.files)
		}
	}
	return list
}
