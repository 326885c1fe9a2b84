package crash

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"os"
	"time"

	"github.com/pressly/goose/v3"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
	"lehr.dev/internal/store/storetest"
)

// operation is what is interrupted.
type operation struct {
	name string
	// prepare makes the store that it starts from; nil: there is none.
	prepare func(ctx context.Context, w *world) error
	// file makes the file that it starts from, where no Lehr of today would.
	file func(path string) error
	// run does it, also where an earlier run was interrupted.
	run func(ctx context.Context, w *world) error
}

// operations are all that write to the store's files. What is added to Lehr
// and writes files gets a line here; backups and restores are in backup_test.go.
var operations = []operation{
	{name: "first start", run: publish},
	{name: "publish", prepare: published, run: publish},
	{name: "admit", prepare: published, run: admit},
	{name: "close", prepare: pushing, run: closePushes},
	{name: "collect", prepare: aged, run: collect},
	{name: "brakes", prepare: published, run: brakes},
	{name: "candidate", prepare: published, run: candidate},
	{name: "checkpoint", prepare: published, run: checkpointed},
	{name: "migrate", file: firstSchema, run: publish},
}

func assets(count int, version string) (delta []store.Entry) {
	for i := range count {
		e := storetest.Text(fmt.Sprintf("asset-%02d", i), fmt.Sprintf("%s of %d", version, i))
		if i > 0 {
			e.References = []intent.Reference{{Field: "on", To: intent.AssetID(fmt.Sprintf("asset-%02d", i-1))}}
		}
		e.Fields = []intent.Field{{Path: "version", Value: version}}
		delta = append(delta, e)
	}
	return delta
}

// advance makes the next incarnation.
func (w *world) advance(ctx context.Context, parts ...[]store.Entry) error {
	p, err := w.store.Partition(ctx, "shop")
	if err != nil {
		return err
	}
	for _, part := range parts {
		if err := w.store.Stage(ctx, w.lease, p.Head, part); err != nil {
			return err
		}
	}
	next := intent.Incarnation{ID: p.Head, Parent: p.Head, Author: storetest.Tester}
	next.ID.Sequence++
	made, err := w.store.Publish(ctx, w.lease, next)
	if err == nil {
		w.promise(1, "SELECT count(*) FROM partitions WHERE head >= %d", made.ID.Sequence)
		w.promise(1, "SELECT count(*) FROM incarnation WHERE seq = %d AND record LIKE '%%%s%%'", made.ID.Sequence, made.Digest)
	}
	return err
}

func published(ctx context.Context, w *world) error {
	if err := w.advance(ctx, assets(8, "first")); err != nil {
		return err
	}
	return w.advance(ctx, assets(3, "second"), []store.Entry{{Asset: "asset-07", Removed: true}})
}

func publish(ctx context.Context, w *world) error {
	return w.advance(ctx, assets(12, fmt.Sprintf("under %d", w.lease.Epoch)), []store.Entry{{Asset: "asset-06", Removed: true}})
}

func (w *world) admission(ctx context.Context, i int) (store.Admission, error) {
	p, err := w.store.Partition(ctx, "shop")
	return store.Admission{
		Push: w.push(i), Asset: intent.AssetID(fmt.Sprintf("asset-%02d", i)), Target: p.Head, Revision: p.Revision,
		Effective: intent.BodyDigest([]byte("content")), Plan: intent.Sum("test.plan", []byte{byte(i)}),
		ResourceKey: intent.ResourceKey(fmt.Sprintf("key/%d", i)), Budgets: []store.BudgetUse{{Key: "cell", Limit: 100}},
		Checks: []string{"order"}, At: now,
	}, err
}

func (w *world) push(i int) intent.PushID {
	return intent.PushID(fmt.Sprintf("%d-%d", w.lease.Epoch, i))
}

func admit(ctx context.Context, w *world) error {
	for i := range 4 {
		a, err := w.admission(ctx, i)
		if err != nil {
			return err
		}
		if i == 1 {
			if err := w.store.Approve(ctx, intent.Approval{Partition: "shop", Asset: a.Asset, Effective: a.Effective, Plan: a.Plan, By: intent.Actor{Name: "approver", Origin: "cli"}, Reason: "test", Created: now}); err != nil {
				return err
			}
			a.NeedsApproval = true
			if a.Revision, err = w.revision(ctx); err != nil {
				return err
			}
		}
		refusals, err := w.store.Admit(ctx, w.lease, []store.Admission{a})
		if err != nil {
			return err
		}
		if refusals[0] != nil {
			return fmt.Errorf("push %s was refused: %s", a.Push, refusals[0].Waiting.Reason)
		}
		w.promise(1, "SELECT count(*) FROM push WHERE id = '%s'", a.Push)
		w.promise(1, `SELECT count(*) FROM audit WHERE records LIKE '%%"admit"%%%s%%'`, a.Push)
	}
	// Of two that are set again, the last counts.
	key := fmt.Sprintf("run/%d", w.lease.Epoch)
	for _, text := range []string{"starting", "started"} {
		if err := w.store.SaveMemo(ctx, w.lease, w.push(0), intent.Memo{Key: intent.ResourceKey(key), Bytes: []byte(text)}); err != nil {
			return err
		}
	}
	w.promise(1, "SELECT count(*) FROM memo WHERE resource_key = '%s' AND CAST(bytes AS TEXT) = 'started'", key)
	return nil
}

func (w *world) revision(ctx context.Context) (uint64, error) {
	p, err := w.store.Partition(ctx, "shop")
	return p.Revision, err
}

func pushing(ctx context.Context, w *world) error {
	if err := published(ctx, w); err != nil {
		return err
	}
	return admit(ctx, w)
}

// closePushes settles what the restart left in doubt, which prepare opened,
// and records what is in sync.
func closePushes(ctx context.Context, w *world) error {
	p, err := w.store.Partition(ctx, "shop")
	if err != nil {
		return err
	}
	var all []store.Enforced
	for i := range 4 {
		asset := intent.AssetID(fmt.Sprintf("asset-%02d", i))
		all = append(all, store.Enforced{
			Asset: asset, Type: "t", Effective: intent.BodyDigest([]byte("content")), Incarnation: p.Head,
			ResourceKey: intent.ResourceKey(fmt.Sprintf("key/%d", i)), At: now,
		})
	}
	if _, err := w.store.SaveEnforced(ctx, w.lease, all); err != nil {
		return err
	}
	w.promise(4, "SELECT count(*) FROM enforced e JOIN claim USING (resource_key)")
	var reports []intent.Report
	for _, e := range all {
		reports = append(reports, intent.Report{Asset: e.Asset, State: intent.StateInSync})
	}
	if err := w.store.SaveReports(ctx, w.lease, reports); err != nil {
		return err
	}
	w.promise(4, "SELECT count(*) FROM report")
	return nil
}

// aged has incarnations that nothing needs, and some that a pin, a label, an
// enforced record and an open push need.
func aged(ctx context.Context, w *world) error {
	if err := published(ctx, w); err != nil {
		return err
	}
	if _, err := w.store.SetPin(ctx, intent.Pin{Asset: "asset-00", Incarnation: at(2), Rank: intent.RankPerson, Holder: storetest.Tester, Reason: "test", Created: now}); err != nil {
		return err
	}
	for version := range 7 {
		if err := w.advance(ctx, assets(4+version%3, fmt.Sprint("version ", version))); err != nil {
			return err
		}
		if version == 2 {
			if err := closePushes(ctx, w); err != nil {
				return err
			}
		}
	}
	if err := w.store.SetLabel(ctx, at(7), "kept", "yes", "", storetest.Tester); err != nil {
		return err
	}
	if err := candidate(ctx, w); err != nil {
		return err
	}
	return admit(ctx, w)
}

func at(sequence int) intent.IncarnationID {
	return intent.IncarnationID{Partition: "shop", Sequence: intent.Sequence(sequence)}
}

func collect(ctx context.Context, w *world) error {
	// Later than all that was written, by the fixed clock.
	_, err := w.store.Collect(ctx, w.lease, store.Retention{Incarnations: 1, Period: time.Minute, History: time.Minute}, now.Add(24*time.Hour))
	if err == nil {
		w.promise(0, "SELECT count(*) FROM incarnation WHERE seq = 3")
	}
	// Whatever came of it: what is live is there.
	w.promise(4, "SELECT count(*) FROM incarnation WHERE seq IN (2, 5, 7, 9)")
	return err
}

func brakes(ctx context.Context, w *world) error {
	s, by := w.store, storetest.Tester
	if err := s.SetStop(ctx, intent.Stop{Owner: by, Reason: "test"}); err != nil {
		return err
	}
	w.promise(1, "SELECT last > 0 FROM audit_head WHERE partition = ''")
	if err := s.SetHold(ctx, "shop", intent.Hold{Asset: "asset-00", Owner: by, Reason: "test"}); err != nil {
		return err
	}
	w.promise(1, "SELECT count(*) FROM hold WHERE asset = 'asset-00'")
	if _, err := s.SetPin(ctx, intent.Pin{Asset: "asset-01", Incarnation: at(1), Rank: intent.RankPerson, Holder: by, Reason: "test", Created: now}); err != nil {
		return err
	}
	w.promise(1, "SELECT count(*) FROM pin WHERE asset = 'asset-01' AND seq = 1")
	if err := s.SetLabel(ctx, at(1), "name", "good", "", by); err != nil {
		return err
	}
	w.promise(1, "SELECT count(*) FROM label WHERE seq = 1")
	if err := s.Resume(ctx, "", "test", by); err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	w.promise(1, `SELECT count(*) > 0 FROM audit WHERE partition = '' AND records LIKE '%%"resume"%%'`)
	return nil
}

// candidate is large, so that its commit is many pages.
func candidate(ctx context.Context, w *world) error {
	p, err := w.store.Partition(ctx, "shop")
	if err != nil {
		return err
	}
	held := intent.Candidate{
		ID:   intent.CandidateID{Partition: "shop", Digest: intent.BodyDigest(fmt.Appendf(nil, "candidate under %d", w.lease.Epoch))},
		Base: p.Head, State: intent.CandidateHeld, Created: now,
	}
	if err := w.store.SaveCandidate(ctx, w.lease, held, assets(10, "candidate's")); err != nil {
		return err
	}
	w.promise(1, "SELECT count(*) FROM candidate WHERE digest = '%s'", held.ID.Digest)
	if err := w.store.Acknowledge(ctx, held.ID, "test", storetest.Tester); err != nil {
		return err
	}
	w.promise(1, `SELECT count(*) > 0 FROM audit WHERE records LIKE '%%"acknowledge"%%%s%%'`, held.ID.Digest.String()[:8])
	err = w.store.PutBlobs(ctx, w.lease, "output", map[string][]byte{"one": bytes.Repeat([]byte("x"), 20_000), "two": []byte("short")})
	if err == nil {
		w.promise(2, "SELECT count(*) FROM blob")
	}
	return err
}

// checkpointed has the log moved into the file between its writes, and begun
// anew.
func checkpointed(ctx context.Context, w *world) error {
	for range 3 {
		if err := publish(ctx, w); err != nil {
			return err
		}
		w.checkpoint(ctx)
	}
	return brakes(ctx, w)
}

// firstSchema makes a store of the first schema, with content.
func firstSchema(path string) error {
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err != nil {
		return err
	}
	defer db.Close()
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, os.DirFS("../../internal/store/sqlite/migrations"))
	if err != nil {
		return err
	}
	if _, err := provider.UpTo(context.Background(), 1); err != nil {
		return err
	}
	for _, statement := range []string{
		"PRAGMA application_id = 0x6c656872",
		`INSERT INTO partitions VALUES ('shop', '/srv/lehr.yaml', 1, 0, '[]', 9, 0, 0, 1, 'old', 1)`,
		`INSERT INTO enforced VALUES ('shop', 'a', 't', x'', x'', 0, 'k/a', 1), ('shop', 'b', 't', x'', x'', 0, 'k/b', 1)`,
		`INSERT INTO claim VALUES ('k/a', 'shop', 'a'), ('k/b', 'shop', 'b')`,
	} {
		if _, err := db.Exec(statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}
