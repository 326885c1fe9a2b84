package endpoint

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/textproto"
	"path/filepath"
	"regexp"
	"strings"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/files"
	"lehr.dev/sdk/secret"
)

// Secrets reads what references name: a resolver.Resolver in the plugin.
type Secrets interface {
	Resolve(ctx context.Context, request secret.Request, ref *intentpb.SecretRef) (secret.Value, error)
}

// Header of each request to an endpoint. Value may have {secret}, which stands for the
// secret that one of the other keys names; it is {secret} alone unless given. White space
// at a secret's end does not count.
type Header struct {
	Name  string `yaml:"name"`
	Value string `yaml:"value"`
	// Env is a variable of the plugin, which begins with LEHR_: Lehr hands no other on.
	Env string `yaml:"env"`
	// File is a path, from the list's folder.
	File string `yaml:"file"`
	// Command is one of the operator's list of secrets.
	Command    string            `yaml:"command"`
	Kubernetes *kubernetesSecret `yaml:"kubernetes"`
	SOPS       *document         `yaml:"sops"`

	// ref names the secret; nil without one. That of a document is made when it is read.
	ref *intentpb.SecretRef
}

// kubernetesSecret is a value of a Secret of the cluster that the list of secrets names.
type kubernetesSecret struct {
	Namespace string `yaml:"namespace"`
	Name      string `yaml:"name"`
	Key       string `yaml:"key"`
}

// document is a file that SOPS encrypted, and where the value is in it.
type document struct {
	// File is a path, from the list's folder.
	File string   `yaml:"file"`
	Path []string `yaml:"path"`
}

// maxDocument is the most bytes of a document.
const maxDocument = 1 << 20

const secretPlace = "{secret}"

var (
	headerName  = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
	headerValue = regexp.MustCompile(`^[^\x00-\x08\x0a-\x1f\x7f]*$`)
)

// check refuses what would send nothing, and finds the file.
func (h *Header) check(folder string) error {
	if !headerName.MatchString(h.Name) {
		return fmt.Errorf("%q is no name of a header", h.Name)
	}
	hasSecret, err := h.name(folder)
	switch {
	case err != nil:
		return fmt.Errorf("header %s: %w", h.Name, err)
	case h.Env != "" && !strings.HasPrefix(h.Env, "LEHR_"):
		return fmt.Errorf("header %s names the variable %s: use one that begins with LEHR_, for Lehr hands no other on", h.Name, h.Env)
	case !hasSecret && (h.Value == "" || strings.Contains(h.Value, secretPlace)):
		return fmt.Errorf("header %s has no value: write value: TEXT, or env, file, command, kubernetes or sops for a secret", h.Name)
	case hasSecret && h.Value != "" && !strings.Contains(h.Value, secretPlace):
		return fmt.Errorf(`header %s has a value without {secret}: write for example value: "Bearer {secret}"`, h.Name)
	}
	switch textproto.CanonicalMIMEHeaderKey(h.Name) {
	case "Host", "Content-Length", "Transfer-Encoding", "Connection", "If-Match", "If-None-Match":
		return fmt.Errorf("header %s is not for a list to set", h.Name)
	}
	if hasSecret && h.Value == "" {
		h.Value = secretPlace
	}
	return nil
}

// name makes the reference to the header's secret.
func (h *Header) name(folder string) (hasSecret bool, err error) {
	places := 0
	for _, isSet := range []bool{h.Env != "", h.File != "", h.Command != "", h.Kubernetes != nil, h.SOPS != nil} {
		if isSet {
			places++
		}
	}
	if places > 1 {
		return true, fmt.Errorf("a secret is in one place, and this names %d: keep one", places)
	}
	switch {
	case h.Env != "":
		h.ref = &intentpb.SecretRef{Source: &intentpb.SecretRef_Env{Env: h.Env}}
	case h.File != "":
		path, err := filepath.Abs(beside(folder, h.File))
		if err != nil {
			return true, err
		}
		h.ref = &intentpb.SecretRef{Source: &intentpb.SecretRef_File{File: path}}
	case h.Command != "":
		h.ref = &intentpb.SecretRef{Source: &intentpb.SecretRef_Command{Command: h.Command}}
	case h.Kubernetes != nil:
		k := h.Kubernetes
		if k.Namespace == "" || k.Name == "" || k.Key == "" {
			return true, errors.New("kubernetes needs namespace, name and key")
		}
		h.ref = &intentpb.SecretRef{Source: &intentpb.SecretRef_Kubernetes{Kubernetes: &intentpb.KubernetesSecret{Namespace: k.Namespace, Name: k.Name, Key: k.Key}}}
	case h.SOPS != nil:
		if h.SOPS.File == "" || len(h.SOPS.Path) == 0 {
			return true, errors.New("sops needs file, and path: where the value is in it")
		}
		h.SOPS.File = beside(folder, h.SOPS.File)
	}
	return places > 0, nil
}

// fill returns what is sent, and the secret in it; "" without one.
func (h *Header) fill(ctx context.Context, secrets Secrets, request secret.Request) (value, found string, err error) {
	if h.ref == nil && h.SOPS == nil {
		return h.Value, "", nil
	}
	if found, err = h.lookUpSecret(ctx, secrets, request); err != nil {
		return "", "", fmt.Errorf("the secret of header %s: %w", h.Name, err)
	}
	value = strings.ReplaceAll(h.Value, secretPlace, found)
	if !headerValue.MatchString(value) {
		return "", "", fmt.Errorf("the secret of header %s cannot be sent in a header: is it one line of text?", h.Name)
	}
	return value, found, nil
}

// lookUpSecret reads the secret, where the operator's list of secrets lets the partition
// and this plugin name it. It is the only place that does.
func (h *Header) lookUpSecret(ctx context.Context, secrets Secrets, request secret.Request) (found string, err error) {
	if secrets == nil {
		return "", errors.New("there is no list of secrets: whoever runs the plugin gives it one, by --secret-list FILE")
	}
	ref := h.ref
	if h.SOPS != nil {
		content, err := files.Read(h.SOPS.File, maxDocument)
		if err != nil {
			return "", err
		}
		digest := sha256.Sum256(content)
		ref = &intentpb.SecretRef{Source: &intentpb.SecretRef_Sops{Sops: &intentpb.SopsSecret{
			Document: &intentpb.ExternalRef{Uri: "file:" + h.SOPS.File, Sha256: digest[:]}, Path: h.SOPS.Path,
		}}}
		request.Blob = func(context.Context, *intentpb.ExternalRef) ([]byte, error) { return content, nil }
	}
	value, err := secrets.Resolve(ctx, request, ref)
	if err != nil {
		return "", err
	}
	defer value.Wipe()
	if found = strings.TrimRight(string(value.Reveal()), " \t\r\n"); found == "" {
		return "", fmt.Errorf("%s is empty", secret.Name(ref))
	}
	return found, nil
}

const redacted = "(redacted)"

// shortest is the length of a secret from which on its text is found and left out of
// what is shown: a shorter one stands in many texts by chance.
const shortest = 6

// redactText removes secrets from what is shown: some APIs show a request in an error.
func redactText(text string, secrets []string) string {
	for _, secret := range secrets {
		if len(secret) >= shortest {
			text = strings.ReplaceAll(text, secret, redacted)
		}
	}
	return text
}
