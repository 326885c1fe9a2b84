package serve

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
)

// handshakeTimeout is how long a client may take to say who it is.
const handshakeTimeout = 10 * time.Second

// Listen says where a plugin serves whoever dials it, and whom it lets in. The
// files are PEM; they are read for each connection, so that renewed ones count
// from the next on.
type Listen struct {
	// Address is HOST:PORT, or :PORT; empty: it is no server.
	Address string
	// Certificate, with those that vouch for it, and Key are shown to clients.
	Certificate, Key string
	// ClientCA holds the authorities of which one must vouch for a client.
	ClientCA string
	// Clients are the names (DNS names or URIs, exactly) of which a client's
	// certificate must bear one. At least one.
	Clients []string
}

// Flags defines --listen, --cert, --key, --client-ca and --client. A program
// with flags of its own calls it before it reads them, and hands the result to
// Main in Plugin.Listen.
func Flags(flags *flag.FlagSet) *Listen {
	l := &Listen{}
	flags.StringVar(&l.Address, "listen", "", "serve whoever dials this `HOST:PORT`, by TLS 1.3 on both sides")
	flags.StringVar(&l.Certificate, "cert", "", "PEM `FILE` with the certificate to show, and those that vouch for it")
	flags.StringVar(&l.Key, "key", "", "PEM `FILE` with its key")
	flags.StringVar(&l.ClientCA, "client-ca", "", "PEM `FILE` with the authorities that vouch for clients")
	flags.Func("client", "`NAME` (DNS name or URI) that a client's certificate must bear; may be given again", func(name string) error {
		l.Clients = append(l.Clients, name)
		return nil
	})
	return l
}

// listen returns what the command line says.
func (p Plugin) listen() *Listen {
	if p.Listen != nil {
		return p.Listen
	}
	if flag.Parsed() {
		return &Listen{}
	}
	l := Flags(flag.CommandLine)
	flag.Parse()
	return l
}

// Validate says what is missing.
func (l Listen) Validate() error {
	for _, needed := range []struct{ flag, value string }{
		{"--cert", l.Certificate}, {"--key", l.Key}, {"--client-ca", l.ClientCA}, {"--client", strings.Join(l.Clients, "")},
	} {
		if needed.value == "" {
			return fault.New(fault.Invalid, "a plugin that listens on %s needs %s", l.Address, needed.flag).
				WithHint("write --listen :7443 --cert FILE --key FILE --client-ca FILE --client NAME; who reaches a plugin may change production")
		}
	}
	return nil
}

// ServeDialled serves on a network until ctx ends.
func (p Plugin) ServeDialled(ctx context.Context, l Listen) error {
	if err := l.Validate(); err != nil {
		return err
	}
	if _, err := l.config(); err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", l.Address)
	if err != nil {
		return fault.New(fault.Unavailable, "plugin %s cannot listen on %s: %w", p.Name, l.Address, err)
	}
	fmt.Fprintf(os.Stderr, "%s serves on %s\n", p.Name, listener.Addr())
	guard := credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return l.config()
		},
	})
	return p.serve(ctx, listener, grpc.Creds(&telling{TransportCredentials: guard, plugin: p.Name}), grpc.ConnectionTimeout(handshakeTimeout))
}

// config reads the files.
func (l Listen) config() (*tls.Config, error) {
	own, err := files.KeyPair(l.Certificate, l.Key)
	if err != nil {
		return nil, fault.New(fault.Invalid, "reading the certificate %s with its key %s: %w", l.Certificate, l.Key, err)
	}
	authorities, err := files.Read(l.ClientCA, files.MostGiven)
	if err != nil {
		return nil, fault.New(fault.Invalid, "reading the authorities of clients: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authorities) {
		return nil, fault.New(fault.Invalid, "%s holds no certificate of an authority", l.ClientCA)
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{own}, NextProtos: []string{"h2"},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool, VerifyConnection: l.admit,
		// Who was let in once is verified again each time.
		SessionTicketsDisabled: true,
	}, nil
}

// admit lets in whose certificate bears one of the names.
func (l Listen) admit(state tls.ConnectionState) error {
	leaf := state.PeerCertificates[0]
	names := slices.Clone(leaf.DNSNames)
	for _, uri := range leaf.URIs {
		names = append(names, uri.String())
	}
	if !slices.ContainsFunc(names, func(name string) bool { return slices.Contains(l.Clients, name) }) {
		return fmt.Errorf("its certificate is for %q, and --client allows %q", names, l.Clients)
	}
	return nil
}

// telling says on standard error who was not let in and why, at most once a
// second.
type telling struct {
	credentials.TransportCredentials
	plugin string

	mutex  sync.Mutex
	toldAt time.Time
}

func (t *telling) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secured, info, err := t.TransportCredentials.ServerHandshake(conn)
	if err != nil {
		t.mutex.Lock()
		defer t.mutex.Unlock()
		if now := time.Now(); now.Sub(t.toldAt) > time.Second {
			t.toldAt = now
			fmt.Fprintf(os.Stderr, "%s: %s was not let in: %v\n", t.plugin, conn.RemoteAddr(), err)
		}
	}
	return secured, info, err
}
