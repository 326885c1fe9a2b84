// Package secrecy tells texts that are secrets, or hold one, by their form, by the
// name that they have, and by what was known to be secret elsewhere; and takes them
// out of what is shown. Imports, the renderer of Kubernetes' objects, lint, shown
// differences and logs all ask it, so that what is a secret to one is one to all. It
// is pure, and says what something looks like, never what it is (S13).
package secrecy

import (
	"encoding/base64"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
)

// Redacted stands where a secret would be.
const Redacted = "(redacted)"

// form of secrets that are known by how they are written. What is in group 1, or all
// of it, is the secret.
type form struct {
	kind string
	// hint is a text that each has, in small letters, or several of which each has one,
	// with | between them: most texts have none, and no pattern is tried.
	hint    string
	pattern *regexp.Regexp
}

// header is the hint of headers that let somebody in.
const header = "bearer|basic"

// forms are compiled when the first text is searched: most processes search none.
var forms = sync.OnceValue(func() []hintedForm {
	return withHints([]form{
		{"a private key", "private key", regexp.MustCompile(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----[\s\S]*?(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|$)`)},
		{"a private key of age", "age-secret-key-", regexp.MustCompile(`\bAGE-SECRET-KEY-1[0-9A-Z]{20,}`)},
		{"a private key in PuTTY's form", "putty-user-key-file", regexp.MustCompile(`PuTTY-User-Key-File-[\s\S]*`)},
		{"a key of AWS", "akia|asia", regexp.MustCompile(`\b(?:AKIA|ASIA)[0-9A-Z]{16}\b`)},
		{"a token of GitHub", "ghp_|gho_|ghu_|ghs_|ghr_", regexp.MustCompile(`\bgh[pousr]_[A-Za-z0-9]{30,}`)},
		{"a token of GitHub", "github_pat_", regexp.MustCompile(`\bgithub_pat_[A-Za-z0-9_]{22,}`)},
		{"a token of GitLab", "gl", regexp.MustCompile(`\bgl(?:pat|ptt|dt|rt|cbt|soat)-[A-Za-z0-9_-]{20,}`)},
		{"a token of Slack", "xox", regexp.MustCompile(`\bxox[abeposr]-[A-Za-z0-9-]{10,}`)},
		{"a webhook of Slack", "hooks.slack.com", regexp.MustCompile(`https://hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9/_-]{12,}`)},
		{"a webhook of Discord", "webhooks/", regexp.MustCompile(`https://(?:\w+\.)?discord(?:app)?\.com/api/webhooks/\d+/[A-Za-z0-9_-]{20,}`)},
		{"a webhook of Teams", "webhook.office.com", regexp.MustCompile(`https://[a-z0-9-]+\.webhook\.office\.com/webhookb2/\S{20,}`)},
		{"a key of Google", "aiza", regexp.MustCompile(`\bAIza[A-Za-z0-9_-]{35}`)},
		{"a token of Google", "ya29.", regexp.MustCompile(`\bya29\.[A-Za-z0-9_-]{20,}`)},
		{"a key of Stripe", "k_live_|k_test_|whsec_", regexp.MustCompile(`\b(?:[rs]k_(?:live|test)|whsec)_[A-Za-z0-9]{16,}`)},
		{"a token of npm", "npm_", regexp.MustCompile(`\bnpm_[A-Za-z0-9]{36}`)},
		{"a token of PyPI", "pypi-", regexp.MustCompile(`\bpypi-[A-Za-z0-9_-]{30,}`)},
		{"a token of Docker", "dckr_pat_", regexp.MustCompile(`\bdckr_pat_[A-Za-z0-9_-]{20,}`)},
		{"a token of DigitalOcean", "_v1_", regexp.MustCompile(`\bdo[opr]_v1_[a-f0-9]{40,}`)},
		{"a token of Vault", "hv", regexp.MustCompile(`\bhv[sbr]\.[A-Za-z0-9_-]{20,}`)},
		{"a token of Terraform Cloud", ".atlasv1.", regexp.MustCompile(`\b[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{40,}`)},
		{"a key of SendGrid", "sg.", regexp.MustCompile(`\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}`)},
		{"a key of OpenAI or Anthropic", "sk-", regexp.MustCompile(`\bsk-(?:ant-|proj-|svcacct-)?[A-Za-z0-9_-]{32,}`)},
		{"a token of Hugging Face", "hf_", regexp.MustCompile(`\bhf_[A-Za-z0-9]{30,}`)},
		{"a token of Datadog or the like", "dd", regexp.MustCompile(`\bdd[a-z]{1,3}_[A-Za-z0-9]{32,}`)},
		{"a token of Grafana", "gl", regexp.MustCompile(`\bgl(?:sa|c)_[A-Za-z0-9+/=_]{20,}`)},
		{"a bootstrap token of Kubernetes' service accounts", "eyj", regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}(?:\.[A-Za-z0-9_-]+)?`)},
		{"a hash of a password", "$", regexp.MustCompile(`\$2[abxy]\$\d\d\$[./A-Za-z0-9]{8,}|\$(?:5|6|y|argon2id?|scrypt)\$[^\s"']{16,}|\$apr1\$[^\s"']{12,}`)},
		{"a key of a storage account", "key=", regexp.MustCompile(`(?i)\b(?:Account|SharedAccess|Access)Key=([A-Za-z0-9+/=]{16,})`)},
		{"a signed URL", "sig", regexp.MustCompile(`(?i)[?&;](?:sig|signature|x-amz-signature|x-goog-signature|sharedaccesssignature)=([A-Za-z0-9%+/=_-]{16,})`)},
		{"a header that lets somebody in", header, regexp.MustCompile(`(?i)\b(?:bearer|basic)\s+([A-Za-z0-9._~+/=-]{8,})`)},
	})
})

// credentials are those of a URL: a user's password, or a token in the user's place.
var credentials = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://([^/\s:@"'?#]*)(?::([^/\s@"']+))?@[A-Za-z0-9\[_.{$-]`)

// assignment is a name with a value, as programs' arguments, files of settings and
// scripts have it.
var assignment = regexp.MustCompile(`([A-Za-z_][A-Za-z0-9_.\-]*)["']?[ \t]*(:=|=>|[=:])[ \t]*("(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[^\s"',;&|}\])]+)`)

// assignsSecret reports whether some text before a sign of an assignment names a secret.
// Most texts with a sign have none, and the pattern is slow.
func assignsSecret(text string) bool {
	for next := 0; ; {
		at := strings.IndexAny(text[next:], "=:")
		if at < 0 {
			return false
		}
		at += next
		next = at + 1
		leading := strings.TrimRight(text[:at], " \t")
		if end := len(leading) - 1; end >= 0 && (leading[end] == '"' || leading[end] == '\'') {
			leading = leading[:end]
		}
		start := len(leading)
		for start > 0 && isOfName(leading[start-1]) {
			start--
		}
		if name := strings.TrimLeft(leading[start:], "0123456789.-"); name != "" && Name(name) {
			return true
		}
	}
}

// isOfName reports whether a byte may be part of the name of an assignment.
func isOfName(b byte) bool {
	return 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || b == '_' || b == '.' || b == '-'
}

// flagged is an option with its value behind it.
var flagged = regexp.MustCompile(`(?:^|\s)--?([A-Za-z][A-Za-z0-9_.-]*)\s+("[^"\n]*"|'[^'\n]*'|[^\s"'-]\S*)`)

// mysql is an option without a space that programs of databases have.
var mysql = regexp.MustCompile(`(?:mysql|mysqldump|mysqladmin|mariadb)\b[^\n|;]*?\s-p([^\s"']{4,})`)

// curl is a user with a password.
var curl = regexp.MustCompile(`(?:^|\s)(?:-u|--user)[\s=]["']?[^\s:"']+:([^\s"']{4,})`)

// place of a secret in a text.
type place struct {
	start, end int
	kind       string
}

// Text says what a text looks like that is a secret or holds one: "a private key".
func Text(text string) (kind string, ok bool) {
	places := look(text, true)
	if len(places) == 0 {
		return "", false
	}
	return places[0].kind, true
}

// Redact takes out of a text what looks like a secret.
func Redact(text string) string {
	places := look(text, false)
	if len(places) == 0 {
		return text
	}
	slices.SortFunc(places, func(a, b place) int { return a.start - b.start })
	var out strings.Builder
	end := 0
	for _, p := range places {
		if p.start < end {
			end = max(end, p.end)
			continue
		}
		out.WriteString(text[end:p.start])
		out.WriteString(Redacted)
		end = p.end
	}
	out.WriteString(text[min(end, len(text)):])
	return out.String()
}

// secretKind is a manifest of Kubernetes, as text, whose data is secret.
var secretKind = regexp.MustCompile(`(?m)^["']?kind["']?[ \t]*:[ \t]*["']?Secret["']?[ \t]*$`)

var secretFields = regexp.MustCompile(`(?m)^(?:data|stringData):[ \t]*(?:\{[ \t]*[^} \t]|\n[ \t]+\S)`)

// shortest text that is looked at.
const shortest = 8

// look finds secrets in a text; one suffices.
func look(text string, one bool) (places []place) {
	if len(text) < shortest {
		return nil
	}
	small := strings.ToLower(text)
	letters := pairsIn(small)
	for i := range forms() {
		form := &forms()[i]
		if !form.hinted(small, letters) {
			continue
		}
		for _, at := range form.pattern.FindAllStringSubmatchIndex(text, -1) {
			start, end := at[0], at[1]
			if len(at) > 2 && at[2] >= 0 {
				start, end = at[2], at[3]
			}
			if form.hint == header && !lets(text[start:end]) {
				continue
			}
			if places = append(places, place{start, end, form.kind}); one {
				return places
			}
		}
	}
	add := func(start, end int, kind string) bool {
		places = append(places, place{start, end, kind})
		return one
	}
	if strings.Contains(small, "secret") && secretKind.MatchString(text) {
		if at := secretFields.FindStringIndex(text); at != nil && add(at[0], len(text), "a Secret of Kubernetes") {
			return places
		}
	}
	if strings.Contains(text, "://") {
		for _, at := range credentials.FindAllStringSubmatchIndex(text, -1) {
			switch {
			case at[4] >= 0 && plausible(text[at[4]:at[5]], 1):
				if add(at[4], at[5], "a URL with a password") {
					return places
				}
			case at[4] < 0 && at[3]-at[2] >= 20 && random(text[at[2]:at[3]]):
				if add(at[2], at[3], "a URL with a token") {
					return places
				}
			}
		}
	}
	if assignsSecret(text) {
		for _, at := range assignment.FindAllStringSubmatchIndex(text, -1) {
			start, end := unquoted(text, at[6], at[7])
			if Name(text[at[2]:at[3]]) && plausible(text[start:end], leastOf(text[at[4]:at[5]])) && !strings.Contains(text[start:end], "://") && !spoken(text, at[4:]) && add(start, end, "an assignment of a secret") {
				return places
			}
		}
	}
	if strings.Contains(text, "-") && strings.Contains(text, " ") {
		for _, at := range flagged.FindAllStringSubmatchIndex(text, -1) {
			start, end := unquoted(text, at[4], at[5])
			if Name(text[at[2]:at[3]]) && plausible(text[start:end], leastGiven) && add(start, end, "an option with a secret") {
				return places
			}
		}
		for _, pattern := range []*regexp.Regexp{mysql, curl} {
			for _, at := range pattern.FindAllStringSubmatchIndex(text, -1) {
				if plausible(text[at[2]:at[3]], 4) && add(at[2], at[3], "an option with a secret") {
					return places
				}
			}
		}
	}
	return places
}

// spoken reports whether what stands behind a colon is a sentence, or a URL: at are the
// places of the sign and of the value.
func spoken(text string, at []int) bool {
	if text[at[0]:at[1]] != ":" {
		return false
	}
	rest, _, _ := strings.Cut(text[at[3]:], "\n")
	value := text[at[2]:at[3]]
	return strings.HasPrefix(rest, "//") ||
		strings.HasPrefix(rest, " ") && strings.TrimSpace(rest) != "" && !strings.ContainsFunc(value, func(r rune) bool { return unicode.IsDigit(r) || unicode.IsPunct(r) && !strings.ContainsRune(".,-", r) })
}

// lets reports whether what follows "Bearer" or "Basic" is no word of a sentence.
func lets(value string) bool {
	if !plausible(value, leastValue) {
		return false
	}
	if text, err := base64.StdEncoding.DecodeString(value); err == nil && strings.Contains(string(text), ":") && len(value) >= shortest {
		return true
	}
	return strings.ContainsFunc(value, unicode.IsDigit) || len(value) >= 20
}

func unquoted(text string, start, end int) (int, int) {
	if end-start >= 2 && (text[start] == '"' || text[start] == '\'') {
		return start + 1, end - 1
	}
	return start, end
}

// How long a value is at least that is a secret by its name: one that programs are given
// may be shorter.
const (
	leastValue = 6
	leastGiven = 4
)

func leastOf(sign string) int {
	if sign == "=" {
		return leastGiven
	}
	return leastValue
}

// elsewhere is a value that says where a secret is, or stands for one.
var elsewhere = regexp.MustCompile(`(?i)^(?:\$|%[A-Z_]+%|@|env:|file:|secret:|vault:|op://|ssm:|arn:|sops:|ref\+|enc\[|gcp:|awssm|projects/|/|\./|\.\./|~/|<[^>]*>$|\{\{|\[\[|\*{3,}|x{4,}$|\.{3}|\(redacted|\(sensitive|\(known after|redacted$|null$|none$|true$|false$|nil$|undefined$|your[-_ ]|changeme-in|placeholder|todo\b)|\{\{|\$\{|\$\(|<%`)

// plausible reports whether a value of a secret's name is the secret: it has some length, and
// does not say where the secret is.
func plausible(value string, least int) bool {
	return len(value) >= least && !elsewhere.MatchString(value) && !amount.MatchString(value)
}

// amount is a number, a time or the like: no secret.
var amount = regexp.MustCompile(`^-?(?:\d{1,5}(?:\.\d+)?|\d+(?:\.\d+)?(?:ms|[smhdw]|[KMGT]i?B?)|\d{4}-\d\d-\d\d\S*)$`)

// random reports whether a text looks made by chance: it has digits and letters, mixed.
func random(text string) bool {
	digits, letters := 0, 0
	for _, r := range text {
		switch {
		case unicode.IsDigit(r):
			digits++
		case unicode.IsLetter(r):
			letters++
		}
	}
	return digits >= 2 && letters >= 4
}
