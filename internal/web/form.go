package web

import (
	"context"
	"crypto/rand"
	"maps"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// newOnce names a form, so that it acts once however often it is sent.
func newOnce() string { return rand.Text() }

// sentForms are forms that were sent lately, so that a double click, or a page that is
// loaded again, acts once.
type sentForms struct {
	mutex sync.Mutex
	forms map[string]*sentForm
}

// sentForm is one that was sent, and what came of it once done is closed.
type sentForm struct {
	at   time.Time
	done chan struct{}
	text string
	err  error
}

const (
	// formPeriod is for how long a form is known that was sent, and maxForms how many are.
	formPeriod = 10 * time.Minute
	maxForms   = 4096
)

// once carries out what a form asks for the first time, and returns what came of it each
// time. A form that was refused may be sent again.
func (s *sentForms) once(name string, carry func() (string, error)) (string, error) {
	s.mutex.Lock()
	if form, sent := s.forms[name]; sent {
		s.mutex.Unlock()
		<-form.done
		return form.text, form.err
	}
	now := time.Now()
	form := &sentForm{at: now, done: make(chan struct{})}
	if s.forms == nil || len(s.forms) >= maxForms {
		s.forms = map[string]*sentForm{}
	}
	maps.DeleteFunc(s.forms, func(_ string, old *sentForm) bool { return now.Sub(old.at) > formPeriod })
	s.forms[name] = form
	s.mutex.Unlock()
	defer close(form.done)
	if form.text, form.err = carry(); form.err != nil {
		s.mutex.Lock()
		delete(s.forms, name)
		s.mutex.Unlock()
	}
	return form.text, form.err
}

// act carries out a form that was sent, and answers with what came of it.
func (s *Site) act(w http.ResponseWriter, r *http.Request) {
	at, err := parseAddress(r.URL)
	var pageData page
	if err == nil {
		pageData, err = s.carry(r.Context(), at, r.PostForm)
	}
	if pageData.Title != "" && err != nil {
		// The form again, with what was entered and why it was refused.
		s.write(w, r, at, pageData, statusOf(err))
		return
	}
	s.answer(w, r, at, pageData, err)
}

// carry carries out a form. With an error it may return the form's page, which says so.
func (s *Site) carry(ctx context.Context, at address, values url.Values) (page, error) {
	action, subject, err := at.act()
	if err != nil {
		return page{}, err
	}
	reader := newReader(s.options.Client)
	reader.viewer = s.viewer(ctx)
	input := formInput{once: values.Get("once"), reason: values.Get("reason"), period: values.Get("for")}
	request, err := readRequest(at, subject, action, values)
	var message string
	if err == nil {
		// A person who closes the page has asked for it nonetheless.
		asked := context.WithoutCancel(ctx)
		message, err = s.sent.once(reader.viewer.FormToken+" "+input.once, func() (string, error) { return action.do(asked, reader, request) })
	}
	if err != nil {
		pageData, failed := actPage(ctx, reader, at, formInput{newOnce(), input.reason, input.period}, err)
		if failed != nil {
			return page{}, err
		}
		return pageData, err
	}
	return donePage(ctx, reader, at, action, subject, message)
}
