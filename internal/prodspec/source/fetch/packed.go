package fetch

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec/source"
	"lehr.dev/internal/prodspec/source/artifact"
)

// packed is a chart of Helm or an artifact of a registry. Its version is looked for
// now and then; content is fetched once for each digest.
type packed struct {
	remote source.Packed
	guard  guard
	// patterns of the files that are read; none: all.
	patterns source.Patterns
	limits   artifact.Limits
	cache    contentCache
	// lock is held by whoever uses files and pieces: what looks, and who reads.
	lock sync.Mutex
	// files of the content that was put together last and is in no state, and its
	// pieces.
	files  map[string][]byte
	pieces string
}

func newPacked(remote source.Packed, root string, patterns source.Patterns, g guard) *packed {
	return &packed{remote: remote, guard: g, patterns: patterns, limits: artifact.DefaultLimits(), cache: newContentCache(root, g.partition)}
}

// Marks of a state.
const (
	markVersion = "version"
	markDigest  = "digest"
	// markKeys are the keys by which it was verified.
	markKeys = "keys"
	// markPieces are the pieces of content, in JSON.
	markPieces = "pieces"
	// markHosts are the hosts that it was fetched from beside that of its address, with
	// spaces between.
	markHosts = "hosts"
)

// found is the version that a look has found, before its content is fetched.
type found struct {
	// version of the chart, or the artifact's tag; empty: it is named by its digest.
	version string
	digest  string
	// elsewhere is the digest that the version has now, where another is pinned;
	// empty: it has that.
	elsewhere string
	// published is when; zero: nobody says.
	published time.Time
	// url of the archive that an index names.
	url string
	// marks let the next look ask for an index only if it changed.
	marks map[string]string
	// unchanged: it is the version of the state before.
	unchanged bool
}

// name of the found version, for people and for the incarnation's record.
func (f found) name() string {
	if f.version == "" {
		return f.digest
	}
	return f.version + "@" + f.digest
}

func (p *packed) fetch(ctx context.Context, last *State) (*State, error) {
	keys, err := p.guard.keys(p.remote)
	if err != nil {
		return nil, err
	}
	if last != nil && (last.Marks[markKeys] != digestsOf(keys) || last.Contents == nil && !p.hasContent(ctx, last)) {
		// Other keys, or content that is no longer here: it is fetched anew.
		stale := *last
		stale.Marks = map[string]string{markVersion: last.Marks[markVersion], markDigest: last.Marks[markDigest]}
		last = &stale
	}
	now, err := p.find(ctx, last)
	if err != nil {
		return nil, err
	}
	if last != nil && last.Marks[markPieces] != "" && (now.unchanged || last.Marks[markDigest] == now.digest && last.Marks[markVersion] == now.version) {
		return p.again(last, now), nil
	}
	return p.obtain(ctx, last, now, keys)
}

// again is the state before, with what this look says of it.
func (p *packed) again(last *State, now found) *State {
	if now.unchanged {
		return last
	}
	same := *last
	same.Marks = maps.Clone(last.Marks)
	delete(same.Marks, "etag")
	delete(same.Marks, "modified")
	maps.Copy(same.Marks, now.marks)
	if p.remote.Digest != "" {
		same.Warning = p.warning(nil, now)
	}
	if same.Warning == last.Warning && maps.Equal(same.Marks, last.Marks) {
		return last
	}
	return &same
}

// obtain fetches the content of a version, and verifies it.
func (p *packed) obtain(ctx context.Context, last *State, now found, keys []trusted) (*State, error) {
	got, err := p.gather(ctx, now, keys)
	if err != nil {
		return nil, err
	}
	files, err := artifact.Assemble(p.subject(now), got.pieces, p.limits, func(piece artifact.Piece) ([]byte, error) { return got.bodies[piece.Digest], nil })
	if err != nil {
		return nil, err
	}
	pieces, err := json.Marshal(got.pieces)
	if err != nil {
		return nil, fault.New(fault.Internal, "cannot encode what %s has: %w", p.remote, err)
	}
	for digest, body := range got.bodies {
		p.cache.put(digest, body)
	}
	wanted := map[string][]byte{}
	for name, text := range files {
		if len(p.patterns) == 0 || p.patterns.Match(name) {
			wanted[name] = text
		}
	}
	state := newState(wanted)
	if total(state.Files) > copied && p.cache.folder != "" {
		state.Contents = nil
		p.hold(files, string(pieces))
	}
	state.Revision, state.Warning, state.Commit = now.name()+got.suffix(pieces), p.warning(last, now), got.commit(p.subject(now))
	state.Marks = map[string]string{markVersion: now.version, markDigest: now.digest, markKeys: digestsOf(keys), markPieces: string(pieces)}
	if hosts := got.hostsBeside(p.remote.Address); len(hosts) > 0 {
		state.Marks[markHosts] = strings.Join(hosts, " ")
	}
	maps.Copy(state.Marks, now.marks)
	return state, nil
}

// subject of messages about a version.
func (p *packed) subject(now found) string {
	switch {
	case p.remote.Chart != "" && p.remote.InRegistry:
		return fmt.Sprintf("%s %s", p.remote, now.version)
	case p.remote.Chart != "":
		return fmt.Sprintf("the chart %s %s of %s", p.remote.Chart, now.version, p.remote)
	}
	return p.remote.String()
}

// warning tells what is strange about a version: that it is no longer what it was,
// though versions promise to stay, or that an older one was found than before. A tag
// that is no version, such as latest, is meant to move.
func (p *packed) warning(last *State, now found) string {
	if now.elsewhere != "" {
		return fmt.Sprintf("%s was moved: it has the digest %s now, and %s is pinned, which is what is used", p.subject(now), now.elsewhere, now.digest)
	}
	if last == nil || last.Marks[markDigest] == "" || last.Marks[markDigest] == now.digest {
		return ""
	}
	lastVersion := last.Marks[markVersion]
	switch {
	case lastVersion == now.version && artifact.IsVersion(now.version):
		return fmt.Sprintf("%s was moved: it had the digest %s, and has %s now", p.subject(now), last.Marks[markDigest], now.digest)
	case p.remote.Chart != "" && artifact.CompareVersions(now.version, lastVersion) < 0:
		return fmt.Sprintf("%s is older than %s, which was read before and is no longer there", p.subject(now), lastVersion)
	}
	return ""
}

// gotten is content that was fetched and verified.
type gotten struct {
	pieces []artifact.Piece
	bodies map[string][]byte
	// dependencies are how many of the pieces are charts that it depends on.
	dependencies int
	// signature that was verified last, by the key of a name; no key: none had to be.
	signature artifact.Signature
	key       string
	published time.Time
	// urls that it was fetched from beside the source's own address.
	urls []string
}

// hostsBeside are the hosts of what it was fetched from that are not that of an address.
func (g gotten) hostsBeside(address string) (hosts []string) {
	for _, text := range g.urls {
		if host := source.HostOf(text); host != "" && host != source.HostOf(address) {
			hosts = append(hosts, host)
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// suffix tells of charts that were fetched beside it, whose digests its own does not
// cover; empty: of none.
func (g gotten) suffix(pieces []byte) string {
	if g.dependencies == 0 {
		return ""
	}
	const short = 12
	return "+charts:" + strings.TrimPrefix(artifact.Digest(pieces), "sha256:")[:short]
}

// commit is who signed it, and when; zero: nobody had to.
func (g gotten) commit(subject string) intent.Commit {
	if g.key == "" {
		return intent.Commit{}
	}
	at := g.signature.At
	if at.IsZero() {
		at = g.published
	}
	if at.IsZero() {
		at = time.Unix(0, 0).UTC()
	}
	const most = 300
	return intent.Commit{Author: brief(g.signature.By, most), Subject: brief(subject+", signed by the key "+g.key, most), Time: at.UTC().Truncate(time.Second)}
}

func (p *packed) content(ctx context.Context, state *State, file source.File) ([]byte, error) {
	files, err := p.load(state)
	if err != nil {
		return nil, err
	}
	text, ok := files[file.Path]
	if !ok {
		return nil, source.Changed(file.Path)
	}
	return text, nil
}

// hold keeps files at hand; held gives them, if they are of a state.
func (p *packed) hold(files map[string][]byte, pieces string) {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.files, p.pieces = files, pieces
}

func (p *packed) held(state *State) (files map[string][]byte, ok bool) {
	p.lock.Lock()
	defer p.lock.Unlock()
	return p.files, p.files != nil && p.pieces == state.Marks[markPieces]
}

// load puts the files of a state together from the content that is kept.
func (p *packed) load(state *State) (map[string][]byte, error) {
	if files, ok := p.held(state); ok {
		return files, nil
	}
	pieces, err := piecesOf(state)
	if err != nil {
		return nil, err
	}
	files, err := artifact.Assemble(p.remote.String(), pieces, p.limits, func(piece artifact.Piece) ([]byte, error) {
		if body, ok := p.cache.get(piece.Digest, p.limits.PackedBytes); ok {
			return body, nil
		}
		return nil, fault.New(fault.Unavailable, "content %s of %s is no longer kept", piece.Digest, p.remote).WithHint("it is fetched again at the next look")
	})
	if err != nil {
		return nil, err
	}
	p.hold(files, state.Marks[markPieces])
	return files, nil
}

func piecesOf(state *State) (pieces []artifact.Piece, err error) {
	if err := json.Unmarshal([]byte(state.Marks[markPieces]), &pieces); err != nil {
		return nil, fault.New(fault.Unavailable, "what was kept of a source cannot be read").WithHint("it is fetched again at the next look")
	}
	return pieces, nil
}

func (p *packed) hasContent(_ context.Context, state *State) bool {
	if _, ok := p.held(state); ok {
		return true
	}
	pieces, err := piecesOf(state)
	if err != nil || len(pieces) == 0 {
		return false
	}
	for _, piece := range pieces {
		if !p.cache.has(piece.Digest) {
			return false
		}
	}
	return true
}

func (p *packed) close() { p.hold(nil, "") }
