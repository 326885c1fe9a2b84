package external

import (
	"os"
	"path/filepath"
	"strings"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/files"
)

// Secret is a text in a variable of the environment or in a file.
type Secret struct {
	Env  string `yaml:"env"`
	File string `yaml:"file"`
}

// isSet reports whether there is a secret at all.
func (s Secret) isSet() bool { return s != Secret{} }

// makeAbsolute makes a file's path absolute; false: it is not in one place.
func (s *Secret) makeAbsolute(folder string) bool {
	if (s.Env == "") == (s.File == "") {
		return false
	}
	if s.File != "" && !filepath.IsAbs(s.File) {
		s.File = filepath.Join(folder, s.File)
	}
	return true
}

// value reads the secret; nothing of it is in the error. What says what it is.
func (s Secret) value(label string) (string, error) {
	secret := os.Getenv(s.Env)
	if s.File != "" {
		text, err := files.Read(s.File, files.MostGiven)
		if err != nil {
			return "", fault.New(fault.Unavailable, "%s cannot be read: %w", label, err).WithHint("whoever runs the server puts it there")
		}
		secret = string(text)
	}
	if secret = strings.TrimSpace(secret); secret == "" {
		return "", fault.New(fault.Unavailable, "%s is empty", label).WithHint("whoever runs the server sets it")
	}
	return secret, nil
}
