package explain

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"lehr.dev/internal/ground/intent"
)

// outward are waits for something outside the partition, which others may wait for too.
var outward = []intent.WaitingKind{
	intent.WaitPlugin, intent.WaitCheckBroken, intent.WaitCheckConfig, intent.WaitAlert, intent.WaitMetric, intent.WaitCalendar, intent.WaitProtection, intent.WaitStore,
}

// sharedWait is the key of what an asset waits for outside its partition; empty: that is its partition's own.
// What is said of one thing is said in the same words, but for names and numbers.
func (f Facts) sharedWait(asset intent.AssetID, waiting intent.WaitingOn) string {
	switch {
	case waiting.Kind == intent.WaitPartition:
		return sharedKey(string(waiting.Kind), string(waiting.Partition))
	case slices.Contains(outward, waiting.Kind):
		words := sayings(waiting.Reason, string(asset), string(f.Partition))
		return sharedKey(string(waiting.Kind), append(words, waiting.Check)...)
	default:
		return ""
	}
}

// sharedKey is the key of a thing of a kind that has these names.
func sharedKey(kind string, names ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(names, "\x00")))
	return kind + "-" + hex.EncodeToString(sum[:8])
}

// sayings are the words of a sentence, but for numbers and the names of whom it is about.
func sayings(text string, names ...string) []string {
	return slices.DeleteFunc(strings.Fields(text), func(word string) bool {
		return strings.ContainsAny(word, "0123456789") || slices.Contains(names, strings.Trim(word, `"'.,;:()`))
	})
}
