package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// listen serves HTTP until the script ends, and puts its URL into a variable:
// listen NAME FOLDER. It answers with the folder's file answer, in which NOW is the
// time in seconds, and the status in its file status, if they are there. It adds each
// request to the file asked, a line each: path, whether the signature is by the key in
// the file key ("signed", "forged" or "unsigned"), and the body.
func listen(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: listen NAME FOLDER")
	}
	folder := ts.MkAbs(args[1])
	ts.Check(os.MkdirAll(folder, 0o755))
	file := func(name string) string {
		text, _ := os.ReadFile(filepath.Join(folder, name))
		return strings.TrimSpace(string(text))
	}
	var mutex sync.Mutex
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mutex.Lock()
		defer mutex.Unlock()
		body, err := io.ReadAll(r.Body)
		asked, opened := os.OpenFile(filepath.Join(folder, "asked"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil || opened != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		defer asked.Close()
		fmt.Fprintln(asked, r.URL.Path, signature(r.Header.Get("X-Lehr-Signature"), file("key"), body), string(body))
		if status, err := strconv.Atoi(file("status")); err == nil {
			w.WriteHeader(status)
		}
		_, _ = io.WriteString(w, strings.ReplaceAll(file("answer"), "NOW", fmt.Sprint(time.Now().Unix())))
	}))
	ts.Defer(server.Close)
	ts.Setenv(args[0], server.URL)
}

func signature(given, key string, body []byte) string {
	if given == "" {
		return "unsigned"
	}
	sum := hmac.New(sha256.New, []byte(key))
	sum.Write(body)
	if given == "sha256="+hex.EncodeToString(sum.Sum(nil)) {
		return "signed"
	}
	return "forged"
}
