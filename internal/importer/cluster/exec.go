package cluster

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/secrecy"
)

// execUser is a program that logs in, as kubectl runs it: aws eks get-token,
// gke-gcloud-auth-plugin, kubelogin.
type execUser struct {
	Command     string                         `yaml:"command"`
	Args        []string                       `yaml:"args"`
	Env         []struct{ Name, Value string } `yaml:"env"`
	APIVersion  string                         `yaml:"apiVersion"`
	InstallHint string                         `yaml:"installHint"`
	WithCluster bool                           `yaml:"provideClusterInfo"`
}

// mostExec bounds a program that logs in.
const mostExec = time.Minute

// credential is what such a program prints.
type credential struct {
	Kind   string `json:"kind"`
	Status struct {
		Token                 string `json:"token"`
		ClientCertificateData string `json:"clientCertificateData"`
		ClientKeyData         string `json:"clientKeyData"`
	} `json:"status"`
}

// login runs the program, and gives its certificate to the configuration or returns its
// token. What it prints is a secret and is never shown.
func (e execUser) login(ctx context.Context, kubeconfig, server string, authority []byte, config *tls.Config) (token string, err error) {
	ctx, cancel := context.WithTimeout(ctx, mostExec)
	defer cancel()
	program := e.Command
	if strings.ContainsRune(program, filepath.Separator) && !filepath.IsAbs(program) {
		program = filepath.Join(filepath.Dir(kubeconfig), program) // As kubectl reads it.
	}
	command := exec.CommandContext(ctx, program, e.Args...)
	command.WaitDelay = time.Second
	command.Env = append(os.Environ(), "KUBERNETES_EXEC_INFO="+e.info(server, authority))
	for _, variable := range e.Env {
		command.Env = append(command.Env, variable.Name+"="+variable.Value)
	}
	var said, complaint bytes.Buffer
	command.Stdout, command.Stderr = &said, &complaint
	if err := command.Run(); err != nil {
		const hint = "run it by hand, or kubectl get namespaces with this kubeconfig: it says the same"
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
			return "", fault.New(fault.NotFound, "the kubeconfig's user logs in by the program %s, which is not there", e.Command).WithHint("%s", orText(e.InstallHint, "install it, and put it into PATH"))
		}
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return "", fault.New(fault.Unavailable, "the program %s, by which the kubeconfig's user logs in: %w: %.300s", e.Command, err, secrecy.Redact(strings.TrimSpace(complaint.String()))).WithHint(hint)
	}
	var c credential
	if json.Unmarshal(said.Bytes(), &c) != nil || c.Kind != "ExecCredential" || c.Status.Token == "" && c.Status.ClientCertificateData == "" {
		return "", fault.New(fault.Invalid, "the program %s, by which the kubeconfig's user logs in, printed no ExecCredential with a token or a certificate", e.Command).
			WithHint("what it has to print is told at https://kubernetes.io/docs/reference/access-authn-authz/authentication/#client-go-credential-plugins")
	}
	if c.Status.ClientCertificateData != "" {
		pair, err := tls.X509KeyPair([]byte(c.Status.ClientCertificateData), []byte(c.Status.ClientKeyData))
		if err != nil {
			return "", fault.New(fault.Invalid, "the certificate that the program %s printed: %w", e.Command, err).WithHint("log in anew with it")
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return c.Status.Token, nil
}

// info is what the program is told, in KUBERNETES_EXEC_INFO.
func (e execUser) info(server string, authority []byte) string {
	spec := map[string]any{"interactive": false}
	if e.WithCluster {
		spec["cluster"] = map[string]any{"server": server, "certificate-authority-data": authority}
	}
	text, err := json.Marshal(map[string]any{"kind": "ExecCredential", "apiVersion": orText(e.APIVersion, "client.authentication.k8s.io/v1"), "spec": spec})
	if err != nil {
		return "{}" // It is of texts, which JSON has.
	}
	return string(text)
}

func orText(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}
