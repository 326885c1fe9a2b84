package check

import (
	"strings"
	"time"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/rule"
	"lehr.dev/internal/ground/schema"
)

// denylist lets no content of a denied version be pushed, nor content that
// came with a denied commit. Removing such a thing is no push of it.
func (c *Configured) denylist(list *intentpb.Denylist, typeName intent.TypeName, types *rule.Environment) error {
	var own *rule.Expression
	if list.GetVersion() != "" {
		var err error
		if own, err = types.Compile(list.GetVersion(), typeName); err != nil {
			return err
		}
	}
	for _, entry := range list.GetEntries() {
		c.NeedsContent = c.NeedsContent || entry.GetVersion() != ""
		c.NeedsOrigin = c.NeedsOrigin || entry.GetCommit() != ""
	}
	c.judge = func(f Facts) intent.Verdict {
		if f.removes() {
			return c.passes(time.Time{})
		}
		version, err := "", f.Origin.Lost
		if c.NeedsContent {
			var unread error
			if version, unread = versionOf(f.Content, own, types); unread != nil {
				err = unread
			}
		}
		for _, entry := range list.GetEntries() {
			if pattern := entry.GetVersion(); pattern != "" && version != "" && matches(unprefixed(pattern), unprefixed(version)) {
				return c.waits(intent.WaitDenied, time.Time{}, "version %s is denied: %s. Another version is pushed", intent.Shown(version), entry.GetReason())
			}
			if source, denied := cameWith(f.Origin, entry); denied {
				return c.waits(intent.WaitDenied, time.Time{}, "its content came with %s from commit %s of source %s, which is denied: %s. Other content is pushed",
					f.Origin.Since, intent.Shown(source.Revision), source.Source, entry.GetReason())
			}
		}
		if err != nil {
			return c.broken(err)
		}
		pass := c.passes(time.Time{})
		if version != "" {
			pass.Fact = "version " + intent.Shown(version) + " is not on it"
		}
		return pass
	}
	return nil
}

// versionOf is what the asset declares; empty: it has no version.
func versionOf(content intent.Asset, own *rule.Expression, types *rule.Environment) (string, error) {
	if own == nil {
		addon := &intentpb.Version{}
		ok, err := schema.Addon(content, addon)
		if err != nil || !ok {
			return "", err
		}
		if own, err = types.Compile(addon.Expression, content.Payload.Type); err != nil {
			return "", err
		}
	}
	text, err := own.Text(content)
	return strings.TrimSpace(text), err
}

func unprefixed(version string) string { return strings.TrimPrefix(version, "v") }

// matches a text with a pattern in which each * stands for any text.
func matches(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	last := len(parts) - 1
	if last == 0 {
		return pattern == text
	}
	if !strings.HasPrefix(text, parts[0]) {
		return false
	}
	text = text[len(parts[0]):]
	for _, part := range parts[1:last] {
		at := strings.Index(text, part)
		if at < 0 {
			return false
		}
		text = text[at+len(part):]
	}
	return strings.HasSuffix(text, parts[last])
}

// cameWith reports whether the content came with a denied commit, and from
// which source.
func cameWith(origin Origin, entry *intentpb.Denied) (intent.SourceRevision, bool) {
	if entry.GetCommit() == "" {
		return intent.SourceRevision{}, false
	}
	for _, revision := range origin.Sources {
		if (entry.GetSource() == "" || entry.GetSource() == revision.Source) && sameCommit(revision.Revision, entry.GetCommit()) {
			return revision, true
		}
	}
	return intent.SourceRevision{}, false
}

// sameCommit reports whether one begins as the other: either may be shortened.
func sameCommit(revision, commit string) bool {
	const least = 7 // As many digits as an entry has at least.
	return strings.HasPrefix(revision, commit) || len(revision) >= least && strings.HasPrefix(commit, revision)
}
