package tfcommand

import (
	"crypto/sha256"
	"regexp"
	"strings"
)

func digestOf(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	return sum[:8]
}

// colour is a sequence that colours a terminal, which "state pull" writes whatever it is told;
// the first byte of it may be taken out already.
var colour = regexp.MustCompile(`\x1b?\[[0-9;]+m`)

// plain takes the frame and the colours out of what Terraform writes for people, and makes one
// line of it.
func plain(text string) string {
	text = colour.ReplaceAllString(text, "")
	text = strings.NewReplacer("╷", " ", "│", " ", "╵", " ").Replace(text)
	return strings.Join(strings.Fields(text), " ")
}
