package secret

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestAKnownValueIsRedactedInEveryForm that a message may have of it.
func TestAKnownValueIsRedactedInEveryForm(t *testing.T) {
	value := "p4ss/\"<&+ %é'\\word\nof two lines"
	r, digest := newRedactor(), Digest{0xab, 0x12}
	r.know("env", []byte(value), digest)
	quoted, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"plain": value, "json": string(quoted), "go": fmt.Sprintf("%q", value), "ascii": fmt.Sprintf("%+q", value),
		"query": url.QueryEscape(value), "path": url.PathEscape(value),
		"hex": hex.EncodeToString([]byte(value)), "HEX": fmt.Sprintf("%X", value),
		"base64": base64.StdEncoding.EncodeToString([]byte(value)), "url base64": base64.URLEncoding.EncodeToString([]byte(value)),
		"basic auth 5": base64.StdEncoding.EncodeToString([]byte("user:" + value + "!")),
		"basic auth 4": base64.StdEncoding.EncodeToString([]byte("usr:" + value)),
		"basic auth 6": base64.StdEncoding.EncodeToString([]byte("users:" + value)),
		"one line":     "of two lines",
		"other line":   `p4ss/"<&+ %é'\word`,
	} {
		got := r.redact("before " + text + " after")
		if !strings.Contains(got, digest.Words()) || !strings.HasPrefix(got, "before ") || !strings.HasSuffix(got, " after") {
			t.Errorf("%s: %s", name, got)
		}
		if strings.Contains(got, text) || len(got) > len("before  after")+len(digest.Words())+12 {
			t.Errorf("%s shows too much: %s", name, got)
		}
	}
	for _, harmless := range []string{"", "p4ss", "before after", strings.Repeat("x", 1000)} {
		if got := r.redact(harmless); got != harmless {
			t.Errorf("%q became %q", harmless, got)
		}
	}
}

func TestShortValuesAreLetThrough(t *testing.T) {
	r := newRedactor()
	r.know("env", []byte("hello"), Digest{1})
	if got := r.redact("hello, world"); got != "hello, world" {
		t.Error(got)
	}
}

// TestTheLastValuesAreRemembered: after a rotation production has the old one still,
// and the memory is bounded.
func TestTheLastValuesAreRemembered(t *testing.T) {
	r := newRedactor()
	for i := range remembered + 2 {
		r.know("env", fmt.Appendf(nil, "password-%d", i), Digest{byte(i)})
	}
	r.know("env", []byte("password-2"), Digest{2}) // Again: it is the newest now.
	r.know("env", []byte("password-9"), Digest{9})
	for i, want := range map[int]bool{0: false, 1: false, 2: true, 3: false, 4: true, 5: true, 9: true} {
		text := fmt.Sprintf("password-%d", i)
		if got := r.redact(text); (got != text) != want {
			t.Errorf("%s: %s", text, got)
		}
	}
	for i := range 2000 {
		r.know(fmt.Sprint("file ", i), fmt.Appendf(nil, "another password of number %d", i), Digest{byte(i), byte(i >> 8)})
	}
	if r.forms > maxForms {
		t.Errorf("%d forms are kept", r.forms)
	}
	if text := "another password of number 1999"; r.redact(text) == text {
		t.Error("the newest is not known")
	}
}

// TestNothingOfAValueIsLeft wherever it stands and however often.
func TestNothingOfAValueIsLeft(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRedactor()
		value := rapid.SliceOfN(rapid.Byte(), shortest, 60).Draw(t, "value")
		r.know("file", value, Digest{7})
		text := rapid.String().Draw(t, "before")
		for range rapid.IntRange(1, 3).Draw(t, "times") {
			text += string(value) + rapid.StringMatching("[a-z]{0,9}").Draw(t, "between")
		}
		if got := r.redact(text); strings.Contains(got, string(value)) {
			t.Fatalf("%q holds %q", got, value)
		}
	})
}

// TestAValuePrintsAsNothing by every verb and encoder, also as a field that is not exported.
func TestAValuePrintsAsNothing(t *testing.T) {
	value := NewValue([]byte("hunter2!"), Digest{})
	type outer struct{ inner Value }
	within := outer{value}
	encoded, err := json.Marshal(map[string]any{"a": value, "b": &value})
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("a", "value", value, "within", within)
	slog.New(slog.NewJSONHandler(&log, nil)).Info("a", "value", value, "within", within)
	for _, text := range []string{
		fmt.Sprint(value), fmt.Sprintf("%v %+v %#v %s %q %x %d", value, value, value, value, value, value, value),
		fmt.Sprintf("%v %+v %#v", within, within, within), fmt.Sprintf("%+v", &within), value.String(), string(encoded), log.String(),
	} {
		for _, shown := range []string{"hunter2!", "68756e", "104 117", "0x68, 0x75"} {
			if strings.Contains(text, shown) {
				t.Errorf("it shows in %s", text)
			}
		}
	}
	if string(value.Reveal()) != "hunter2!" {
		t.Error("it is not revealed")
	}
	content := value.Reveal()
	value.Wipe()
	if value.Reveal() != nil || string(content) != "\x00\x00\x00\x00\x00\x00\x00\x00" {
		t.Errorf("it is not wiped: %q", content)
	}
}
