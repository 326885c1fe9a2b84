package cli

import (
	"context"
	"crypto/x509"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/access"
	"lehr.dev/internal/access/oidc"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/sdk/client"
)

// loginPatience is how long a person may take to log in.
const loginPatience = 10 * time.Minute

func (s *session) loginCommand() *cobra.Command {
	byDevice := false
	command := &cobra.Command{
		Use:   "login --server URL",
		Short: "Log in to a server with your browser",
		Long: `Log in to a server through the provider that its access policy names. The command
opens a browser, or prints the address. With --device, you may use a browser on any
machine. The server gives a token that is valid for at most 12 hours. The command
keeps it in credentials.json in the folder LEHR_CONFIG_DIR (default: the folder lehr
of your settings), and every command with the same --server uses it.`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(command.Context(), loginPatience)
			defer cancel()
			return s.login(ctx, byDevice)
		},
	}
	command.Flags().BoolVar(&byDevice, "device", false, "log in with a browser on any machine, with a code")
	return command
}

func (s *session) login(ctx context.Context, byDevice bool) error {
	server, credentials, err := s.loginPlace()
	if err != nil {
		return err
	}
	roots, err := s.roots()
	if err != nil {
		return err
	}
	c := client.DialWithRoots(server, "", s.actor(), roots)
	offer, err := c.Auth.GetLogin(ctx, &apipb.GetLoginRequest{})
	if err != nil {
		return err
	}
	if offer.Issuer == "" {
		return fault.New(fault.NotFound, "nobody can log in to %s: its access policy names no provider", server).
			WithHint("ask its operator for a token, and put it into LEHR_TOKEN")
	}
	provider := oidc.New(access.OIDC{Issuer: offer.Issuer, ClientID: offer.Client, Scopes: offer.Scopes}, roots, time.Now)
	var proof oidc.Proof
	if byDevice {
		proof, err = provider.LogInByDevice(ctx, s.showDevice)
	} else {
		proof, err = provider.LogIn(ctx, server, s.showBrowser)
	}
	if err != nil {
		return err
	}
	answer, err := c.Auth.Login(ctx, &apipb.LoginRequest{IdToken: proof.IDToken, Nonce: proof.Nonce})
	if err != nil {
		return err
	}
	end := answer.Token.Until.AsTime()
	err = credentials.Set(server, client.Credential{Token: answer.Token.Id, Secret: answer.Secret, Name: answer.Token.Owner, Until: end})
	if err != nil {
		return err
	}
	if s.json() {
		return printJSON(s.Out, map[string]any{"server": server, "name": answer.Token.Owner, "token": answer.Token.Id, "until": end})
	}
	fmt.Fprintf(s.Out, "Logged in to %s as %s, until %s\n", plain(server), plain(answer.Token.Owner), end.Local().Format("Jan 2 15:04 MST"))
	return nil
}

func (s *session) logoutCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "logout --server URL",
		Short: "End your login at a server",
		Long:  `Revoke the token that lehr auth login got, and forget it. You stay logged in at the provider.`,
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			server, credentials, err := s.loginPlace()
			if err != nil {
				return err
			}
			credential, err := credentials.Get(server)
			if err != nil {
				return err
			}
			roots, err := s.roots()
			if err != nil {
				return err
			}
			_, err = client.DialWithRoots(server, credential.Secret, s.actor(), roots).Auth.
				RevokeToken(command.Context(), &apipb.RevokeTokenRequest{Id: credential.Token, Reason: "logged out"})
			if err != nil && !fault.Is(err, fault.Denied) { // Denied: it has ended already.
				return err
			}
			if err := credentials.Remove(server); err != nil {
				return err
			}
			if !s.json() {
				fmt.Fprintf(s.Out, "Logged out of %s\n", plain(server))
			}
			return nil
		},
	}
}

// loginPlace is the server that is meant, and where credentials are kept.
func (s *session) loginPlace() (server string, credentials client.Credentials, err error) {
	if len(s.servers) == 0 {
		return "", credentials, fault.New(fault.Invalid, "no server was named").
			WithHint("use --server https://lehr.example.com; a server of your own on this machine needs no login")
	}
	if server, err = client.ParseServer(s.servers[0]); err != nil {
		return "", credentials, err
	}
	credentials, err = s.credentials()
	return server, credentials, err
}

func (s *session) credentials() (client.Credentials, error) {
	folder := s.Getenv("LEHR_CONFIG_DIR")
	if folder == "" {
		settings, err := os.UserConfigDir()
		if err != nil {
			return client.Credentials{}, fault.New(fault.Unavailable, "finding your settings: %w", err).WithHint("name a folder with LEHR_CONFIG_DIR")
		}
		folder = filepath.Join(settings, "lehr")
	}
	return client.NewCredentials(folder), nil
}

// secret is what is sent to a server.
func (s *session) secret(server string) (string, error) {
	if token := s.Getenv("LEHR_TOKEN"); token != "" {
		return token, nil
	}
	credentials, err := s.credentials()
	if err != nil {
		return "", err
	}
	credential, err := credentials.Get(server)
	if err == nil && !s.now().Before(credential.Until) {
		return "", fault.New(fault.Denied, "your login to %s ended at %s", server, credential.Until.Local().Format("Jan 2 15:04 MST")).
			WithHint("log in again: lehr auth login --server %s", server)
	}
	return credential.Secret, err
}

// roots are whose certificates are believed.
func (s *session) roots() (*x509.CertPool, error) { return client.Roots(s.Getenv("LEHR_CA")) }

func (s *session) showDevice(d oidc.Device) {
	fmt.Fprintf(s.Err, "Open this in any browser:\n\n    %s\n\nand let in the code %s\n", plain(d.Address), plain(d.Code))
}

func (s *session) showBrowser(address string) {
	fmt.Fprintf(s.Err, "Log in with your browser; if none opens, open this:\n\n    %s\n\n", plain(address))
	opener := s.Getenv("BROWSER")
	switch {
	case opener != "":
	case runtime.GOOS == "darwin":
		opener = "open"
	case s.Getenv("DISPLAY") != "" || s.Getenv("WAYLAND_DISPLAY") != "":
		opener = "xdg-open"
	default:
		return
	}
	if strings.ContainsAny(opener, " \t%:") {
		return // A command line of one's own; the address is printed.
	}
	browser := exec.Command(opener, address)
	if browser.Start() == nil {
		go func() { _ = browser.Wait() }()
	}
}
