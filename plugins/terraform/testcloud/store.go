package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// store is the folder of the cloud.
type store struct{ folder string }

// file is a bucket, as it lies there.
type file struct {
	Name   string  `json:"name"`
	Region string  `json:"region"`
	Env    *string `json:"env,omitempty"`
	Key    *string `json:"key,omitempty"`
}

func (s store) path(name string) string { return filepath.Join(s.folder, name+".json") }

func (s store) read(name string) (*file, error) {
	if err := s.fault("read", name); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(s.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var found file
	if err := json.Unmarshal(text, &found); err != nil {
		return nil, err
	}
	return &found, s.lie(&found)
}

// lie tells of another env at each read, while a file lie.NAME.fault is there.
func (s store) lie(found *file) error {
	path := filepath.Join(s.folder, "lie."+found.Name+".fault")
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	env := fmt.Sprintf("lie-%d", len(text))
	found.Env = &env
	return os.WriteFile(path, append(text, '.'), 0o600)
}

// errUnknown has an operation that was done tell unknown values.
var errUnknown = errors.New("the provider tells an unknown value")

func (s store) write(f file) error {
	text, err := json.Marshal(f)
	if err != nil {
		return err
	}
	return os.WriteFile(s.path(f.Name), text, 0o600)
}

func (s store) remove(name string) error { return os.Remove(s.path(name)) }

// do logs an operation when it begins and when it has ended, and does it in between.
func (s store) do(verb, name string, operation func(store) error) error {
	if err := s.log("begin", verb, name); err != nil {
		return err
	}
	if err := s.fault(verb, name); err != nil {
		return err
	}
	if err := operation(s); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(s.folder, "unknown."+name+".fault")); err == nil {
		return errUnknown
	}
	return s.log("end", verb, name)
}

func (s store) log(words ...string) error {
	log, err := os.OpenFile(filepath.Join(s.folder, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = log.WriteString(strings.Join(words, " ") + "\n")
	return errors.Join(err, log.Close())
}

// fault is what the file VERB.NAME.fault says: "fail", "panic", or "wait", until the file is
// away.
func (s store) fault(verb, name string) error {
	path := filepath.Join(s.folder, verb+"."+name+".fault")
	for {
		text, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		switch kind := strings.TrimSpace(string(text)); kind {
		case "fail":
			return errors.New("it is out of order")
		case "panic":
			panic("the provider panics, as " + path + " says")
		case "wait":
			time.Sleep(10 * time.Millisecond)
		default:
			return fmt.Errorf("%s has %q: a defect of the test", path, kind)
		}
	}
}
