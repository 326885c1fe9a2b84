package mutation

// publications make what was built and judged head (S6, S7).
var publications = []Mutant{
	{
		Name: "rejected-candidate-served", File: "internal/prodspec/publish.go",
		Old:    `case verdict.Rejected:`,
		New:    `case verdict.Rejected && !mutant.On("rejected-candidate-served"):`,
		Breaks: "S6",
		Why:    "A candidate with errors becomes head.",
	},
	{
		Name: "held-candidate-served", File: "internal/prodspec/publish.go",
		Old:    `case verdict.Held:`,
		New:    `case verdict.Held && !mutant.On("held-candidate-served"):`,
		Breaks: "S23 S5",
		Why:    "A candidate that a guard holds becomes head without a person's acknowledgement.",
	},
	{
		Name: "failed-generation-served", File: "internal/prodspec/builder.go",
		Old:    "if err != nil || len(r.findings) > 0 {\n\t\treturn r, err\n\t}\n\tif r.findings = b.take()",
		New:    "if err != nil || len(r.findings) > 0 && !mutant.On(\"failed-generation-served\") {\n\t\treturn r, err\n\t}\n\tif r.findings = b.take()",
		Breaks: "S6",
		Why:    "While one generator fails, what the others gave becomes head.",
	},
	{
		Name: "failed-run-gives-nothing", File: "internal/prodspec/generate/kept_runs.go",
		Old:        "if len(rec.Findings) > 0 {\n\t\t// What it gave before",
		New:        "if len(rec.Findings) > 0 && !mutant.On(\"failed-run-gives-nothing\") {\n\t\t// What it gave before",
		Breaks:     "S5",
		Why:        "A generator that fails counts as one that gives no assets.",
		Equivalent: "nothing is taken over while any generator fails",
	},
	{
		Name: "unreadable-source-is-empty", File: "internal/prodspec/sources.go",
		Old:    `snapshot, err := f.directory.Read(ctx, now, changes)`,
		New:    "snapshot, err := f.directory.Read(ctx, now, changes)\n\tif err != nil && mutant.On(\"unreadable-source-is-empty\") {\n\t\tsnapshot, err = &source.Snapshot{}, nil\n\t}",
		Breaks: "S6 S5",
		Why:    "A source that cannot be read counts as one without files. The guard may hold what follows; a few removals it lets pass.",
	},
	{
		Name: "empty-source-passes", File: "internal/prodspec/source/source.go",
		Old:    `if !slices.ContainsFunc(snapshot.Files,`,
		New:    `if !mutant.On("empty-source-passes") && !slices.ContainsFunc(snapshot.Files,`,
		Breaks: "S6 S5",
		Why:    "A folder that was not mounted, or whose files are gone, counts as intent.",
	},
	{
		Name: "last-entry-not-staged", File: "internal/prodspec/publish.go",
		Old:    `if err := s.Stage(ctx, p.lease, head, slice); err != nil {`,
		New:    "if len(slice) > 1 && mutant.On(\"last-entry-not-staged\") {\n\t\t\tslice = slice[:len(slice)-1]\n\t\t}\n\t\tif err := s.Stage(ctx, p.lease, head, slice); err != nil {",
		Breaks: "S6",
		Why:    "Part of a candidate becomes head.",
	},
	{
		Name: "publish-without-unstage", File: "internal/prodspec/publish.go",
		Old:    `if err := s.Unstage(ctx, p.lease); err != nil {`,
		New:    "if mutant.On(\"publish-without-unstage\") {\n\t} else if err := s.Unstage(ctx, p.lease); err != nil {",
		Breaks: "S6",
		Why:    "What a publication that was cut off had staged becomes head with the next one. The sources must change in between.",
	},
	{
		Name: "publish-ignores-base", File: "internal/store/relational/publish.go",
		Old:        `case now.head != p.base:`,
		New:        `case now.head != p.base && !mutant.On("publish-ignores-base"):`,
		Breaks:     "S6",
		Why:        "A publication takes the place of one that came in between.",
		Equivalent: "only the lease's holder publishes, one after the other, and no incarnation's row is written twice",
	},
	{
		Name: "publish-ignores-staging", File: "internal/store/relational/publish.go",
		Old:        `case now.stageRevision != p.stage:`,
		New:        `case now.stageRevision != p.stage && !mutant.On("publish-ignores-staging"):`,
		Breaks:     "S7",
		Why:        "What was staged while the digests were computed is published without being covered by them.",
		Equivalent: "only the lease's holder stages, and not while it publishes",
	},
	{
		Name: "stage-ignores-base", File: "internal/store/relational/stage.go",
		Old:        `if base.Sequence != now.head {`,
		New:        `if base.Sequence != now.head && !mutant.On("stage-ignores-base") {`,
		Breaks:     "S6",
		Why:        "A delta is staged on another head than it was made for.",
		Equivalent: "only the lease's holder publishes, one after the other",
	},
	{
		Name: "bucket-of-removed-kept", File: "internal/store/relational/publish.go",
		Old:    `return q.queryEach(changedBuckets, []any`,
		New:    "text := changedBuckets\n\t\tif mutant.On(\"bucket-of-removed-kept\") {\n\t\t\ttext = \"SELECT bucket FROM member WHERE partition = $1 AND from_seq = $2 UNION SELECT bucket FROM bucket WHERE partition = $1 AND from_seq = $2\"\n\t\t}\n\t\treturn q.queryEach(text, []any",
		Breaks: "S7",
		Why:    "An incarnation's digest covers assets that it does not have.",
	},
	{
		Name: "effective-ignores-reads", File: "internal/prodspec/builder.go",
		Old:    `covering := intent.EffectiveDigest(output.Digest, digests)`,
		New:    "if mutant.On(\"effective-ignores-reads\") {\n\t\t\tdigests = nil\n\t\t}\n\t\tcovering := intent.EffectiveDigest(output.Digest, digests)",
		Breaks: "S2",
		Why:    "What an asset reads changes, and nothing of it is superseded: neither its push under way nor its approval.",
	},
	{
		Name: "readers-not-settled", File: "internal/prodspec/builder.go",
		Old:    `if !touched[reader] {`,
		New:    `if !touched[reader] && !mutant.On("readers-not-settled") {`,
		Breaks: "S2",
		Why:    "The same, until the process begins anew.",
	},
}

// guards hold what removes or changes too much (S5, S23).
var guards = []Mutant{
	{
		Name: "guard-of-one-step", File: "internal/prodspec/validate/period.go",
		Old:    `if !older.Created.After(j.Now.Add(-l.period)) ||`,
		New:    `if mutant.On("guard-of-one-step") || !older.Created.After(j.Now.Add(-l.period)) ||`,
		Breaks: "S23",
		Why:    "A guard compares with head alone: a little at a time, everything may go.",
	},
	{
		Name: "guard-passes-empty", File: "internal/prodspec/validate/guard.go",
		Old:    `if whole && count >= m.total {`,
		New:    `if whole && count >= m.total && !mutant.On("guard-passes-empty") {`,
		Breaks: "S5 S23",
		Why:    "A candidate in which nothing remains passes where there were no more assets than the floor.",
	},
	{
		Name: "guard-by-new-policy", File: "internal/prodspec/validate/guard.go",
		Old:    `if j.HeadPolicy != nil {`,
		New:    `if j.HeadPolicy != nil && !mutant.On("guard-by-new-policy") {`,
		Breaks: "S23",
		Why:    "A commit that loosens its guard is judged by the loosened one.",
	},
	{
		Name: "acknowledged-for-all", File: "internal/store/relational/candidates.go",
		Old:    `AND digest = $2 AND state = 'held' AND acknowledged = 1`,
		New:    `AND (digest = $2" + map[bool]string{true: " OR true"}[mutant.On("acknowledged-for-all")] + ") AND state = 'held' AND acknowledged = 1`,
		Breaks: "S23",
		Why:    "The acknowledgement of one candidate lets another one through. The sources must change between the two.",
	},
}

// identities keep what an id names (S22), and what references lead to.
var identities = []Mutant{
	{
		Name: "type-change-accepted", File: "internal/prodspec/validate/identity.go",
		Old:    `if baseMember.Type != "" && baseMember.Type != entry.Member.Type {`,
		New:    `if baseMember.Type != "" && baseMember.Type != entry.Member.Type && !mutant.On("type-change-accepted") {`,
		Breaks: "S22",
		Why:    "An id changes its type from one incarnation to the next.",
	},
	{
		Name: "returning-type-accepted", File: "internal/prodspec/validate/identity.go",
		Old:    `page[0].Type != "" && page[0].Type != entry.Member.Type {`,
		New:    `page[0].Type != "" && page[0].Type != entry.Member.Type && !mutant.On("returning-type-accepted") {`,
		Breaks: "S22",
		Why:    "An id comes back with another type while what was enforced under it is there.",
	},
	{
		Name: "duplicate-id-last-wins", File: "internal/prodspec/builder.go",
		Old:    `if findings := b.duplicates(pending); len(findings) > 0 {`,
		New:    `if findings := b.duplicates(pending); len(findings) > 0 && !mutant.On("duplicate-id-last-wins") {`,
		Breaks: "S22",
		Why:    "Of two generators that give one id, the last one wins.",
	},
	{
		Name: "dangling-reference-served", File: "internal/prodspec/validate/reference.go",
		Old:    `if entry := j.entries[edge.From]; entry != nil &&`,
		New:    `if entry := j.entries[edge.From]; mutant.On("dangling-reference-served") || entry != nil &&`,
		Breaks: "S6",
		Why:    "An asset is left out while another that did not change refers to it.",
	},
	{
		Name: "missing-reference-served", File: "internal/prodspec/validate/reference.go",
		Old:    `case target.Digest.IsZero():`,
		New:    `case target.Digest.IsZero() && !mutant.On("missing-reference-served"):`,
		Breaks: "S6",
		Why:    "A new asset refers to one that there is not.",
	},
	{
		Name: "cycle-served", File: "internal/prodspec/validate/cycle.go",
		Old:    `for _, kind := range kinds {`,
		New:    "for _, kind := range kinds {\n\t\tif mutant.On(\"cycle-served\") {\n\t\t\tbreak\n\t\t}",
		Breaks: "S6 L1",
		Why:    "Assets that wait for each other in a circle are served, and never pushed.",
	},
}

// contents are never other than their digests say (S7).
var contents = []Mutant{
	{
		Name: "body-not-verified", File: "internal/store/relational/snapshots.go",
		Old:    `if intent.BodyDigest(body) == digest {`,
		New:    `if intent.BodyDigest(body) == digest || mutant.On("body-not-verified") {`,
		Breaks: "S7",
		Why:    "A body with a flipped bit is served. It needs such bits.",
	},
	{
		Name: "blob-not-verified", File: "internal/store/relational/blobs.go",
		Old:    `case !isBlobDigest(digest, partition, kind, name, bytes):`,
		New:    `case !isBlobDigest(digest, partition, kind, name, bytes) && !mutant.On("blob-not-verified"):`,
		Breaks: "S7",
		Why:    "A blob with a flipped bit is served. It needs such bits.",
	},
	{
		Name: "delta-not-verified", File: "internal/store/relational/candidates.go",
		Old:    `if deltaDigest(rows) != stored {`,
		New:    `if deltaDigest(rows) != stored && !mutant.On("delta-not-verified") {`,
		Breaks: "S7",
		Why:    "A candidate's delta with a changed row is shown. It needs such rows, and somebody who looks.",
	},
	{
		Name: "member-one-too-long", File: "internal/store/relational/snapshots.go",
		Old:    `AND asset = $2 AND from_seq <= $3 AND to_seq > $3`,
		New:    "AND asset = $2 AND from_seq <= $3 AND to_seq >` + map[bool]string{true: \"=\"}[mutant.On(\"member-one-too-long\")] + ` $3",
		Breaks: "S7 S5",
		Why:    "An asset is found in the first incarnation that does not have it any more, or with the content before.",
	},
}
