package resolver

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
)

const (
	// serviceAccountFolder is where a pod finds its credentials.
	serviceAccountFolder = "/var/run/secrets/kubernetes.io/serviceaccount"
	// maxAnswer of the API: a Secret has at most 1 MB, in base64.
	maxAnswer = 4 << 20
)

// cluster is how one cluster's API is asked.
type cluster struct {
	server *url.URL
	client *http.Client
	// token is empty where a certificate says who asks.
	token string
}

// readKubernetes gets one Secret. The cluster is the operator's to name.
func (r reader) readKubernetes(ctx context.Context, from kubernetes, wanted *intentpb.KubernetesSecret) ([]byte, error) {
	var c *cluster
	var err error
	if from.Kubeconfig != "" {
		c, err = fromKubeconfig(from.Kubeconfig, from.Context)
	} else {
		c, err = r.fromServiceAccount()
	}
	if err != nil {
		return nil, err
	}
	defer c.client.CloseIdleConnections()
	return c.get(ctx, wanted)
}

// fromServiceAccount is the cluster in which the plugin runs as a pod.
func (r reader) fromServiceAccount() (*cluster, error) {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return nil, fault.New(fault.Denied, "the plugin does not run in a cluster, and the list of secrets names no other").
			WithHint("write kubernetes: {kubeconfig: FILE} into the operator's list of secrets; a plugin that Lehr starts never has the variables of a pod")
	}
	token, err := files.Read(filepath.Join(r.serviceAccount, "token"), maxSecret)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "reading the token of the service account: %w", err)
	}
	authority, err := files.Read(filepath.Join(r.serviceAccount, "ca.crt"), files.MostGiven)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "reading the authority of the cluster: %w", err)
	}
	c := &cluster{server: &url.URL{Scheme: "https", Host: net.JoinHostPort(host, port)}, token: strings.TrimSpace(string(token))}
	c.client, err = clientOf(authority, nil, "")
	return c, err
}

// get asks for the Secret. Nothing of the answer is told but its code.
func (c *cluster) get(ctx context.Context, wanted *intentpb.KubernetesSecret) ([]byte, error) {
	address := c.server.JoinPath("api", "v1", "namespaces", wanted.GetNamespace(), "secrets", wanted.GetName())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return nil, fault.New(fault.Invalid, "the address of the cluster's API cannot be used")
	}
	request.Header.Set("Accept", "application/json")
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	response, err := c.client.Do(request)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "asking the API of the cluster at %s: %w", c.server.Host, errors.Unwrap(err))
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	defer clear(body)
	switch {
	case response.StatusCode == http.StatusNotFound:
		return nil, fault.New(fault.NotFound, "the cluster does not have it").WithHint("make it, or mend namespace and name in intent")
	case response.StatusCode == http.StatusForbidden || response.StatusCode == http.StatusUnauthorized:
		return nil, fault.New(fault.Denied, "the cluster does not let the plugin read it (%d)", response.StatusCode).
			WithHint("bind a Role with the verb get on this Secret, by resourceNames, to the account that the plugin uses")
	case response.StatusCode != http.StatusOK:
		return nil, fault.New(fault.Unavailable, "the API of the cluster answered %d", response.StatusCode)
	case err != nil || len(body) > maxAnswer:
		return nil, fault.New(fault.Unavailable, "the answer of the cluster's API is cut short, or has more than %d bytes", maxAnswer)
	}
	return valueOf(body, wanted)
}

// valueOf takes one value out of a Secret. A parser's error may quote it, and is not told.
func valueOf(body []byte, wanted *intentpb.KubernetesSecret) ([]byte, error) {
	var answered struct {
		Kind     string
		Metadata struct{ Namespace, Name string }
		Data     map[string][]byte
	}
	if json.Unmarshal(body, &answered) != nil || answered.Kind != "Secret" || answered.Metadata.Name != wanted.GetName() || answered.Metadata.Namespace != wanted.GetNamespace() {
		return nil, fault.New(fault.Unavailable, "what the cluster's API answered is not this Secret")
	}
	var found []byte
	ok := false
	for key, value := range answered.Data {
		if key == wanted.GetKey() {
			found, ok = value, true
		} else {
			clear(value)
		}
	}
	if !ok {
		return nil, fault.New(fault.NotFound, "the Secret has no such key").WithHint("mend key in intent, or the Secret's data")
	}
	return found, nil
}
