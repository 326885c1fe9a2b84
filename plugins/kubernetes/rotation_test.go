package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/plugins/kubernetes/plane"
	"lehr.dev/sdk/serve"
)

// TestCertificatesAreRotated: the authority, the server's certificate and the client's are
// replaced while both run. The plugin goes on, without a restart, and nothing is told as
// different meanwhile.
func TestCertificatesAreRotated(t *testing.T) {
	p := plane.Start(t)
	p.UseCertificates()
	c := (&cluster{T: t, plane: p, list: writeList(t, p)}).with(t, "rotated")
	c.watched()
	asset := c.settings("rotated")
	c.recalled(asset)
	for range 2 {
		p.RotateCertificates()
		p.Wait("the new certificates to be used", func() error {
			switch d := c.diff(asOfNow(asset)); d.Outcome {
			case serve.InSync:
				return nil
			case serve.Unknown:
				return errors.New(d.Reason)
			default:
				t.Fatalf("meanwhile it is %v %s", d.Outcome, changes(d))
				return nil
			}
		})
	}
	// Connections of before may live on; a server that is started anew has none.
	p.KillServer()
	p.StartServer()
	c.byHand("/api/v1/namespaces/rotated/configmaps/settings", http.MethodPatch, `{"data":{"a":"theirs"}}`)
	p.Wait("an edit to be told", func() error {
		if d := c.diff(asset); d.Outcome != serve.Differs {
			return fmt.Errorf("it is %v %s", d.Outcome, d.Reason)
		}
		return nil
	})
	c.mustPush(asset)
	c.recalled(asset)
}

// TestATokenIsReplaced: a token that the server takes no more makes assets unknown; the one that
// replaces it in its file, in the kubeconfig, or by the program that logs in, is used without a restart.
func TestATokenIsReplaced(t *testing.T) {
	p := plane.Start(t)
	good, err := os.ReadFile(p.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	_, token, _ := strings.Cut(string(good), "token: ")
	token, _, _ = strings.Cut(token, "}")
	file := filepath.Join(t.TempDir(), "token")
	write := func(path, text string) {
		t.Helper()
		if err := errors.Join(os.WriteFile(path+".new", []byte(text), 0o600), os.Rename(path+".new", path)); err != nil {
			t.Fatal(err)
		}
	}
	inline := string(good)
	inFile := strings.Replace(inline, "token: "+token, fmt.Sprintf("tokenFile: %q", file), 1)
	program := filepath.Join(t.TempDir(), "login")
	script := fmt.Sprintf("#!/bin/sh\nprintf '{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\"status\":{\"token\":\"%%s\"}}' \"$(cat %s)\"\n", file)
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	byProgram := strings.Replace(inline, "token: "+token, fmt.Sprintf("exec: {apiVersion: client.authentication.k8s.io/v1, command: %q, interactiveMode: Never}", program), 1)
	c := (&cluster{T: t, plane: p, list: writeList(t, p)}).with(t, "tokens")
	asset := c.settings("tokens")
	is := func(want intent.Outcome, words string) {
		t.Helper()
		p.Wait("the token to count", func() error {
			if d := c.diff(asset); d.Outcome != want || !strings.Contains(d.Reason, words) {
				return fmt.Errorf("it is %v %s", d.Outcome, d.Reason)
			}
			return nil
		})
	}
	for name, replace := range map[string]func(token string){
		"in the kubeconfig": func(other string) { write(p.Kubeconfig, strings.Replace(inline, token, other, 1)) },
		"in a file":         func(other string) { write(file, other); write(p.Kubeconfig, inFile) },
		"of a program":      func(other string) { write(file, other); write(p.Kubeconfig, byProgram) },
	} {
		t.Log(name)
		replace("expired-token")
		is(serve.Unknown, "Unauthorized")
		replace(token)
		is(serve.InSync, "")
	}
}
