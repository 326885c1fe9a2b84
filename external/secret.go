package external

import (
	"os"
	"path/filepath"
	"strings"

	"lehr.dev/fault"
	"lehr.dev/files"
)

// Secret is a text in a variable of the environment or in a file.
type Secret struct {
	Env  string `yaml:"env"`
	File string `yaml:"file"`
}

// given reports whether there is a secret at all.
func (s Secret) given() bool { return s != Secret{} }

// within makes a file's path absolute; false: it is not in one place.
func (s *Secret) within(folder string) bool {
	if (s.Env == "") == (s.File == "") {
		return false
	}
	if s.File != "" && !filepath.IsAbs(s.File) {
		s.File = filepath.Join(folder, s.File)
	}
	return true
}

// value reads the secret; nothing of it is in the error. What says what it is.
func (s Secret) value(what string) (string, error) {
	found := os.Getenv(s.Env)
	if s.File != "" {
		text, err := files.Read(s.File, files.MostGiven)
		if err != nil {
			return "", fault.New(fault.Unavailable, "%s cannot be read: %w", what, err).WithHint("whoever runs the server puts it there")
		}
		found = string(text)
	}
	if found = strings.TrimSpace(found); found == "" {
		return "", fault.New(fault.Unavailable, "%s is empty", what).WithHint("whoever runs the server sets it")
	}
	return found, nil
}
