package fetch

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/ordering"
	"lehr.dev/internal/ground/versionlist"
	"lehr.dev/internal/prodspec/source"
)

// versions are those of an artifact, as one file, the newest first.
type versions struct {
	inMemory
	remote  source.Versions
	name    string
	options Options
	guard   guard
	limits  source.Limits
	// repository is where tags or commits are listed.
	repository *mirror
	pattern    *regexp.Regexp
	// branches are those that count, by their whole names; nil: all, or the one that the source names.
	branches *regexp.Regexp
	// described and verified are what digests led to, by name and digest: what was read before
	// somebody asked to be left alone need not be read again.
	described map[string]versionlist.Version
	verified  map[string][]string
}

func (v *versions) close() {
	if v.repository != nil {
		v.repository.close()
	}
}

func newVersions(remote source.Versions, name string, o Options, limits source.Limits) *versions {
	v := &versions{
		remote: remote, name: name, options: o, guard: o.guard(), limits: limits,
		described: map[string]versionlist.Version{}, verified: map[string][]string{},
	}
	if git := remote.Repository(); git != nil {
		v.repository = newMirror(o.Folder, *git, v.guard)
		v.repository.whole = true
	}
	if remote.Pattern != "" {
		v.pattern = regexp.MustCompile("^(?:" + remote.Pattern + ")$") // It was checked.
	}
	if remote.Branches != "" {
		v.branches = regexp.MustCompile("^(?:" + remote.Branches + ")$") // It was checked.
	}
	return v
}

// patience is how long one look may take: repositories are fetched whole at first, and a registry is
// asked for each tag.
func (v *versions) patience() time.Duration {
	if v.repository != nil || v.remote.Registry != "" || v.remote.InRegistry {
		return gitPatience
	}
	return patience
}

// look is one look at the versions of a source.
type look struct {
	*versions
	// before is the list of the look before; empty: there was none.
	before versionlist.List
	// keys by which versions must be signed, and attestation that by which one must be attested.
	keys        []trusted
	attestation *trusted
	rules       versionlist.Rules
	found       versionlist.Found
}

func (v *versions) fetch(ctx context.Context, last *State) (*State, error) {
	order, err := v.remote.Ordering()
	if err != nil {
		return nil, err
	}
	l := &look{versions: v, rules: versionlist.Rules{Order: order, Limit: cmp.Or(v.remote.Limit, source.MostVersions), Keep: v.remote.Keep}}
	kept, err := v.kept(ctx)
	if err != nil {
		return nil, err
	}
	l.rules.Keep = append(kept, l.rules.Keep...)
	if l.keys, l.attestation, err = v.signers(); err != nil {
		return nil, err
	}
	signers := l.signersDigest()
	if last != nil {
		// A list of an older version has no more than names and digests: it is read as well.
		l.before, _ = versionlist.Parse(last.Contents[v.remote.File])
		l.recall(last.Marks[markKeys] == signers)
	}
	if err := l.list(ctx); err != nil {
		return nil, err
	}
	l.forget()
	return l.state(ctx, last, signers)
}

// kept are the versions that no limit leaves out: those that environments have, and those that
// whoever delivers names. An error is no reason to leave something out.
func (v *versions) kept(ctx context.Context) (kept []string, err error) {
	if v.options.KeepVersions != nil {
		some, err := v.options.KeepVersions(ctx, v.options.Partition, v.name)
		if err != nil {
			return nil, err
		}
		kept = append(kept, some...)
	}
	if v.options.Documents == nil {
		return kept, nil
	}
	values := map[string]any{}
	for _, field := range v.remote.Deployed {
		value, ok := values[field.Document]
		if !ok {
			doc, err := v.options.Documents(ctx, v.options.Partition, field.Document)
			if err != nil && !fault.Is(err, fault.NotFound) {
				return nil, err
			}
			if err == nil {
				if value, err = document.Parse(doc.Content); err != nil {
					return nil, err
				}
			}
			values[field.Document] = value
		}
		path, err := document.ParsePath(field.Pointer)
		if err != nil {
			return nil, err
		}
		inner, _ := document.At(value, path)
		if text, ok := inner.(string); ok && text != "" {
			kept = append(kept, text)
		}
	}
	return kept, nil
}

// signersDigest is which signers are in force, in words that are compared only.
func (l *look) signersDigest() string {
	keys := slices.Clone(l.keys)
	if l.attestation != nil {
		keys = append(keys, *l.attestation)
	}
	return digestsOf(keys)
}

func (l *look) list(ctx context.Context) error {
	switch {
	case l.remote.Commits != nil:
		return l.listCommits(ctx)
	case l.remote.Tags != nil:
		return l.listTags(ctx)
	case l.remote.Registry != "" || l.remote.InRegistry:
		return l.listRegistry(ctx)
	case l.remote.Charts != "":
		return l.listCharts(ctx)
	case l.remote.Listing != "":
		return l.listPage(ctx)
	case l.remote.Command != "":
		return l.listByCommand(ctx)
	case l.remote.Pushed != "":
		return l.listPushed(ctx)
	}
	return l.listDebian(ctx)
}

// state is what the source holds after the look: last, where that is it still.
func (l *look) state(ctx context.Context, last *State, signers string) (*State, error) {
	list, warnings := versionlist.Arrange(l.found, l.rules, l.before, l.options.now())
	if len(list.Versions) == 0 {
		return nil, l.nothing(list)
	}
	if l.repository != nil {
		var err error
		if list.History, err = l.history(ctx, list); err != nil {
			return nil, err
		}
	}
	content, err := indented(list)
	if err != nil {
		return nil, err
	}
	state := newState(map[string][]byte{l.remote.File: content})
	if signers != "" {
		state.Marks = map[string]string{markKeys: signers}
	}
	if last != nil && source.Revision(last.Files) == source.Revision(state.Files) && last.Marks[markKeys] == signers {
		return last, nil
	}
	const most = 3
	if more := len(warnings) - most; more > 0 {
		warnings = append(warnings[:most], fmt.Sprintf("and %d more", more))
	}
	state.Warning = strings.Join(warnings, "; ")
	return state, nil
}

// nothing is the error of a source without a version that can be deployed.
func (l *look) nothing(list versionlist.List) error {
	hint := "an empty list is never taken for intent: mend match, or restore the versions"
	for _, some := range [][]versionlist.Aside{list.Refused, list.Unordered} {
		if len(some) > 0 {
			hint = fmt.Sprintf("of %s: %s; an empty list is never taken for intent: mend what is asked for, or publish a version", some[0].Name, some[0].Reason)
			break
		}
	}
	return fault.New(fault.Unavailable, "%s has no version that counts: %d are refused, %d have no place in the order, and %d have other names", l.remote.Place(),
		len(list.Refused)+list.MoreRefused, len(list.Unordered)+list.MoreUnordered, list.Unmatched).WithHint("%s", hint)
}

// matches reports whether a name was asked for, and which version it is. It counts those that were
// not.
func (l *look) matches(name string) (version string, ok bool) {
	version = name
	if matched, _ := path.Match(l.remote.Match, name); l.remote.Match != "" && !matched {
		l.found.Unmatched++
		return "", false
	}
	if l.pattern != nil {
		groups := l.pattern.FindStringSubmatch(name)
		if groups == nil {
			l.found.Unmatched++
			return "", false
		}
		if version = groups[0]; len(groups) > 1 {
			version = groups[1]
		}
	}
	if text := strings.TrimPrefix(version, "v"); ordering.IsSemver(text) {
		version = text
	}
	return version, true
}

// add takes a version that was asked for, unless a filter of metadata refuses it.
func (l *look) add(v versionlist.Version) {
	v.Metadata = bounded200(v.Metadata)
	switch {
	case l.remote.Branch != "" && l.remote.Tags == nil && v.Branch != l.remote.Branch:
		l.refuse(v, versionlist.OtherBranch, otherThan("branch", v.Branch, l.remote.Branch))
	case l.branches != nil && !l.branches.MatchString(v.Branch):
		l.refuse(v, versionlist.OtherBranch, otherThan("branch", v.Branch, "one that matches "+l.remote.Branches))
	case len(l.remote.Status) > 0 && !slices.Contains(l.remote.Status, v.Status):
		l.refuse(v, versionlist.OtherStatus, otherThan("build status", v.Status, strings.Join(l.remote.Status, " or ")))
	case l.remote.Requested && v.PullRequest == "":
		l.refuse(v, versionlist.NotRequested, "it is not known to be of a pull or merge request, and pull_requests asks for such; say where that is found with fields")
	default:
		l.found.Versions = append(l.found.Versions, v)
	}
}

// tooMany is the error of a source with more names than are looked at.
func tooMany(location string, most int) error {
	return fault.New(fault.Invalid, "%s has more than %d versions that would be looked at", location, most).WithHint("narrow them with match or regexp")
}

func otherThan(what, has, wanted string) string {
	if has == "" {
		return fmt.Sprintf("its %s is not known, and %s is asked for; say where it is found with fields", what, wanted)
	}
	return fmt.Sprintf("its %s is %s, and %s is asked for", what, has, wanted)
}

func (l *look) refuse(v versionlist.Version, cause versionlist.Cause, reason string) {
	l.found.Refused = append(l.found.Refused, versionlist.Aside{Version: v, Cause: cause, Reason: brief(reason, 300)})
}

// bounded200 bounds what others wrote.
func bounded200(m versionlist.Metadata) versionlist.Metadata {
	const most = 200
	for _, text := range []*string{&m.Commit, &m.Author, &m.Message, &m.Branch, &m.Status, &m.BuildURL, &m.PullRequest, &m.Repository} {
		*text = brief(*text, most)
	}
	return m
}

// recall fills what is known of digests from the look before, as of a process before this one.
func (l *look) recall(sameSigners bool) {
	all := slices.Clone(l.before.Versions)
	for _, a := range slices.Concat(l.before.Unordered, l.before.Refused) {
		all = append(all, a.Version)
	}
	if !sameSigners {
		clear(l.verified)
	}
	for _, v := range all {
		key := v.Name + "@" + v.Digest
		if _, ok := l.described[key]; ok || v.Created.IsZero() && v.Metadata == (versionlist.Metadata{}) {
			continue // What says nothing of itself may be of a version that did not read it.
		}
		if sameSigners && len(v.SignedBy) > 0 {
			l.verified[key] = v.SignedBy
		}
		v.SignedBy = nil
		l.described[key] = v
	}
}

// forget drops what is known of digests that are not there any more.
func (l *look) forget() {
	present := map[string]bool{}
	for _, v := range l.found.Versions {
		present[v.Name+"@"+v.Digest] = true
	}
	for _, a := range l.found.Refused {
		present[a.Name+"@"+a.Digest] = true
	}
	maps.DeleteFunc(l.described, func(key string, _ versionlist.Version) bool { return !present[key] })
	maps.DeleteFunc(l.verified, func(key string, _ []string) bool { return !present[key] })
}

// now is the time by the clock of the options; without one, that of the machine.
func (o Options) now() time.Time {
	if o.Runtime == nil {
		return time.Now()
	}
	return o.Runtime.Now()
}
