package main

import (
	"context"
	"html/template"
	"net/http"
)

// forms are what people see of the provider.
type forms struct {
	storage  *storage
	callback func(ctx context.Context, id string) string
}

var pages = template.Must(template.New("").Parse(`
{{define "login"}}<!doctype html><title>Provider</title>{{.Problem}}
<form method="post" action="/login">
<input type="hidden" name="id" value="{{.ID}}">
<input name="user" autofocus> <input name="password" type="password"> <button>Log in</button>
</form>{{end}}
{{define "device"}}<!doctype html><title>Provider</title>{{.Problem}}
<form method="post" action="/device">
<input name="user_code" value="{{.ID}}">
<input name="user"> <input name="password" type="password"> <button name="deny" value="">Allow</button> <button name="deny" value="yes">Deny</button>
</form>{{end}}
`))

type form struct{ ID, Problem string }

func show(w http.ResponseWriter, name string, f form) {
	if f.Problem != "" {
		w.WriteHeader(http.StatusForbidden)
	}
	_ = pages.ExecuteTemplate(w, name, f)
}

func (f *forms) showLogin(w http.ResponseWriter, r *http.Request) {
	show(w, "login", form{ID: r.FormValue("id")})
}

func (f *forms) login(w http.ResponseWriter, r *http.Request) {
	id := r.FormValue("id")
	who, err := check(r.FormValue("user"), r.FormValue("password"))
	if err == nil {
		err = f.storage.loggedIn(id, who)
	}
	if err != nil {
		show(w, "login", form{id, err.Error()})
		return
	}
	http.Redirect(w, r, f.callback(r.Context(), id), http.StatusFound)
}

func (f *forms) showDevice(w http.ResponseWriter, r *http.Request) {
	show(w, "device", form{ID: r.FormValue("user_code")})
}

func (f *forms) device(w http.ResponseWriter, r *http.Request) {
	code := r.FormValue("user_code")
	who, err := check(r.FormValue("user"), r.FormValue("password"))
	if err == nil {
		err = f.storage.decideDevice(code, who, r.FormValue("deny") != "")
	}
	if err != nil {
		show(w, "device", form{code, err.Error()})
		return
	}
	_, _ = w.Write([]byte("Done: go back to your terminal."))
}
