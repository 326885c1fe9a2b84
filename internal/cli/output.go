package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"lehr.dev/internal/ground/fault"
)

// plain makes a text that somebody else wrote harmless to a terminal and
// keeps it on one line: control and formatting characters are shown as
// escapes.
func plain(text string) string {
	if strings.IndexFunc(text, unsafeRune) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case unsafeRune(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// unsafeRune tells control characters, and those that reorder or hide text.
func unsafeRune(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029'
}

// table prints aligned columns under a header.
func table(output io.Writer, header []string, rows [][]string) {
	w := tabwriter.NewWriter(output, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(header, "\t"))
	for _, row := range rows {
		for i, cell := range row {
			row[i] = plain(cell)
			if cell == "" {
				row[i] = "-"
			}
		}
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	w.Flush()
}

// fields prints names and values in two columns; empty values are left out.
func fields(w io.Writer, pairs ...string) {
	width := 0
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			width = max(width, len(pairs[i]))
		}
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			fmt.Fprintf(w, "%-*s  %s\n", width+1, pairs[i]+":", plain(pairs[i+1]))
		}
	}
}

// messageJSON renders a message; the text is stable, unlike protojson's.
func messageJSON(m proto.Message) (json.RawMessage, error) {
	text, err := protojson.MarshalOptions{EmitUnpopulated: false}.Marshal(m)
	if err != nil {
		return nil, fault.New(fault.Internal, "cannot render a %s: %w", m.ProtoReflect().Descriptor().Name(), err)
	}
	return text, nil
}

// printMessage prints one message as JSON.
func printMessage(w io.Writer, m proto.Message) error {
	text, err := messageJSON(m)
	if err != nil {
		return err
	}
	return printJSON(w, text)
}

// printMessages prints an array, also an empty one.
func printMessages(w io.Writer, list []proto.Message) error {
	rendered := make([]json.RawMessage, len(list))
	for i, m := range list {
		text, err := messageJSON(m)
		if err != nil {
			return err
		}
		rendered[i] = text
	}
	return printJSON(w, rendered)
}

// printJSON prints any value indented, with what could steer a terminal as
// escapes.
func printJSON(w io.Writer, value any) error {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		return fault.New(fault.Internal, "cannot render the answer: %w", err)
	}
	_, err := io.WriteString(w, plainJSON(b.String()))
	return err
}

// plainJSON is plain for what is JSON, and may have several lines.
func plainJSON(text string) string {
	var escaped strings.Builder
	for _, r := range text {
		switch {
		case r == '\n' || !unsafeRune(r):
			escaped.WriteRune(r)
		case r > 0xffff:
			high, low := (r-0x10000)>>10+0xd800, (r-0x10000)&0x3ff+0xdc00
			fmt.Fprintf(&escaped, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&escaped, `\u%04x`, r)
		}
	}
	return escaped.String()
}

// age is how long ago a moment was; empty when it is unset.
func (s *session) age(at *timestamppb.Timestamp) string {
	if at == nil {
		return ""
	}
	return short(s.now().Sub(at.AsTime()))
}

// ago is age in a sentence.
func (s *session) ago(at *timestamppb.Timestamp) string {
	if at == nil {
		return ""
	}
	return s.age(at) + " ago"
}

// remaining is how long until a moment; empty when it is unset.
func (s *session) remaining(end *timestamppb.Timestamp) string {
	if end == nil {
		return ""
	}
	if d := end.AsTime().Sub(s.now()); d > 0 {
		return "in " + short(d)
	}
	return "now"
}

// ends is when something ends, or ended, which is still listed; empty when it is unset.
func (s *session) ends(end *timestamppb.Timestamp) string {
	if end != nil && !end.AsTime().After(s.now()) {
		return "ended " + s.ago(end)
	}
	return s.remaining(end)
}

func short(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%dd", int(d.Hours())/24)
	}
}

// brief is a digest's first digits.
func brief(digest string) string { return digest[:min(12, len(digest))] }

// lastName is a type's name without its package.
func lastName(fullName string) string { return fullName[strings.LastIndexByte(fullName, '.')+1:] }

// count puts a number before its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
