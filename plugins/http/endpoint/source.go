package endpoint

import (
	"fmt"
	"io"
	"sync"
	"time"

	"lehr.dev/internal/ground/files"
)

// Source is the operator's list as its file is now.
type Source struct {
	path    string
	secrets Secrets
	log     io.Writer
	// isGuarded and longest are what the plugin declared when it was started.
	isGuarded bool
	longest   time.Duration

	mutex   sync.Mutex
	list    *List
	stamp   string
	problem string
}

// OpenSource reads the list for the first time. An empty path is an empty list. The secrets of
// headers are read by that. What is wrong with the file later is written to log.
func OpenSource(path string, secrets Secrets, log io.Writer) (*Source, error) {
	s := &Source{path: path, secrets: secrets, log: log, list: &List{}}
	if path == "" {
		return s, nil
	}
	list, err := Open(path, secrets)
	if err != nil {
		return nil, err
	}
	s.list, s.stamp = list, stampOf(path)
	s.isGuarded, s.longest = list.IsGuarded(), list.LongestEffect()
	return s, nil
}

// IsGuarded and LongestEffect are the list's when it was first read.
func (s *Source) IsGuarded() bool              { return s.isGuarded }
func (s *Source) LongestEffect() time.Duration { return s.longest }

// List reads the file again when it has changed. One that is wrong, or that asks for less
// than the plugin declared of itself, changes nothing and is said.
func (s *Source) List() *List {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	stamp := stampOf(s.path)
	if s.path == "" || stamp == s.stamp {
		return s.list
	}
	list, err := Open(s.path, s.secrets)
	switch {
	case err != nil:
	case s.isGuarded && !list.IsGuarded():
		err = fmt.Errorf("%s names things of a lower guarantee class than the plugin declared: start it again", s.path)
	case list.LongestEffect() > s.longest:
		err = fmt.Errorf("%s has a longer timeout than the plugin declared: start it again", s.path)
	}
	if err != nil {
		if err.Error() != s.problem {
			s.problem = err.Error()
			fmt.Fprintln(s.log, "the list of HTTP endpoints stays as it was:", err)
		}
		return s.list
	}
	s.list, s.stamp, s.problem = list, stamp, ""
	return list
}

// stampOf changes when a file does; "" when it cannot be looked at.
func stampOf(path string) string {
	if path == "" {
		return ""
	}
	file, err := files.OpenGiven(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return ""
	}
	return fmt.Sprint(info.ModTime().UnixNano(), " ", info.Size())
}
