package tfcommand

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"golang.org/x/mod/semver"

	"lehr.dev/internal/ground/files"
	"lehr.dev/plugins/terraform/workfolder"
	"lehr.dev/sdk/serve"
)

// writerWithin is how long reading a state from a server may take, to know who wrote it.
const writerWithin = 10 * time.Second

// CheckWriter refuses a state that a newer version wrote than the engine's: that may lose what it
// does not know. It knows of the backends local and http, whose states it reads itself: whatever
// Terraform prints of a state says that the one which prints it wrote it. A state that is not
// there, or cannot be read so, is no error: of that Terraform tells better.
func CheckWriter(ctx context.Context, r Run, backend workfolder.Backend) error {
	text, err := readState(ctx, r, backend)
	if err != nil {
		return nil
	}
	defer clear(text) // It holds secrets.
	var state struct {
		Writer string `json:"terraform_version"`
	}
	// A state has the version of its writer without what makes it a release before that one.
	own, _, _ := strings.Cut(r.Engine.Version, "-")
	if json.Unmarshal(text, &state) != nil || semver.Compare("v"+state.Writer, "v"+own) <= 0 {
		return nil
	}
	return serve.Errorf(serve.Invalid, "the state was written by version %s, and the engine %s is of version %s, which is older", state.Writer, r.Engine.Name, r.Engine.Version).
		WithHint("name an engine of version %s or newer by with: {engine: NAME}; whoever operates the plugin lists it", state.Writer)
}

var errNotRead = errors.New("the states of this backend are read by Terraform alone")

func readState(ctx context.Context, r Run, backend workfolder.Backend) ([]byte, error) {
	if path := backend.LocalState(r.Module.Workspace); path != "" {
		return files.Read(path, mostShown)
	}
	if backend.Type == "http" {
		return readServed(ctx, r, backend)
	}
	return nil, errNotRead
}

// readServed reads a state of the backend http as Terraform does, by the settings of its block
// or the variables that Terraform reads.
func readServed(ctx context.Context, r Run, backend workfolder.Backend) ([]byte, error) {
	setting := func(name, variable string) string {
		text, _ := backend.Config[name].(string)
		return cmp.Or(text, r.Variables[variable])
	}
	ctx, cancel := context.WithTimeout(ctx, writerWithin)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, setting("address", "TF_HTTP_ADDRESS"), nil)
	if err != nil {
		return nil, err
	}
	if name := setting("username", "TF_HTTP_USERNAME"); name != "" {
		request.SetBasicAuth(name, setting("password", "TF_HTTP_PASSWORD"))
	}
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{}, DisableKeepAlives: true}
	transport.TLSClientConfig.InsecureSkipVerify, _ = backend.Config["skip_cert_verification"].(bool)
	if trusted := setting("client_ca_certificate_pem", "TF_HTTP_CLIENT_CA_CERTIFICATE_PEM"); trusted != "" {
		transport.TLSClientConfig.RootCAs = x509.NewCertPool()
		transport.TLSClientConfig.RootCAs.AppendCertsFromPEM([]byte(trusted))
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the server of states answers %s", response.Status)
	}
	return readBounded(response.Body)
}
