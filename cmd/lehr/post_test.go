package main

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"lehr.dev/internal/access"
)

// post calls the API over plain HTTP, as any program can, with the token that
// the server left beside its store: post SERVICE/METHOD JSON [TYPE]. What
// stdout then holds is the answer, and on a last line its status. It asks by
// curl, or without one by itself.
func post(ts *testscript.TestScript, negated bool, args []string) {
	if negated || len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: post SERVICE/METHOD JSON [CONTENT-TYPE]")
	}
	server, err := access.ReadRendezvous(ts.MkAbs(".lehr/lehr.db"))
	ts.Check(err)
	url, kind := server.URL+"/lehr.api.v1."+args[0], "application/json"
	if len(args) == 3 {
		kind = args[2]
	}
	body := strings.ReplaceAll(args[1], `\0`, "\x00")
	if _, err := exec.LookPath("curl"); err == nil {
		ts.Check(os.WriteFile(ts.MkAbs("request"), []byte(body), 0o600))
		ts.Check(ts.Exec("curl", "--silent", "--show-error", "--noproxy", "*", "--max-time", "5", "--write-out", `\n%{http_code}\n`,
			"--header", "Authorization: Bearer "+server.Token, "--header", "Content-Type: "+kind, "--data-binary", "@request", url))
		return
	}
	request, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	ts.Check(err)
	request.Header.Set("Authorization", "Bearer "+server.Token)
	request.Header.Set("Content-Type", kind)
	answer, err := http.DefaultClient.Do(request)
	ts.Check(err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs("answer"), append(text, "\n"+answer.Status[:3]+"\n"...), 0o600))
	ts.Check(ts.Exec("cat", "answer"))
}
