package access

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"mime"
	"net/http"
	"net/url"

	"lehr.dev/internal/ground/fault"
)

// A page changes something only by a form that it made itself. A browser adds its cookie to
// whatever it sends here, whoever had it do so, so the cookie alone lets nothing through: the
// form must come from this very origin, and hold a token that is made of the session's
// secret. Only who was let in, and read a page, has one.

const (
	// FormField is the name of the field that holds a form's token.
	FormField = "token"
	// maxForm is how many bytes a form may have.
	maxForm = 64 << 10
)

type formKey struct{}

// FormToken is what a form must hold, in the field FormField, that a page makes for the
// browser that asks; empty: it may make none.
func FormToken(ctx context.Context) string {
	token, _ := ctx.Value(formKey{}).(string)
	return token
}

// AdmitForm gives a request of a session what forms of its pages must hold. A form that
// holds another, or is larger than 64 KiB, is Denied. Session is the secret that the
// browser's cookie holds.
func AdmitForm(w http.ResponseWriter, r *http.Request, session string) (*http.Request, error) {
	token := formToken(session)
	if r.Method == http.MethodPost {
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		if err := r.ParseForm(); err != nil {
			return r, fault.New(fault.Denied, "the form cannot be read: %s", err)
		}
		if !hmac.Equal([]byte(r.PostForm.Get(FormField)), []byte(token)) {
			return r, fault.New(fault.Denied, "this form is of another session: nothing was done; load its page again")
		}
	}
	return r.WithContext(context.WithValue(r.Context(), formKey{}, token)), nil
}

func formToken(session string) string {
	mac := hmac.New(sha256.New, []byte(session))
	mac.Write([]byte("lehr page form"))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// fromOwnPage reports whether a browser says that a page of this origin sent a form. Each
// browser sends Origin with a form.
func fromOwnPage(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" {
		return false
	}
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	own := url.URL{Scheme: scheme, Host: r.Host}
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && kind == "application/x-www-form-urlencoded" && r.Header.Get("Origin") == own.String()
}
