package pushlog

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"lehr.dev/internal/ground/intent"
)

var now = time.Date(2026, 11, 27, 3, 0, 0, 0, time.UTC)

// told returns what is kept of a push of which these texts were told.
func told(t *testing.T, texts ...string) Log {
	t.Helper()
	b := &Book{}
	b.Open("p")
	for _, text := range texts {
		b.Add("p", text, now)
	}
	kept, ok := b.Read("p")
	if !ok {
		t.Fatal("the log of an open push is not there")
	}
	checkBounds(t, kept)
	return kept
}

// checkBounds holds a log to what a Book promises of it.
func checkBounds(t *testing.T, kept Log) {
	t.Helper()
	bytes := 0
	for _, line := range kept.Lines {
		bytes += len(line.Text)
		if len(line.Text) > MostLine {
			t.Errorf("a line has %d bytes", len(line.Text))
		}
		if !utf8.ValidString(line.Text) || strings.ContainsFunc(line.Text, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("a line is not printable: %q", line.Text)
		}
	}
	if len(kept.Lines) > MostLines || bytes > MostBytes {
		t.Errorf("%d lines of %d bytes are kept", len(kept.Lines), bytes)
	}
}

func texts(kept Log) (list []string) {
	for _, line := range kept.Lines {
		list = append(list, line.Text)
	}
	return list
}

func TestTheLastLinesAreKept(t *testing.T) {
	var all []string
	for i := range 1000 {
		all = append(all, fmt.Sprintf("step %d", i))
	}
	one := told(t, all...)
	many := told(t, strings.Join(all, "\r\n")+"\n")
	for name, kept := range map[string]Log{"one by one": one, "in one text": many} {
		if got := texts(kept); len(got) != MostLines || got[0] != "step 800" || got[199] != "step 999" || kept.Dropped != 800 || !kept.Lines[0].At.Equal(now) {
			t.Errorf("%s: %d lines are kept, %d were dropped: %q", name, len(got), kept.Dropped, got)
		}
	}
	wide := told(t, append(all[:10], strings.Repeat("x", 4000), strings.Repeat(strings.Repeat("y", 3999)+"\n", 20))...)
	if n := len(wide.Lines); n != 16 || wide.Dropped != 15 {
		t.Errorf("of wide lines %d are kept, and %d were dropped", n, wide.Dropped)
	}
	if kept := told(t, "", "\n", "\r\n"); len(kept.Lines) != 0 || kept.Dropped != 0 {
		t.Errorf("nothing is %q", texts(kept))
	}
}

// TestHostileLines: whatever a plugin tells is bounded, printable, and text.
func TestHostileLines(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"control characters":    {"half\x1b[2J\x00\x07 way\u202e", `half\x1b[2J\x00\a way\u202e`},
		"no UTF-8":              {"a\xff\xfe\xc3(b", "a\ufffd(b"},
		"a line of 1 MB":        {strings.Repeat("z", 1<<20), strings.Repeat("z", MostLine) + "…"},
		"a line of 1 MB of ESC": {strings.Repeat("\x1b", 1<<20), `\x1b`},
		"1 MB of runes":         {strings.Repeat("é", 1<<19), "éé"},
		"cut within a rune":     {strings.Repeat("z", MostLine-1) + strings.Repeat("é", 2000), strings.Repeat("z", 100)},
	} {
		kept := told(t, c.text)
		if len(kept.Lines) != 1 || !strings.HasPrefix(kept.Lines[0].Text, c.want[:min(len(c.want), 60)]) {
			t.Errorf("%s: %.200q", name, texts(kept))
		}
		if isLong := len(c.text) > MostLine; isLong != strings.HasSuffix(kept.Lines[0].Text, "…") {
			t.Errorf("%s: that it was cut is not said, or it was not: %.200q", name, texts(kept))
		}
	}
	if kept := told(t, strings.Repeat("\n", 1<<20)+"end"); len(kept.Lines) != MostLines || kept.Dropped != 1<<20+1-MostLines {
		t.Errorf("a million empty lines: %d are kept, %d were dropped", len(kept.Lines), kept.Dropped)
	}
}

// TestSecretsAreNotKept, not even half of one that is cut off, nor one over several lines.
func TestSecretsAreNotKept(t *testing.T) {
	const token = "ghp_0123456789abcdefghijklmnopqrstuvwxyz"
	for at := MostLine - 100; at < MostLine+margin+60; at += 7 {
		if kept := texts(told(t, strings.Repeat("a ", at/2)+token+strings.Repeat(" b", 3000))); strings.Contains(strings.Join(kept, ""), "ghp_") {
			t.Fatalf("a token at byte %d is kept: %s", at, kept[0][len(kept[0])-100:])
		}
	}
	key := "-----BEGIN RSA PRIVATE KEY-----\nMIIEowIBAAKCAQEA75\nq83AA0192837465\n-----END RSA PRIVATE KEY-----"
	for _, parts := range [][]string{{"before", "key " + key, "after"}, append(append([]string{"before"}, strings.Split("key "+key, "\n")...), "after")} {
		kept := strings.Join(texts(told(t, parts...)), "\n")
		if kept != "before\nkey (redacted)\n(redacted)\n(redacted)\n(redacted)\nafter" {
			t.Errorf("of a private key is kept:\n%s", kept)
		}
	}
	hidden := told(t, key[:40]+strings.Repeat("\nMIIEowIBAAKCAQEA75", MostLines+50)+"\n-----END RSA PRIVATE KEY-----\nafter")
	if all := strings.Join(texts(hidden), "\n"); strings.Contains(all, "MIIE") || !strings.HasSuffix(all, "(redacted)\nafter") {
		t.Errorf("a key that begins before what is kept is kept: %.200s", all)
	}
	kept := texts(told(t, "Authorization: Bearer abcdef0123456789abcdef", "DB_PASSWORD=correct-horse-battery", "postgres://app:hunter22@db/app"))
	for _, secret := range []string{"abcdef0123456789", "correct-horse", "hunter22"} {
		if strings.Contains(strings.Join(kept, "\n"), secret) {
			t.Errorf("%s is kept: %q", secret, kept)
		}
	}
	// What only looks like the beginning of a key does not hide the rest of a push for ever.
	long := told(t, "-----BEGIN PRIVATE KEY----- is missing", strings.Repeat("step\n", keyLines+1))
	if last := long.Lines[len(long.Lines)-1].Text; last != "step" {
		t.Errorf("after a key without an end: %q", last)
	}
}

// TestABookIsBounded: what is kept of all pushes has a bound of its own, and what ends is forgotten.
func TestABookIsBounded(t *testing.T) {
	b := &Book{}
	line := strings.Repeat("x", 4000)
	for i := range 100 {
		push := fmtPush(i)
		b.Open(push)
		for range 20 {
			b.Add(push, line, now)
		}
	}
	if most := mostAll + 100*MostLine; b.bytes > most {
		t.Errorf("%d bytes are kept, at most %d should be", b.bytes, most)
	}
	first, _ := b.Read(fmtPush(0))
	last, _ := b.Read(fmtPush(99))
	if len(first.Lines) != 16 || len(last.Lines) != 1 || last.Dropped != 19 {
		t.Errorf("of the first %d lines are kept, of the last %d", len(first.Lines), len(last.Lines))
	}
	for i := range 100 {
		b.Close(fmtPush(i))
		b.Add(fmtPush(i), line, now)
	}
	if _, ok := b.Read(fmtPush(0)); ok || b.bytes != 0 || len(b.logs) != 0 {
		t.Errorf("%d logs of %d bytes are kept of what has ended", len(b.logs), b.bytes)
	}
	b.Open("p")
	b.Add("p", "line", now)
	b.Clear()
	if _, ok := b.Read("p"); ok || b.bytes != 0 {
		t.Error("what was cleared is there")
	}
}

// TestABookIsForManyGoroutines is for the race detector.
func TestABookIsForManyGoroutines(t *testing.T) {
	b := &Book{}
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for j := range 100 {
				b.Open(fmtPush(i))
				b.Add(fmtPush((i+j)%8), "a line", now)
				if kept, ok := b.Read(fmtPush((i + j) % 8)); ok && len(kept.Lines) > 0 {
					kept.Lines[0].Text = "changed by its reader"
				}
				b.Close(fmtPush(i))
			}
		})
	}
	group.Wait()
	if b.bytes != 0 {
		t.Errorf("%d bytes are counted of nothing", b.bytes)
	}
}

func fmtPush(i int) intent.PushID { return intent.PushID(fmt.Sprint("push/", i)) }
