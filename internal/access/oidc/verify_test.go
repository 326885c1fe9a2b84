package oidc_test

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"

	"crypto/rand"
	"crypto/rsa"

	"lehr.dev/internal/access/oidc"
	"lehr.dev/internal/ground/fault"
)

func TestVerifiesWhoSomebodyIs(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	for name, c := range map[string]struct {
		token, nonce string
		want         oidc.Person
	}{
		"RS256":               {i.good(nil), "n", oidc.Person{Name: "ann@example.com", Groups: []string{"platform", "sre"}}},
		"EdDSA":               {i.sign(jose.EdDSA, i.edwards, "ed", i.claims(nil)), "n", oidc.Person{Name: "ann@example.com", Groups: []string{"platform", "sre"}}},
		"of several services": {i.good(map[string]any{"aud": []string{"mail", "cli"}, "groups": nil}), "n", oidc.Person{Name: "ann@example.com"}},
		"one group":           {i.good(map[string]any{"groups": "sre"}), "n", oidc.Person{Name: "ann@example.com", Groups: []string{"sre"}}},
		"verified in words":   {i.good(map[string]any{"email_verified": "true", "groups": nil}), "n", oidc.Person{Name: "ann@example.com"}},
		"by device":           {i.good(map[string]any{"nonce": nil, "groups": nil}), "", oidc.Person{Name: "ann@example.com"}},
		"clocks apart":        {i.good(map[string]any{"iat": i.now.Load() + 50, "exp": i.now.Load() - 50, "groups": nil}), "n", oidc.Person{Name: "ann@example.com"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := i.provider.Verify(t.Context(), c.token, c.nonce)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRefusesTokens(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	stranger, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	many := make([]string, 1001)
	for n := range many {
		many[n] = "g"
	}
	text, err := json.Marshal(i.claims(nil))
	if err != nil {
		t.Fatal(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	with := func(name string, value any) string { return i.good(map[string]any{name: value}) }
	good := i.good(nil)
	altered := strings.Split(good, ".")
	altered[1] = encode([]byte(strings.Replace(string(text), "ann@", "eve@", 1)))
	for name, c := range map[string]struct{ token, nonce, want string }{
		"alg none":                 {encode([]byte(`{"alg":"none"}`)) + "." + encode(text) + ".", "n", "malformed jwt"},
		"alg none, signature kept": {encode([]byte(`{"alg":"none","kid":"rsa"}`)) + "." + encode(text) + "." + altered[2], "n", "malformed jwt"},
		"HS256 with public key":    {i.sign(jose.HS256, i.public(i.private.Public()), "rsa", i.claims(nil)), "n", "malformed jwt"},
		"another's key":            {i.sign(jose.RS256, stranger, "rsa", i.claims(nil)), "n", "signature"},
		"altered":                  {strings.Join(altered, "."), "n", "signature"},
		"another issuer":           {with("iss", "https://accounts.example.com"), "n", "different provider"},
		"issuer with a slash":      {with("iss", i.server.URL+"/"), "n", "different provider"},
		"another audience":         {with("aud", "mail"), "n", "audience"},
		"no audience":              {with("aud", nil), "n", "audience"},
		"given to another":         {with("azp", "mail"), "n", "azp"},
		"of several, given to?":    {i.good(map[string]any{"aud": []string{"mail", "cli"}, "azp": nil}), "n", "azp"},
		"expired":                  {with("exp", i.now.Load()-61), "n", "expired"},
		"without an end":           {with("exp", nil), "n", "expired"},
		"old":                      {with("iat", i.now.Load()-661), "n", "more than 10m0s ago"},
		"without a beginning":      {with("iat", nil), "n", "more than 10m0s ago"},
		"from the future":          {with("iat", i.now.Load()+61), "n", "still to come"},
		"another nonce":            {with("nonce", "m"), "n", "nonce"},
		"missing nonce":            {with("nonce", nil), "n", "nonce"},
		"nonce that none asked":    {good, "", "nonce"},
		"nobody":                   {with("sub", nil), "n", "about nobody"},
		"unverified e-mail":        {with("email_verified", false), "n", "has not verified that ann@example.com"},
		"e-mail of who knows":      {with("email_verified", nil), "n", "has not verified"},
		"no name":                  {with("email", nil), "n", `no "email"`},
		"name that is no text":     {with("email", 7), "n", `no "email"`},
		"name with a line break":   {with("email", "ann@example.com\nadmin"), "n", `"email" is no name`},
		"name that hides":          {with("email", "ann@example.com\u202e"), "n", `"email" is no name`},
		"name of endless length":   {with("email", strings.Repeat("a", 201)), "n", `"email" is no name`},
		"groups that are no texts": {with("groups", []any{"sre", 7}), "n", `"groups"`},
		"groups of another form":   {with("groups", map[string]any{"sre": true}), "n", `"groups": it is no list`},
		"empty group":              {with("groups", []string{""}), "n", `"groups"`},
		"endless groups":           {with("groups", many), "n", "more than 1000"},
		"groups are elsewhere": {i.good(map[string]any{"groups": nil, "_claim_names": map[string]string{"groups": "s"},
			"_claim_sources": map[string]any{"s": map[string]string{"endpoint": "http://127.0.0.1:1/"}}}), "n", "where to ask"},
		"endless":  {strings.Repeat("a", 16<<10+1), "n", "more than 16384 bytes"},
		"no token": {"hello", "n", "malformed jwt"},
		"empty":    {"", "", "malformed jwt"},
	} {
		t.Run(name, func(t *testing.T) {
			person, err := i.provider.Verify(t.Context(), c.token, c.nonce)
			if !fault.Is(err, fault.Denied) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %+v, %v; want it denied for %q", person, err, c.want)
			}
		})
	}
}

// A provider that is down is asked again when somebody logs in, and never so
// often that it would be a burden.
func TestAsksTheProviderAgain(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	i.down.Store(true)
	for range 2 {
		if _, err := i.provider.Verify(t.Context(), i.good(nil), "n"); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "tokens and the local command line go on") {
			t.Fatalf("while it is down: %v", err)
		}
	}
	i.down.Store(false)
	i.now.Add(2)
	if _, err := i.provider.Verify(t.Context(), i.good(nil), "n"); err != nil {
		t.Fatalf("once it is up: %v", err)
	}
	before := i.asked.Load()
	made := i.sign(jose.RS256, i.private, "unheard of", i.claims(nil))
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, err := i.provider.Verify(t.Context(), made, "n"); !fault.Is(err, fault.Denied) {
				t.Errorf("a key that is not published: %v", err)
			}
		})
	}
	all.Wait()
	if asked := i.asked.Load() - before; asked > 3 {
		t.Errorf("for 20 that come at once it was asked for its keys %d times", asked)
	}
	i.now.Add(2)
	i.down.Store(true)
	if _, err := i.provider.Verify(t.Context(), i.good(nil), "n"); err != nil {
		t.Errorf("a key that is known: %v", err)
	}
}

func TestAProviderThatIsAnother(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	config := i.config
	config.Issuer += "/"
	_, err := oidc.New(config, nil, i.time).Verify(t.Context(), i.good(nil), "n")
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "exactly as the provider says") {
		t.Errorf("got %v", err)
	}
	config.Issuer = "http://accounts.example.com"
	if _, err := oidc.New(config, nil, i.time).Verify(t.Context(), i.good(nil), "n"); err == nil || !strings.Contains(err.Error(), "no https address") {
		t.Errorf("asked in the clear: %v", err)
	}
}

// A proof that somebody gives to one server is none for another.
func TestANonceNamesAServer(t *testing.T) {
	t.Parallel()
	nonce := func(server string) string { return "r." + base64.RawURLEncoding.EncodeToString([]byte(server)) }
	ours := []*url.URL{{Scheme: "https", Host: "lehr.example.com"}, {Scheme: "https", Host: "lehr.example.com:7474"}}
	for _, c := range []struct {
		nonce     string
		far, here bool
	}{
		{nonce("https://lehr.example.com"), true, true},
		{nonce("https://lehr.example.com:7474"), true, true},
		{nonce("http://127.0.0.1:7474"), false, true},
		{nonce("https://localhost:7474"), false, true},
		{nonce("https://evil.example"), false, false},
		{nonce("http://lehr.example.com"), false, false},
		{nonce("https://lehr.example.com/"), false, false},
		{nonce(""), false, false},
		{"r", false, false},
		{"r.not base64", false, false},
	} {
		if far, here := oidc.MeantFor(c.nonce, ours, false), oidc.MeantFor(c.nonce, ours, true); far != c.far || here != c.here {
			t.Errorf("%s: from afar %v, from this machine %v", c.nonce, far, here)
		}
	}
}
