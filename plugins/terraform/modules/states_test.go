package modules

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"

	terraformpb "lehr.dev/gen/lehr/terraform/v1"
)

// states keeps one state by HTTP, with a lock that outlives its holder.
type states struct {
	server *httptest.Server

	mutex     sync.Mutex
	content   []byte
	lock      []byte
	isRefused bool
	// isReadOnly: a lock is refused, as where nothing may be written.
	isReadOnly bool
	// password that requests need; empty: none.
	password string
	// stall is closed to let requests go on; nil: they do.
	stall  chan struct{}
	writes int
}

// useServer has the site's state be kept by a server.
func (s *site) useServer() *states {
	s.t.Helper()
	one := &states{}
	one.server = httptest.NewServer(one)
	s.t.Cleanup(one.server.Close)
	s.edit(`backend "local" {}`, `backend "http" {}`)
	delete(s.module.Backend, "path")
	for name, value := range map[string]string{
		"address": one.server.URL, "lock_address": one.server.URL, "unlock_address": one.server.URL, "retry_max": "0",
	} {
		s.module.Backend[name] = &terraformpb.Setting{Source: &terraformpb.Setting_Value{Value: value}}
	}
	return one
}

func (s *states) refuse(isRefused bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.isRefused = isRefused
}

func (s *states) get() []byte {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.content
}

func (s *states) set(content string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.content = []byte(content)
}

func (s *states) leaveLock(lock string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.lock = []byte(lock)
}

func (s *states) setPassword(password string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.password = password
}

func (s *states) setReadOnly(isReadOnly bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.isReadOnly = isReadOnly
}

// slow has requests wait until the function that it returns is called.
func (s *states) slow() (goOn func()) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	stall := make(chan struct{})
	s.stall = stall
	return sync.OnceFunc(func() {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		s.stall = nil
		close(stall)
	})
}

func (s *states) close() { s.server.Close() }

func (s *states) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mutex.Lock()
	stall := s.stall
	s.mutex.Unlock()
	if stall != nil {
		<-stall
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if _, password, _ := r.BasicAuth(); password != s.password {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if s.isReadOnly && r.Method != http.MethodGet {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	switch r.Method {
	case http.MethodGet:
		if s.content == nil {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = w.Write(s.content)
	case http.MethodPost:
		if s.isRefused {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		s.content = body
		s.writes++
	case "LOCK":
		if len(s.lock) > 0 {
			w.WriteHeader(http.StatusLocked)
			_, _ = w.Write(s.lock)
			return
		}
		s.lock = body
	case "UNLOCK":
		s.lock = nil
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}
