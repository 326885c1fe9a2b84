package branchpreview

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"lehr.dev/internal/ground/fault"
)

// mostName is how many letters the name of a preview has at most: it becomes a part of names of
// Kubernetes and of hosts, which have 63.
const mostName = 40

// hashLetters tell branches apart whose names are alike once they are made safe.
const hashLetters = 6

// CheckName refuses what is no name of a preview.
func CheckName(name string) error {
	bad := name == "" || len(name) > mostName || strings.HasPrefix(name, "-") || strings.HasSuffix(name, "-")
	for _, c := range name {
		bad = bad || c != '-' && (c < 'a' || c > 'z') && (c < '0' || c > '9')
	}
	if bad {
		return fault.New(fault.Invalid, "%.100q is no name of a preview", name).WithHint("it has a-z, 0-9 and -, at most %d letters, and neither begins nor ends with -", mostName)
	}
	return nil
}

// namesFor are the names that a preview of a branch or a pull request may have, the best first.
func namesFor(b Branch) []string {
	if b.PullRequest != 0 {
		return []string{fmt.Sprintf("pr-%d", b.PullRequest)}
	}
	sum := sha256.Sum256([]byte(b.Name))
	hash := hex.EncodeToString(sum[:])[:hashLetters]
	safe := safeName(b.Name, mostName)
	if safe == "" {
		return []string{"branch-" + hash}
	}
	return []string{safe, safeName(b.Name, mostName-hashLetters-1) + "-" + hash}
}

// safeName is a branch's name with only what names of previews have.
func safeName(branch string, most int) string {
	var safe strings.Builder
	for _, c := range strings.ToLower(branch) {
		switch {
		case c >= 'a' && c <= 'z' || c >= '0' && c <= '9':
			safe.WriteRune(c)
		case !strings.HasSuffix(safe.String(), "-"):
			safe.WriteByte('-')
		}
	}
	name := strings.Trim(safe.String(), "-")
	return strings.Trim(name[:min(len(name), most)], "-")
}
