package remote

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
)

// Address is where a plugin server is, and how both ends are known. The files
// are PEM; they are read each time that it is dialled, so that renewed ones
// count from the next connection on.
type Address struct {
	// HostPort is what is dialled.
	HostPort string
	// Name that the server's certificate must bear; empty: the host.
	Name string
	// CA holds the authorities of which one must vouch for the server.
	CA string
	// Certificate, with those that vouch for it, and Key are shown to it.
	Certificate, Key string
}

// Validate says what is missing.
func (a Address) Validate() error {
	host, port, err := net.SplitHostPort(a.HostPort)
	if err != nil || host == "" || port == "" {
		return fault.New(fault.Invalid, "%.300q is no address of a plugin server", a.HostPort).WithHint("write HOST:PORT, as plugin.example.com:7443")
	}
	for kind, file := range map[string]string{"authorities": a.CA, "certificate": a.Certificate, "key": a.Key} {
		if file == "" {
			return fault.New(fault.Invalid, "no file was named with the %s for plugin server %s", kind, a.HostPort).
				WithHint("a plugin server is dialled with a certificate of one's own, and its own is always verified")
		}
	}
	return nil
}

func (a Address) name() string {
	if a.Name != "" {
		return a.Name
	}
	host, _, _ := net.SplitHostPort(a.HostPort)
	return host
}

// config reads the files.
func (a Address) config() (*tls.Config, error) {
	authorities, err := files.Read(a.CA, files.MostGiven)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "reading who vouches for plugin server %s: %w", a.HostPort, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authorities) {
		return nil, fault.New(fault.Invalid, "%s, which says who vouches for plugin server %s, holds no certificate", a.CA, a.HostPort).WithHint("it is a PEM file")
	}
	own, err := files.KeyPair(a.Certificate, a.Key)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "reading the certificate %s and its key %s, to be shown to plugin server %s: %w", a.Certificate, a.Key, a.HostPort, err)
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, ServerName: a.name(), RootCAs: pool, NextProtos: []string{"h2"},
		// It is shown whoever the server says it trusts, so that a refusal is
		// told as such. By then the server was verified.
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &own, nil },
	}, nil
}

// Dial connects, and returns when the server was verified and has not refused
// the certificate that it was shown.
func (a Address) Dial(ctx context.Context) (net.Conn, error) {
	if err := a.Validate(); err != nil {
		return nil, err
	}
	config, err := a.config()
	if err != nil {
		return nil, err
	}
	raw, err := (&net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: lostWithin / 4, Interval: lostWithin / 4, Count: 3},
		Control:         giveUp,
	}).DialContext(ctx, "tcp", a.HostPort)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "plugin server %s cannot be reached: %w", a.HostPort, err).
			WithHint("does it run, and is the way to it open?")
	}
	conn := tls.Client(raw, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, a.refused(err)
	}
	if conn.ConnectionState().NegotiatedProtocol != "h2" {
		conn.Close()
		return nil, fault.New(fault.Invalid, "plugin server %s does not speak gRPC (no h2 by ALPN)", a.HostPort).WithHint("is it a plugin's address?")
	}
	greeted, err := greeting(conn)
	if err != nil {
		conn.Close()
		return nil, a.refused(err)
	}
	return greeted, nil
}

// greetsWithin is how long a server may take to greet. By HTTP/2 it speaks
// first, or at once after us.
const greetsWithin = time.Second

// greeting waits for the server's first byte. It judges our certificate when
// the handshake is over for us; of what we had sent by then its refusal might
// be lost.
func greeting(conn net.Conn) (net.Conn, error) {
	first := make([]byte, 1)
	if err := conn.SetReadDeadline(time.Now().Add(greetsWithin)); err != nil {
		return nil, err
	}
	n, err := conn.Read(first)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, err
	}
	return &greeted{Conn: conn, first: first[:n]}, conn.SetReadDeadline(time.Time{})
}

// greeted is a connection of which the first byte was read.
type greeted struct {
	net.Conn
	first []byte
}

func (g *greeted) Read(buffer []byte) (int, error) {
	if len(g.first) > 0 && len(buffer) > 0 {
		n := copy(buffer, g.first)
		g.first = g.first[n:]
		return n, nil
	}
	return g.Conn.Read(buffer)
}

// lostWithin is about how long a connection that carries nothing any more is
// taken for one that does.
const lostWithin = 20 * time.Second

// giveUp bounds how long what was sent may go unacknowledged.
func giveUp(_, _ string, conn syscall.RawConn) (err error) {
	controlled := conn.Control(func(descriptor uintptr) {
		err = unix.SetsockoptInt(int(descriptor), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(lostWithin.Milliseconds()))
	})
	return errors.Join(controlled, err)
}

// refused says why there is no connection, and whose certificate is to blame.
func (a Address) refused(err error) error {
	if _, wrong := errors.AsType[x509.HostnameError](err); wrong {
		return fault.New(fault.Denied, "the certificate of plugin server %s is not for the name %s: %w", a.HostPort, a.name(), err).
			WithHint("give it one for that name, or say its name in the list of plugin servers")
	}
	if _, unknown := errors.AsType[x509.UnknownAuthorityError](err); unknown {
		return fault.New(fault.Denied, "nobody in %s vouches for the certificate of plugin server %s: %w", a.CA, a.HostPort, err).
			WithHint("name the file with the authority that issued it; if none of yours did, somebody else answers there")
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok {
		hint := "give it a certificate for servers"
		if invalid.Reason == x509.Expired {
			hint = "renew it, and see that the clocks of both machines are right"
		}
		return fault.New(fault.Denied, "the certificate of plugin server %s is not valid: %w", a.HostPort, err).WithHint("%s", hint)
	}
	if isAlert(err) {
		return a.refusedUs(err)
	}
	return fault.New(fault.Unavailable, "no connection by TLS 1.3 with plugin server %s: %w", a.HostPort, err)
}

// isAlert reports whether the other end said by TLS why it ended a connection.
func isAlert(err error) bool {
	return err != nil && strings.Contains(err.Error(), "remote error: tls:")
}

func (a Address) refusedUs(err error) error {
	return fault.New(fault.Denied, "plugin server %s refused the certificate in %s: %w", a.HostPort, a.describeCertificate(), err).
		WithHint("is it in date, issued by an authority in the server's --client-ca, and for a name among its --client?")
}

// describeCertificate describes our own certificate.
func (a Address) describeCertificate() string {
	own, err := files.KeyPair(a.Certificate, a.Key)
	if err != nil || own.Leaf == nil {
		return a.Certificate
	}
	names := append([]string{}, own.Leaf.DNSNames...)
	for _, uri := range own.Leaf.URIs {
		names = append(names, uri.String())
	}
	return fmt.Sprintf("%s (for %s, until %s)", a.Certificate, strings.Join(names, ", "), own.Leaf.NotAfter.UTC().Format("2006-01-02 15:04 MST"))
}
