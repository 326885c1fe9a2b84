// Package proxy runs Caddy itself: the HTTP server and its reverse proxy,
// configured over the admin endpoint alone. It starts without servers, keeps
// nothing on disk that a later start would read, sends nothing to anybody, and
// outlives Lehr. Only the program lehr-caddy calls it, as "lehr-caddy run".
package proxy

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/certmagic"

	// Beside the HTTP server, which this package uses, what a balancer needs.
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

// Options of one Caddy.
type Options struct {
	// Admin is the address of the admin endpoint, host and port or
	// "unix//path".
	Admin string
	// Dir is where Caddy keeps what it must write; empty: a temporary folder.
	Dir string
}

const unixPrefix = "unix/"

// Parse reads the arguments of "lehr-caddy run".
func Parse(arguments []string, usage io.Writer) (Options, error) {
	var options Options
	flags := flag.NewFlagSet("lehr-caddy run", flag.ContinueOnError)
	flags.SetOutput(usage)
	flags.StringVar(&options.Admin, "admin", "", "address of the admin endpoint: host:port or unix//path (required)")
	flags.StringVar(&options.Dir, "dir", "", "folder for what Caddy writes (default: a temporary one)")
	if err := flags.Parse(arguments); err != nil {
		return options, err
	}
	switch {
	case flags.NArg() > 0:
		return options, fmt.Errorf("lehr-caddy run takes no argument %q: see lehr-caddy run -h", flags.Arg(0))
	case options.Admin == "":
		return options, errors.New("lehr-caddy run needs --admin ADDRESS, for example --admin 127.0.0.1:2019")
	}
	return options, nil
}

// Run serves until SIGTERM or an interrupt: then requests under way are
// finished, and the process ends. It returns only when Caddy does not start.
func Run(options Options) error {
	if err := free(options.Admin); err != nil {
		return err
	}
	dir, err := home(options.Dir)
	if err != nil {
		return err
	}
	// A replacement of the whole configuration that names no admin endpoint
	// must not move it.
	admin := options.Admin
	if !strings.HasPrefix(admin, unixPrefix) {
		admin = network + "/" + admin
	}
	caddy.DefaultAdminListen = admin
	// Set when the package was loaded, from an environment not yet ours.
	caddy.ConfigAutosavePath = filepath.Join(dir, "autosave.json")
	caddy.DefaultStorage = &certmagic.FileStorage{Path: filepath.Join(dir, "data")}
	caddy.TrapSignals()
	initial, err := configuration(admin)
	if err != nil {
		return err
	}
	if err := caddy.Load(initial, true); err != nil {
		return fmt.Errorf("starting Caddy with its admin endpoint at %s: %w", options.Admin, err)
	}
	select {} // Caddy's handler of signals ends the process.
}

// configuration has no servers. Its id is that of this start: whoever saw the
// Caddy before a restart is told so when it compares.
func configuration(admin string) ([]byte, error) {
	return json.Marshal(map[string]any{
		"@id":     "lehr-caddy:" + rand.Text(),
		"admin":   map[string]any{"listen": admin, "config": map[string]any{"persist": false}},
		"logging": map[string]any{"logs": map[string]any{"default": map[string]any{"level": "WARN"}}},
	})
}

// free refuses an address that is in use. Caddy itself would share the port
// with another Caddy of the same user, and each would get some of the calls.
func free(admin string) error {
	if path, isUnix := strings.CutPrefix(admin, unixPrefix); isUnix {
		connection, err := net.Dial("unix", path)
		if err == nil {
			connection.Close()
			return fmt.Errorf("the admin endpoint %s is in use: end the other Caddy, or choose another path", admin)
		}
		return nil
	}
	listener, err := net.Listen("tcp", admin)
	if err != nil {
		return fmt.Errorf("taking the admin endpoint %s: %w: end what has it, or choose another address", admin, err)
	}
	return listener.Close()
}

// home makes the folder, and makes it the home of all that Caddy and its
// libraries may write.
func home(dir string) (string, error) {
	if dir == "" {
		made, err := os.MkdirTemp("", "lehr-caddy-")
		if err != nil {
			return "", fmt.Errorf("making a folder for Caddy: %w", err)
		}
		caddy.OnExit(func(context.Context) { os.RemoveAll(made) })
		dir = made
	}
	dir, err := filepath.Abs(dir)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return "", fmt.Errorf("making the folder %s for Caddy: %w", dir, err)
	}
	for _, name := range []string{"XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "HOME"} {
		if err := os.Setenv(name, dir); err != nil {
			return "", err
		}
	}
	return dir, nil
}
