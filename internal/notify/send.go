package notify

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/http"
	"net/netip"
	"net/smtp"
	"net/url"
	"strings"
	"syscall"
	"time"

	"lehr.dev/internal/ground/address"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
)

// sendTime is how long one delivery may take.
const sendTime = 20 * time.Second

// Headers of a webhook. The signature is "sha256=" and the hexadecimal HMAC-SHA256 of the
// body by the target's key.
const (
	HeaderID        = "X-Lehr-Message"
	HeaderSignature = "X-Lehr-Signature"
)

// Sender delivers messages as the operator's policy says, which is read for each.
type Sender struct {
	// Path of the policy.
	Path string
	// Roots are whose certificates are believed; nil: the system's.
	Roots *x509.CertPool
}

// Send delivers one message, or says why it could not.
func (s *Sender) Send(ctx context.Context, target string, message Message) error {
	ctx, cancel := context.WithTimeoutCause(ctx, sendTime, fault.New(fault.Unavailable, "%s did not answer within %s", target, sendTime))
	defer cancel()
	policy, err := ReadPolicy(s.Path)
	if err != nil {
		return err
	}
	endpoint, err := policy.endpoint(message.Partition, target)
	if err != nil {
		return err
	}
	switch {
	case len(endpoint.Email) > 0:
		err = s.email(ctx, policy, endpoint, message)
	default:
		err = s.webhook(ctx, policy, endpoint, message)
	}
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// dial connects where the policy lets one.
func (p *Policy) dial(ctx context.Context, network, endpointAddress string) (net.Conn, error) {
	dialer := &net.Dialer{ControlContext: func(_ context.Context, _, at string, _ syscall.RawConn) error {
		resolved, err := netip.ParseAddrPort(at)
		if err != nil {
			return err
		}
		if address.In(p.Networks, resolved.Addr()) || address.Public(resolved.Addr()) {
			return nil
		}
		return fault.New(fault.Denied, "notifications may not reach %s: it is no public address", resolved.Addr()).
			WithHint("whoever runs the server lists the network in the file of --notifications")
	}}
	return dialer.DialContext(ctx, network, endpointAddress)
}

// webhook posts JSON. Redirects are not followed, and count as failures.
func (s *Sender) webhook(ctx context.Context, policy *Policy, endpoint Endpoint, message Message) error {
	place, body := endpoint.Webhook, any(message)
	if endpoint.Slack != (Secret{}) {
		place, body = endpoint.Slack, map[string]string{"text": slackText(message)}
	}
	at, err := place.read("the URL of target " + endpoint.Name)
	if err != nil {
		return err
	}
	key, err := endpoint.Sign.read("the key of target " + endpoint.Name)
	if err != nil {
		return err
	}
	text, err := json.Marshal(body)
	if err != nil {
		return fault.New(fault.Internal, "writing a message: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, at, bytes.NewReader(text))
	if err != nil || request.URL.Host == "" {
		return fault.New(fault.Invalid, "the URL of target %s is none", endpoint.Name) // It may hold a secret.
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set(HeaderID, message.ID)
	if key != "" {
		sum := hmac.New(sha256.New, []byte(key))
		sum.Write(text)
		request.Header.Set(HeaderSignature, "sha256="+hex.EncodeToString(sum.Sum(nil)))
	}
	client := &http.Client{
		Transport:     &http.Transport{DialContext: policy.dial, DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10, TLSClientConfig: &tls.Config{RootCAs: s.Roots}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(request)
	if err != nil {
		return unsent(endpoint.Name, err)
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 64<<10))
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return fault.New(fault.Unavailable, "target %s answered %d", endpoint.Name, response.StatusCode)
	}
	return nil
}

// unsent tells why nothing could be sent, without the address, which may hold a secret.
func unsent(target string, err error) error {
	if denied, ok := errors.AsType[*fault.Error](err); ok {
		return denied
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	return fault.New(fault.Unavailable, "target %s did not take it: %.300s", target, intent.Shown(err.Error()))
}

// slackSafe: what tenants wrote is no markup, and mentions nobody.
var slackSafe = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "*", "∗", "_", "ˍ", "~", "∼", "`", "ˋ", "@", "@\u200b")

// slackText is a message in words, with its links as they are: a link has no text that
// somebody chose.
func slackText(m Message) string {
	var links []string
	for _, link := range linksOf(m) {
		links = append(links, "\n<"+strings.ReplaceAll(link, "&", "&amp;")+">")
	}
	return slackSafe.Replace(body(m)) + strings.Join(links, "")
}

// linksOf a message: its own, or those of its assets.
func linksOf(m Message) (links []string) {
	if m.Link != "" {
		links = append(links, m.Link)
	}
	for _, a := range m.Assets {
		if a.Link != "" {
			links = append(links, a.Link)
		}
	}
	return append(links, m.Links...)
}

// body is a message in words, without its links.
func body(m Message) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", m.Title)
	if m.Status == "firing" {
		fmt.Fprintf(&b, "since %s\n", m.Since.UTC().Format(time.RFC3339))
	}
	for _, a := range m.Assets {
		if a.Asset != "" && m.Count > 1 {
			fmt.Fprintf(&b, "- %s: %s\n", a.Asset, a.Text)
		}
	}
	if more := m.Count - len(m.Assets); more > 0 {
		fmt.Fprintf(&b, "and %d more\n", more)
	}
	if m.Count > 0 && m.Assets[0].Asset != "" && m.Status == "firing" {
		fmt.Fprintf(&b, "lehr why %s\n", m.Assets[0].Asset)
	}
	if m.Dropped > 0 {
		fmt.Fprintf(&b, "%d older messages were dropped: this target did not take them\n", m.Dropped)
	}
	return b.String()
}

// email hands a message to the operator's server.
func (s *Sender) email(ctx context.Context, policy *Policy, endpoint Endpoint, message Message) error {
	settings := policy.SMTP
	host, _, err := net.SplitHostPort(settings.Server)
	if err != nil {
		return fault.New(fault.Invalid, "the server of email is no HOST:PORT")
	}
	password, err := settings.Password.read("the password of email")
	if err != nil {
		return err
	}
	connection, err := policy.dial(ctx, "tcp", settings.Server)
	if err != nil {
		return unsent(endpoint.Name, err)
	}
	defer connection.Close()
	if end, ok := ctx.Deadline(); ok {
		_ = connection.SetDeadline(end)
	}
	defer context.AfterFunc(ctx, func() { _ = connection.SetDeadline(time.Unix(1, 0)) })()
	client, err := smtp.NewClient(connection, host)
	if err != nil {
		return unsent(endpoint.Name, err)
	}
	if !settings.Plain {
		if err := client.StartTLS(&tls.Config{ServerName: host, RootCAs: s.Roots}); err != nil {
			return fault.New(fault.Unavailable, "the server of email does not encrypt: %.300s", intent.Shown(err.Error())).
				WithHint("give it STARTTLS, or write plain: true if it is on this machine")
		}
	}
	if settings.User != "" {
		if err := client.Auth(smtp.PlainAuth("", settings.User, password, host)); err != nil {
			return unsent(endpoint.Name, err)
		}
	}
	if err := client.Mail(settings.From); err != nil {
		return unsent(endpoint.Name, err)
	}
	for _, address := range endpoint.Email {
		if err := client.Rcpt(address); err != nil {
			return unsent(endpoint.Name, err)
		}
	}
	w, err := client.Data()
	if err == nil {
		_, err = w.Write(letter(settings.From, endpoint.Email, message))
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return unsent(endpoint.Name, err)
	}
	_ = client.Quit() // It has it.
	return nil
}

// letter is a whole message of email. Nothing that a tenant wrote can be a header of its
// own: the subject is one encoded word after another, and the text is encoded.
func letter(sender string, recipients []string, m Message) []byte {
	var b bytes.Buffer
	_, domain, _ := strings.Cut(sender, "@")
	header := func(name, value string) { fmt.Fprintf(&b, "%s: %s\r\n", name, value) }
	header("From", sender)
	header("To", strings.Join(recipients, ", "))
	header("Subject", mime.QEncoding.Encode("utf-8", oneLine(m.Title, 200)))
	header("Date", m.At.UTC().Format(time.RFC1123Z))
	header("Message-Id", "<"+m.ID+"@"+domain+">")
	header(HeaderID, m.ID)
	header("Auto-Submitted", "auto-generated")
	header("MIME-Version", "1.0")
	header("Content-Type", "text/plain; charset=utf-8")
	header("Content-Transfer-Encoding", "quoted-printable")
	b.WriteString("\r\n")
	w := quotedprintable.NewWriter(&b)
	_, _ = w.Write([]byte(strings.ReplaceAll(strings.Join(append([]string{body(m)}, linksOf(m)...), "\n"), "\n", "\r\n")))
	_ = w.Close()
	return b.Bytes()
}

// oneLine of at most so many bytes.
func oneLine(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "")
	}
	return text
}
