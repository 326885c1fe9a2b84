package monitor

import (
	"encoding/hex"
	"encoding/json"
	"strings"

	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// behind changes the store behind Lehr's back.
func (r *run) behind(text string, arguments ...any) {
	r.Helper()
	if _, err := r.db.ExecContext(r.Context(), text, arguments...); err != nil {
		r.Fatal(err)
	}
}

// tampers changes it, and lets the monitor look at everything.
func (r *run) tampers(text string, arguments ...any) {
	r.Helper()
	r.behind(text, arguments...)
	r.scans()
}

// records appends to the audit, well linked, as a store would that decides
// wrongly.
func (r *run) records(verb, subject, detail, by string) {
	r.Helper()
	c := chain{partition: sim}
	var link digest
	if err := r.db.QueryRow("SELECT last, digest FROM audit_head WHERE partition = ?", string(sim)).Scan(&c.last, &link); err != nil {
		r.Fatal(err)
	}
	c.link = link.Digest
	entry := record{Number: c.last + 1, At: r.now, By: intent.Actor{Name: by, Origin: "server"}, Verb: verb, Subject: subject, Detail: detail}
	next := c.follow(entry)
	entry.Link = hex.EncodeToString(next[:8])
	text, err := json.Marshal([]record{entry})
	if err != nil {
		r.Fatal(err)
	}
	r.behind("INSERT INTO audit (partition, last, records, digest) VALUES (?, ?, ?, ?)", string(sim), entry.Number, string(text), next[:])
	r.behind("UPDATE audit_head SET last = ?, digest = ? WHERE partition = ?", entry.Number, next[:], string(sim))
}

// enters writes an admission into the journal, and its claim.
func (r *run) enters(a store.Admission) {
	r.Helper()
	var keys []string
	for _, use := range a.Budgets {
		keys = append(keys, use.Key)
	}
	r.behind("INSERT OR REPLACE INTO claim (resource_key, partition, asset) VALUES (?, ?, ?)", string(a.ResourceKey), string(sim), string(a.Asset))
	r.behind(`INSERT INTO push (id, partition, asset, target, effective, plan, resource_key, epoch, admitted, budgets, doubt, open, ending, reason, ended)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 1, '', '', 0)`, string(a.Push), string(sim), string(a.Asset), int64(a.Target.Sequence),
		a.Effective[:], a.Plan[:], string(a.ResourceKey), r.lease.Epoch, a.At.UnixNano(), strings.Join(keys, "\n"))
}

// admits writes an admission as a store would that checks nothing.
func (r *run) admits(a store.Admission) store.Admission {
	r.Helper()
	r.enters(a)
	r.records("admit", string(a.Asset), detailOf(a), r.lease.Holder)
	r.Monitor.Commit()
	return a
}

// admitsBy admits a push that somebody approved.
func (r *run) admitsBy(a store.Admission, by string) {
	r.Helper()
	r.enters(a)
	r.records("admit", string(a.Asset), strings.Replace(detailOf(a), "approved by "+bob.Name, "approved by "+by, 1), r.lease.Holder)
	r.Monitor.Commit()
}

// forces admits a push of an asset whatever there is against it.
func (r *run) forces(id intent.AssetID, changes ...func(*store.Admission)) store.Admission {
	r.Helper()
	return r.admits(r.admission(id, changes...))
}

// passes admits a push that passes a check by an override, as a store would that
// asks nobody.
func (r *run) passes(id intent.AssetID, check string) {
	r.Helper()
	a := r.admission(id, func(a *store.Admission) { a.Checks = without(check) })
	r.enters(a)
	r.records("admit", string(id), detailOf(a)+"; "+check+" overridden by bob until 1 Jan: blind", r.lease.Holder)
	r.Monitor.Commit()
}

// usedBy has a push use whatever approvals there are.
func (r *run) usedBy(a store.Admission) {
	r.Helper()
	r.behind("UPDATE approval SET used_by = ?", string(a.Push))
	r.admits(a)
}

func detailOf(a store.Admission) string {
	detail := "push " + string(a.Push) + " to " + a.Target.String() + ", content " + a.Effective.Short() + ", plan " + a.Plan.Short()
	detail += "; passed " + strings.Join(a.Checks, " ")
	if a.NeedsApproval {
		detail += "; approved by " + bob.Name
	}
	return detail
}
