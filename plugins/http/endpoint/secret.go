package endpoint

import (
	"errors"
	"fmt"
	"net/textproto"
	"os"
	"regexp"
	"strings"

	"lehr.dev/internal/ground/files"
)

// Header of each request to an endpoint. Value may have {secret}, which stands for what
// Env or File holds; it is {secret} alone unless given.
type Header struct {
	Name  string `yaml:"name"`
	Value string `yaml:"value"`
	// Env is a variable of the plugin, which begins with LEHR_: Lehr hands no other on.
	Env string `yaml:"env"`
	// File is read anew for each request; white space at its end does not count.
	File string `yaml:"file"`
}

const secretPlace = "{secret}"

var (
	headerName  = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
	headerValue = regexp.MustCompile(`^[^\x00-\x08\x0a-\x1f\x7f]*$`)
)

// check refuses what would send nothing, and finds the file.
func (h *Header) check(folder string) error {
	hasSecret := h.Env != "" || h.File != ""
	switch {
	case !headerName.MatchString(h.Name):
		return fmt.Errorf("%q is no name of a header", h.Name)
	case h.Env != "" && h.File != "":
		return fmt.Errorf("header %s has env and file: keep one", h.Name)
	case h.Env != "" && !strings.HasPrefix(h.Env, "LEHR_"):
		return fmt.Errorf("header %s names the variable %s: use one that begins with LEHR_, for Lehr hands no other on", h.Name, h.Env)
	case !hasSecret && (h.Value == "" || strings.Contains(h.Value, secretPlace)):
		return fmt.Errorf("header %s has no value: write value: TEXT, or env or file for a secret", h.Name)
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
	if h.File != "" {
		h.File = beside(folder, h.File)
	}
	return nil
}

// fill returns what is sent, and the secret in it; "" without one.
func (h *Header) fill() (value, secret string, err error) {
	if h.Env == "" && h.File == "" {
		return h.Value, "", nil
	}
	if secret, err = h.lookUpSecret(); err != nil {
		return "", "", fmt.Errorf("the secret of header %s: %w", h.Name, err)
	}
	value = strings.ReplaceAll(h.Value, secretPlace, secret)
	if !headerValue.MatchString(value) {
		return "", "", fmt.Errorf("the secret of header %s cannot be sent in a header: is it one line of text?", h.Name)
	}
	return value, secret, nil
}

// lookUpSecret reads the secret from where the operator's list says that it is. It is
// the only place that does.
func (h *Header) lookUpSecret() (secret string, err error) {
	if h.Env != "" {
		secret = os.Getenv(h.Env)
		if secret == "" {
			return "", fmt.Errorf("the variable %s is empty: set it where Lehr is started", h.Env)
		}
		return secret, nil
	}
	text, err := files.Read(h.File, 1<<20)
	if err != nil {
		return "", err
	}
	if secret = strings.TrimRight(string(text), " \t\r\n"); secret == "" {
		return "", errors.New("its file is empty")
	}
	return secret, nil
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
