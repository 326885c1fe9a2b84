package tfcommand

import (
	"crypto/sha256"
	"strings"
)

func digestOf(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	return sum[:8]
}

// plain takes the frame out of what Terraform writes for people, and makes one line of it.
func plain(text string) string {
	text = strings.NewReplacer("╷", " ", "│", " ", "╵", " ").Replace(text)
	return strings.Join(strings.Fields(text), " ")
}
