// Command oidcprovider is an OpenID Connect provider for tests, made of
// zitadel's library: real protocol, made-up people, on loopback. It is a module
// of its own, so that Lehr's has none of its libraries. Tests build it, run it as
// a process, and play the browser at its forms. It forgets all when it ends.
//
// Besides the protocol it has forms at /login and /device, and for tests
// POST /test/redirect?uri=… (where the client "web" may be led back to) and
// POST /test/rotate (sign with another key, and publish that one alone).
package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/zitadel/oidc/v3/pkg/op"
	"golang.org/x/text/language"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "loopback address")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx, *listen); err != nil {
		fmt.Fprintln(os.Stderr, "oidcprovider:", err)
		os.Exit(1)
	}
}

// run serves until the context ends, and writes {"issuer": …} once it listens.
func run(ctx context.Context, listen string) error {
	socket, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	issuer := "http://" + socket.Addr().String()
	handler, err := newHandler(issuer)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	if err := json.NewEncoder(os.Stdout).Encode(map[string]string{"issuer": issuer}); err != nil {
		return err
	}
	if err := server.Serve(socket); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func newHandler(issuer string) (http.Handler, error) {
	kept := newStorage()
	config := &op.Config{
		CodeMethodS256: true, AuthMethodPost: true, SupportedUILocales: []language.Tag{language.English},
		DeviceAuthorization: op.DeviceAuthorizationConfig{
			Lifetime: 5 * time.Minute, PollInterval: time.Second, UserFormPath: "/device", UserCode: op.UserCodeBase20,
		},
	}
	_, _ = rand.Read(config.CryptoKey[:])
	provider, err := op.NewProvider(config, kept, op.StaticIssuer(issuer),
		op.WithAllowInsecure(), op.WithLogger(slog.New(slog.NewTextHandler(os.Stderr, nil))))
	if err != nil {
		return nil, err
	}
	forms := &forms{storage: kept, callback: op.AuthCallbackURL(provider)}
	issued := op.NewIssuerInterceptor(provider.IssuerFromRequest)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /login", forms.showLogin)
	mux.HandleFunc("POST /login", issued.HandlerFunc(forms.login))
	mux.HandleFunc("GET /device", forms.showDevice)
	mux.HandleFunc("POST /device", forms.device)
	mux.HandleFunc("POST /test/redirect", func(w http.ResponseWriter, r *http.Request) { kept.allow(r.FormValue("uri")) })
	mux.HandleFunc("POST /test/rotate", func(w http.ResponseWriter, r *http.Request) {
		if err := kept.rotate(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	mux.Handle("/", provider)
	return mux, nil
}
