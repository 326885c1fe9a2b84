package canary

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"strings"
	"testing"
)

// A search that finds nothing shows nothing, unless it finds what is there.
func TestEveryFormIsFound(t *testing.T) {
	c := &Canaries{}
	secret := c.Plant("a test")
	text, err := json.Marshal(map[string]string{"password": secret})
	if err != nil {
		t.Fatal(err)
	}
	for form, shown := range map[string]string{
		"raw": secret, "json": string(text), "json in json": fmt.Sprintf("%q", text), "url": url.QueryEscape(secret), "path": url.PathEscape(secret),
		"html": html.EscapeString(secret), "quoted": fmt.Sprintf("%q", secret), "hex": hex.EncodeToString([]byte(secret)), "HEX": fmt.Sprintf("%X", secret),
		"base64": base64.StdEncoding.EncodeToString([]byte(secret)), "base64 later": base64.StdEncoding.EncodeToString([]byte("x" + secret)),
		"base64 url": base64.URLEncoding.EncodeToString([]byte("xy" + secret + "z")), "basic auth": base64.StdEncoding.EncodeToString([]byte("user:" + secret)),
		"first half": secret[:half], "last half": secret[len(secret)-half:], "bytes": fmt.Sprint([]byte(secret)), "lower": strings.ToLower(secret),
		"cut short": "password " + secret[:len(secret)-half/2] + "…",
	} {
		if found := c.find([]byte("some words " + shown + " and more")); len(found) != 1 {
			t.Errorf("%s: %v were found", form, found)
		}
	}
	if found := c.find([]byte("nothing to see " + (&Canaries{}).Plant("another"))); len(found) > 0 {
		t.Errorf("%v were found in nothing", found)
	}
}
