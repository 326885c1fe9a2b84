package monitor

import (
	"database/sql"
	"encoding/json"
	"maps"
	"slices"
	"time"

	commandpb "lehr.dev/gen/lehr/command/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
)

// saying is what was said: the monitor's own copy of every membership, made
// when each incarnation was published and never changed after.
type saying struct {
	incarnations map[intent.Sequence]*incarnation
	spans        map[intent.AssetID][]span
	members      map[intent.AssetID]intent.Digest // of head
	bodies       map[intent.Digest]content
	buckets      map[intent.AssetID]int
	head         intent.Sequence
	// acknowledged candidates, and by whom, as the audit has it.
	acknowledged map[string][]string
	// labels that people set, as the audit has it.
	labels map[label]bool
	// turnedDown assets were seen with nothing left of them.
	turnedDown map[intent.AssetID]bool
}

func newSaying() saying {
	return saying{
		incarnations: map[intent.Sequence]*incarnation{}, spans: map[intent.AssetID][]span{},
		members: map[intent.AssetID]intent.Digest{}, bodies: map[intent.Digest]content{},
		buckets: map[intent.AssetID]int{}, acknowledged: map[string][]string{}, labels: map[label]bool{}, turnedDown: map[intent.AssetID]bool{},
	}
}

// incarnation as it was when it was published.
type incarnation struct {
	intent.Incarnation
	// record is the hash of what the store says of it.
	record intent.Digest
	// seen is the true time; assets is how many, the policy not counted.
	seen   time.Time
	assets int
	// removed are members of the one before that are in it no more.
	removed []intent.AssetID
}

// label of an incarnation.
type label struct{ subject, name, value string }

// span is an asset's membership from one incarnation to before another.
type span struct {
	from, to          intent.Sequence
	kind              intent.TypeName
	digest, effective intent.Digest
}

// content is what matters of a body.
type content struct {
	there              bool
	id                 intent.AssetID
	payload            intent.Digest
	kind               intent.TypeName
	turndown, approval bool
	// unmanaged: production owns a part of it.
	unmanaged bool
	// removal is the rule of generations that its Turndown names; nil: none.
	removal *intentpb.GenerationRemoval
	// preview is the rule and the preview that its Turndown names; nil: none.
	preview *intentpb.PreviewRemoval
	// quorum that the asset asks for.
	quorum uint32
	mode   intentpb.EnforcementMode
	scopes map[string]string
	policy *intentpb.Policy
	// input of a command.
	input string
	// reads are the assets whose content counts as its own.
	reads []intent.AssetID
	// after are those that it comes after.
	after []intent.AssetID
	// asks is the output that it asks for.
	asks AskedOutput
}

// at is the asset's membership as of an incarnation.
func (s *saying) at(asset intent.AssetID, sequence intent.Sequence) (span, bool) {
	spans := s.spans[asset]
	for i := len(spans) - 1; i >= 0; i-- {
		if spans[i].from <= sequence {
			return spans[i], sequence < spans[i].to && sequence <= s.head
		}
	}
	return span{}, false
}

// contentAt is the asset's content as of an incarnation, if it is a member.
func (s *saying) contentAt(asset intent.AssetID, sequence intent.Sequence) (content, bool) {
	at, member := s.at(asset, sequence)
	return s.bodies[at.digest], member
}

const (
	incarnationText = "SELECT record FROM incarnation WHERE partition = $1 AND seq = $2"
	endedText       = "SELECT asset, from_seq FROM member WHERE partition = $1 AND to_seq = $2 AND to_seq < 9223372036854775807"
	begunText       = "SELECT asset, to_seq, type, digest, effective FROM member WHERE partition = $1 AND from_seq = $2"
)

// publish takes up an incarnation that has become head.
func (m *Monitor) publish(sequence intent.Sequence) {
	m.hold(sequence == m.head+1, "S16", "head went from %d to %d", m.head, sequence)
	var text string
	ok, err := m.database.one(incarnationText, []any{string(m.options.Partition), int64(sequence)}, &text)
	m.unread("an incarnation", err)
	m.hold(ok, "S17", "head is %d, and there is no such incarnation", sequence)
	next := &incarnation{seen: m.options.Now(), record: sum("", []byte(text))}
	if err := json.Unmarshal([]byte(text), &next.Incarnation); err != nil {
		m.fail("S7", "the record of incarnation %d cannot be read: %v", sequence, err)
	}
	m.hold(m.incarnations[sequence] == nil, "S7", "incarnation %d was published before", sequence)
	m.incarnations[sequence] = next
	m.remember()
	m.take(sequence, next)
	m.head = sequence
	next.assets = len(m.members)
	if _, policy := m.members[intent.PolicyAsset]; policy {
		next.assets--
	}
	root := m.membership(m.members)
	m.hold(root == next.Digest, "S7", "incarnation %d says that its members hash to %s; they hash to %s", sequence, next.Digest.Short(), root.Short())
	m.hold(len(m.members) == next.Count, "S7", "incarnation %d says that it has %d members; it has %d", sequence, next.Count, len(m.members))
	m.effectives(sequence)
	m.seeTurnedDown()
	m.guard(next)
	m.keptGenerations(next)
}

// effectives: what an asset is pushed by covers its content and that of all
// that it reads, as of the same incarnation (S2).
func (m *Monitor) effectives(sequence intent.Sequence) {
	if m.options.Reads == nil {
		return
	}
	for _, asset := range slices.Sorted(maps.Keys(m.members)) {
		own := m.members[asset]
		now, _ := m.at(asset, sequence)
		effective := m.effective(own, m.bodies[own].reads)
		m.hold(now.effective == effective, "S2", "asset %s has the effective digest %s in incarnation %d, and with what it reads it is %s",
			asset, now.effective.Short(), sequence, effective.Short())
	}
}

// effective is the digest of a content and of those of the assets that it
// reads, by their ids; of one that is not there, zeros.
func (m *Monitor) effective(own intent.Digest, reads []intent.AssetID) intent.Digest {
	if len(reads) == 0 {
		return own
	}
	parts := [][]byte{own[:]}
	for _, other := range slices.Compact(slices.Sorted(slices.Values(reads))) {
		read := m.members[other]
		parts = append(parts, read[:])
	}
	return sum("lehr.effective.v1", parts...)
}

// take applies what the incarnation changes to the members.
func (m *Monitor) take(sequence intent.Sequence, next *incarnation) {
	arguments := []any{string(m.options.Partition), int64(sequence)}
	before := map[intent.AssetID]span{}
	err := m.database.each(endedText, arguments, func(rows *sql.Rows) error {
		var asset intent.AssetID
		var from int64
		if err := rows.Scan(&asset, &from); err != nil {
			return err
		}
		spans := m.spans[asset]
		last := len(spans) - 1
		if last < 0 || spans[last].to != open || int64(spans[last].from) != from {
			m.fail("S7", "asset %s is a member from %d to %d, which it was not when %d was head", asset, from, sequence, m.head)
			return nil
		}
		spans[last].to = sequence
		before[asset] = spans[last]
		delete(m.members, asset)
		return nil
	})
	m.unread("the members", err)
	err = m.database.each(begunText, arguments, func(rows *sql.Rows) error {
		var asset intent.AssetID
		var to int64
		var own, effective digest
		var kind intent.TypeName
		if err := rows.Scan(&asset, &to, &kind, &own, &effective); err != nil {
			return err
		}
		m.enter(asset, span{from: sequence, to: open, kind: kind, digest: own.Digest, effective: effective.Digest}, before)
		return nil
	})
	m.unread("the members", err)
	for asset := range before {
		if _, stays := m.members[asset]; !stays {
			next.removed = append(next.removed, asset)
		}
	}
	slices.Sort(next.removed)
}

// enter takes up a new membership of an asset.
func (m *Monitor) enter(asset intent.AssetID, new span, before map[intent.AssetID]span) {
	if _, ok := m.members[asset]; ok {
		m.fail("S7", "asset %s is twice a member of incarnation %d", asset, new.from)
	}
	if old, ok := before[asset]; ok {
		m.hold(old.kind == new.kind, "S22", "asset %s was a %s until incarnation %d, where it is a %s", asset, old.kind, new.from, new.kind)
	} else {
		m.returns(asset, new)
	}
	m.spans[asset] = append(m.spans[asset], new)
	delete(m.paces.of, asset)
	m.members[asset] = new.digest
	body := m.body(new.digest)
	m.hold(!body.there || body.id == asset && body.kind == new.kind, "S7", "asset %s is a %s in incarnation %d, and its body is of %s, a %s", asset, new.kind, new.from, body.id, body.kind)
	delete(m.turnedDown, asset)
}

// returns: an id that comes back is of the type that was enforced under it and
// is there still, unless a person let it through (S22). It counts only what was
// recorded when this was judged, and is still.
func (m *Monitor) returns(asset intent.AssetID, new span) {
	known, ok := m.records[asset]
	if !ok || known.absent || known.kind == new.kind || m.incarnations[new.from].Labels[acknowledgedLabel] != "" {
		return
	}
	var kind intent.TypeName
	still, err := m.database.one("SELECT type FROM enforced WHERE partition = $1 AND asset = $2 AND absent = 0",
		[]any{string(m.options.Partition), string(asset)}, &kind)
	m.unread("an enforced record", err)
	m.hold(!still || kind == new.kind, "S22", "asset %s comes back as a %s with incarnation %d, and a %s was enforced under its id", asset, new.kind, new.from, kind)
}

// body reads, verifies and decodes the content of a digest, once.
func (m *Monitor) body(digest intent.Digest) content {
	if known, ok := m.bodies[digest]; ok {
		return known
	}
	var bytes []byte
	found, err := m.database.one("SELECT bytes FROM body WHERE digest = $1", []any{digest[:]}, &bytes)
	m.unread("a body", err)
	m.hold(found, "S17", "the body %s of a member is not there", digest.Short())
	if !found {
		return content{}
	}
	m.hold(bodyDigest(bytes) == digest, "S7", "the body %s hashes to %s", digest.Short(), bodyDigest(bytes).Short())
	asset, err := schema.Decode(bytes)
	m.hold(err == nil, "S7", "the body %s cannot be decoded: %v", digest.Short(), err)
	c := contentOf(asset)
	if m.options.Reads != nil {
		c.reads = m.options.Reads(asset)
	}
	if m.options.Asks != nil {
		c.asks = m.options.Asks(asset)
	}
	m.bodies[digest] = c
	return c
}

const commandType = intent.TypeName("lehr.command.v1.Command")

// contentOf reads what matters here; what cannot be read asks for nothing.
func contentOf(asset intent.Asset) content {
	c := content{there: true, id: asset.ID, kind: asset.Payload.Type, payload: sum(string(asset.Payload.Type), asset.Payload.Bytes)}
	_, c.turndown = asset.Addon("lehr.intent.v1.Turndown")
	_, c.approval = asset.Addon("lehr.intent.v1.Approval")
	_, c.unmanaged = asset.Addon("lehr.intent.v1.Unmanaged")
	turndown := &intentpb.Turndown{}
	if ok, err := schema.Addon(asset, turndown); ok && err == nil {
		c.removal, c.preview = turndown.GetGeneration(), turndown.GetPreview()
	}
	if command := (&commandpb.Command{}); asset.Payload.Type == commandType && schema.Payload(asset, command) == nil {
		c.input = command.GetInput()
	}
	mode, scope, approval := &intentpb.Mode{}, &intentpb.ImpactedScope{}, &intentpb.Approval{}
	if ok, err := schema.Addon(asset, approval); ok && err == nil {
		c.quorum = approval.GetQuorum()
	}
	edges := &intentpb.Dependencies{}
	if ok, err := schema.Addon(asset, edges); ok && err == nil {
		for _, edge := range edges.GetDependencies() {
			if edge.GetRule() == intentpb.Dependency_RULE_ORDER {
				c.after = append(c.after, intent.AssetID(edge.GetOn()))
			}
		}
	}
	if ok, err := schema.Addon(asset, mode); ok && err == nil {
		c.mode = mode.GetMode()
	}
	if ok, err := schema.Addon(asset, scope); ok && err == nil {
		c.scopes = scope.GetScopes()
	}
	if asset.ID == intent.PolicyAsset {
		policy := &intentpb.Policy{}
		if schema.Payload(asset, policy) == nil {
			c.policy = policy
		}
	}
	return c
}

// policyAt is the partition's policy as of an incarnation; nil: it has none.
func (s *saying) policyAt(sequence intent.Sequence) *intentpb.Policy {
	content, member := s.contentAt(intent.PolicyAsset, sequence)
	if !member {
		return nil
	}
	return content.policy
}
