package notify

import (
	"bufio"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"io"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"net/textproto"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"lehr.dev/internal/ground/fault"
)

func policyFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "notifications.yaml")
	if err := os.WriteFile(file, []byte("notifications: v1\n"+text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

const here = "networks: [127.0.0.0/8, \"::1/128\"]\n"

var message = Message{
	ID: "abc-0", Partition: "shop", Name: "all", Status: "firing", Cause: "stop", Title: "[shop] all: <!channel> *x*\r\nBcc: eve@example.com",
	Since: noon, At: noon, Count: 30, Assets: []Mentioned{{Asset: "web", Text: "a <b> & @here\n.\nQUIT", Since: noon}}, Dropped: 2,
}

func TestWebhooks(t *testing.T) {
	type got struct {
		path, id, signature, body string
	}
	var lock sync.Mutex
	var all []got
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		lock.Lock()
		all = append(all, got{r.URL.Path, r.Header.Get(HeaderID), r.Header.Get(HeaderSignature), string(body)})
		lock.Unlock()
		switch r.URL.Path {
		case "/500":
			w.WriteHeader(http.StatusInternalServerError)
		case "/away":
			http.Redirect(w, r, "/hook", http.StatusTemporaryRedirect)
		case "/hang":
			<-r.Context().Done()
			// An answer could still get through while the client closes its connection.
			panic(http.ErrAbortHandler)
		}
	}))
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	t.Setenv("SIGN", "top secret")
	targets := "targets:\n"
	for _, name := range []string{"hook", "500", "away", "hang"} {
		t.Setenv("URL_"+name, server.URL+"/"+name+"?token=hunter2")
		targets += "- {name: '" + name + "', webhook: {env: URL_" + name + "}, sign: {env: SIGN}, partitions: [shop]}\n"
	}
	t.Setenv("GONE", "http://127.0.0.1:1/?token=hunter2")
	t.Setenv("BAD", "://hunter2")
	targets += "- {name: chat, slack: {env: URL_hook}, partitions: ['*']}\n- {name: other, webhook: {env: URL_hook}, partitions: [elsewhere]}\n" +
		"- {name: gone, webhook: {env: GONE}, partitions: [shop]}\n- {name: bad, webhook: {env: BAD}, partitions: [shop]}\n- {name: unset, webhook: {env: UNSET_URL}, partitions: [shop]}\n"
	s := &Sender{Path: policyFile(t, here+targets), Roots: roots}
	if err := s.Send(t.Context(), "hook", message); err != nil {
		t.Fatal(err)
	}
	sum := hmac.New(sha256.New, []byte("top secret"))
	sum.Write([]byte(all[0].body))
	var read Message
	if err := json.Unmarshal([]byte(all[0].body), &read); err != nil || read.Title != message.Title || read.Dropped != 2 {
		t.Errorf("%v: %+v", err, read)
	}
	if all[0].id != "abc-0" || all[0].signature != "sha256="+hex.EncodeToString(sum.Sum(nil)) {
		t.Errorf("sent %+v", all[0])
	}
	if err := s.Send(t.Context(), "chat", message); err != nil {
		t.Fatal(err)
	}
	if text := all[1].body; strings.Contains(text, "<!channel>") || strings.Contains(text, "@here") || strings.Contains(text, "*x*") || !strings.Contains(text, "and 29 more") || all[1].signature != "" {
		t.Errorf("slack is told %s", text)
	}
	hung, cancel := context.WithCancel(t.Context())
	go func() {
		for {
			lock.Lock()
			last := all[len(all)-1].path
			lock.Unlock()
			if last == "/hang" {
				cancel()
				return
			}
		}
	}()
	for target, c := range map[string]struct {
		ctx  context.Context
		says string
	}{
		"500":   {t.Context(), "answered 500"},
		"away":  {t.Context(), "answered 307"},
		"gone":  {t.Context(), "did not take it"},
		"bad":   {t.Context(), "the URL of target bad is none"},
		"unset": {t.Context(), "the URL of target unset is empty"},
		"other": {t.Context(), "has no target"},
		"none":  {t.Context(), "has no target"},
		"hang":  {hung, "canceled"},
	} {
		err := s.Send(c.ctx, target, message)
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want %q", target, err, c.says)
		}
	}
	s.Path = policyFile(t, targets) // No network of ours.
	if err := s.Send(t.Context(), "hook", message); !fault.Is(err, fault.Denied) {
		t.Errorf("127.0.0.1 is reached: %v", err)
	}
}

// mailServer speaks as much SMTP as a client needs.
type mailServer struct {
	listener net.Listener
	tls      *tls.Config
	users    bool
	lock     sync.Mutex
	letters  []string
	envelope []string
}

func (m *mailServer) serve() {
	for {
		connection, err := m.listener.Accept()
		if err != nil {
			return
		}
		go m.speak(connection)
	}
}

func (m *mailServer) speak(connection net.Conn) {
	defer func() { connection.Close() }()
	text := textproto.NewConn(connection)
	say := func(line string) { _ = text.PrintfLine("%s", line) }
	say("220 mail.example.com ESMTP")
	var envelope []string
	encrypted := false
	for {
		line, err := text.ReadLine()
		if err != nil {
			return
		}
		verb, _, _ := strings.Cut(strings.ToUpper(line), " ")
		switch verb {
		case "EHLO":
			say("250-mail.example.com")
			if m.tls != nil && !encrypted {
				say("250-STARTTLS")
			}
			if m.users && encrypted {
				say("250-AUTH PLAIN")
			}
			say("250 8BITMIME")
		case "STARTTLS":
			if m.tls == nil {
				say("502 not here")
				continue
			}
			say("220 go on")
			connection = tls.Server(connection, m.tls)
			text, encrypted = textproto.NewConn(connection), true
		case "AUTH":
			if !strings.HasSuffix(line, "AGxlaHIAaHVudGVyMg==") { // \0lehr\0hunter2
				say("535 no")
				continue
			}
			say("235 yes")
		case "MAIL", "RCPT":
			if strings.Contains(line, "nobody@") {
				say("550 there is nobody")
				continue
			}
			envelope = append(envelope, line)
			say("250 yes")
		case "DATA":
			say("354 go on")
			letter, err := io.ReadAll(text.DotReader())
			if err != nil {
				return
			}
			m.lock.Lock()
			m.letters, m.envelope = append(m.letters, string(letter)), append(m.envelope, envelope...)
			m.lock.Unlock()
			say("250 taken")
		case "QUIT":
			say("221 bye")
			return
		default:
			say("502 what")
		}
	}
}

func TestEmail(t *testing.T) {
	site := httptest.NewTLSServer(http.NotFoundHandler())
	defer site.Close()
	roots := x509.NewCertPool()
	roots.AddCert(site.Certificate())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	server := &mailServer{listener: listener, tls: &tls.Config{Certificates: site.TLS.Certificates}, users: true}
	go server.serve()
	clear, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer clear.Close()
	open := &mailServer{listener: clear}
	go open.serve()
	t.Setenv("PASSWORD", "hunter2")
	settings := func(server, more string) string {
		return here + "targets: [{name: mail, email: [ann@example.com, bob@example.com], partitions: ['*']}, {name: lost, email: [nobody@example.com], partitions: ['*']}]\n" +
			"smtp: {server: '" + server + "', from: lehr@example.com" + more + "}\n"
	}
	s := &Sender{Path: policyFile(t, settings(listener.Addr().String(), ", user: lehr, password: {env: PASSWORD}")), Roots: roots}
	if err := s.Send(t.Context(), "mail", message); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(server.envelope, "|"); !strings.HasPrefix(got, "MAIL FROM:<lehr@example.com>") || !strings.HasSuffix(got, "RCPT TO:<ann@example.com>|RCPT TO:<bob@example.com>") {
		t.Errorf("the envelope is %s", got)
	}
	letter, err := mail.ReadMessage(bufio.NewReader(strings.NewReader(server.letters[0])))
	if err != nil {
		t.Fatal(err)
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(letter.Header.Get("Subject"))
	body, _ := io.ReadAll(quotedprintable.NewReader(letter.Body))
	if err != nil || subject != "[shop] all: <!channel> *x*  Bcc: eve@example.com" || letter.Header.Get("Bcc") != "" || letter.Header.Get(HeaderID) != "abc-0" {
		t.Errorf("the headers are %v; the subject is %q, %v", letter.Header, subject, err)
	}
	if !strings.Contains(string(body), "- web: a <b> & @here") || !strings.Contains(string(body), "QUIT") || !strings.Contains(string(body), "2 older messages were dropped") {
		t.Errorf("the letter is\n%s", body)
	}
	if err := s.Send(t.Context(), "lost", message); err == nil || !strings.Contains(err.Error(), "there is nobody") {
		t.Errorf("%v", err)
	}
	t.Setenv("PASSWORD", "wrong")
	if err := s.Send(t.Context(), "mail", message); err == nil || strings.Contains(err.Error(), "wrong") {
		t.Errorf("%v", err)
	}
	// A server that does not encrypt is not spoken to, unless that is asked for.
	s.Path = policyFile(t, settings(clear.Addr().String(), ""))
	if err := s.Send(t.Context(), "mail", message); err == nil || !strings.Contains(err.Error(), "does not encrypt") {
		t.Errorf("%v", err)
	}
	s.Path = policyFile(t, settings(clear.Addr().String(), ", plain: true"))
	if err := s.Send(t.Context(), "mail", message); err != nil || len(open.letters) != 1 {
		t.Errorf("%v, %d letters", err, len(open.letters))
	}
}

func TestPoliciesAreRead(t *testing.T) {
	for text, says := range map[string]string{
		"targets: [{name: a, partitions: [shop]}]":                                                                        "one of webhook, slack and email",
		"targets: [{webhook: {env: A}, partitions: [shop]}]":                                                              "needs a name",
		"targets: [{name: a, webhook: {env: A}, slack: {env: A}, partitions: [shop]}]":                                    "one of webhook",
		"targets: [{name: a, webhook: {env: A}}]":                                                                         "no partition may use it",
		"targets: [{name: a, webhook: {env: A, file: B}, partitions: [shop]}]":                                            "in one place",
		"targets: [{name: a, webhook: {env: A}, partitions: [shop]}, {name: a, slack: {env: A}, partitions: [shop]}]":     "name of its own",
		"targets: [{name: a, email: [a@b.c], partitions: [shop]}]":                                                        "needs a server",
		"targets: [{name: a, email: ['a@b.c\\r\\nRCPT TO:<x@y.z>'], partitions: [shop]}]":                                 "no address",
		"targets: [{name: a, email: [\"a@b.c\\r\\nBcc: x@y.z\"], partitions: [shop]}]\nsmtp: {server: 'a:25', from: a@b}": "no address",
		"smtp: {server: 'a:25', from: Ann <a@b.c>}":                                                                       "an address that it is from",
		"smtp: {server: 'a:25', from: a@b.c, user: x, plain: true}":                                                       "in the clear",
		"webhooks: []":         "webhooks",
		"networks: [anything]": "anything",
	} {
		if _, err := ReadPolicy(policyFile(t, text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
	if _, err := ReadPolicy("/no/such/file"); err == nil {
		t.Error("a file that is not there is read")
	}
	if p, err := ReadPolicy(""); err != nil || len(p.Targets) != 0 {
		t.Errorf("%+v, %v", p, err)
	}
}

// TestPolicyOfThePageIsRead: what docs/operate/notifications.md shows is taken.
func TestPolicyOfThePageIsRead(t *testing.T) {
	page, err := os.ReadFile("../../docs/operate/notifications.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\nnotifications: v1\n")
	text, _, _ := strings.Cut(rest, "```")
	if p, err := ReadPolicy(policyFile(t, text)); err != nil || len(p.Targets) != 3 || p.SMTP.User != "lehr" {
		t.Errorf("%+v, %v", p, err)
	}
}
