package secret

import "lehr.dev/internal/ground/secrecy"

// RedactLikely replaces what Redact does and, beside it, what looks like a secret: a key, a
// token, the value of a field that is called a password. It is for texts that others wrote and
// nobody has read before they are shown, such as the log of a program.
func RedactLikely(text string) string { return secrecy.Redact(Redact(text)) }
