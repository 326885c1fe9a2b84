package crash

import (
	"context"
	"errors"
	"fmt"
	"os"

	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
	"lehr.dev/test/crash/disk"
)

// recovered opens an image as a server does, checks what it finds, and runs
// the operation again, which must succeed.
func recovered(ctx context.Context, o operation, image disk.Image, e expectation) error {
	parent := ""
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		parent = "/dev/shm"
	}
	folder, err := os.MkdirTemp(parent, "lehr-crash-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	if err := image.Write(folder); err != nil {
		return err
	}
	return spared(ctx, o, folder, e)
}

// spared does so in the folder itself.
func spared(ctx context.Context, o operation, folder string, e expectation) error {
	d, err := disk.Spare(folder)
	if err != nil {
		return err
	}
	defer d.Release()
	w, err := serve(ctx, folder, nil)
	if err != nil {
		return fmt.Errorf("opening the store again: %w", err)
	}
	defer w.close()
	if err := errors.Join(w.asCommitted(ctx, e), w.sound(ctx)); err != nil {
		return err
	}
	if err := w.begin(ctx); err != nil {
		return fmt.Errorf("taking the lease again: %w", err)
	}
	if err := o.run(ctx, w); err != nil {
		return fmt.Errorf("doing it again: %w", err)
	}
	if err := w.sound(ctx); err != nil {
		return fmt.Errorf("after doing it again: %w", err)
	}
	return w.close()
}

// asCommitted: every row is as after the last commit that was answered, or as
// after the one that was under way; and what was promised is so (S14).
func (w *world) asCommitted(ctx context.Context, e expectation) error {
	found, err := dump(ctx, w.beside)
	if err != nil {
		return err
	}
	var differ []string
	as := len(e.states) == 0
	for _, state := range e.states {
		differ = found.difference(state)
		as = as || len(differ) == 0
	}
	if !as {
		return fmt.Errorf("what is found was never committed, or is older than what was answered: the tables %v differ", differ)
	}
	for _, p := range e.promises {
		var count int
		if err := w.beside.QueryRowContext(ctx, p.Query).Scan(&count); err != nil {
			return fmt.Errorf("%s: %w", p.Query, err)
		}
		if count != p.Want {
			return fmt.Errorf("it was answered, and is lost: %s is %d, not %d", p.Query, count, p.Want)
		}
	}
	return nil
}

// live finds what is gone though something names it (S17).
var live = map[string]string{
	"head without its incarnation":       "SELECT count(*) FROM partitions p WHERE head > 0 AND NOT EXISTS (SELECT 1 FROM incarnation WHERE partition = p.id AND seq = p.head)",
	"a pin without its incarnation":      "SELECT count(*) FROM pin p WHERE NOT EXISTS (SELECT 1 FROM incarnation WHERE partition = p.partition AND seq = p.seq)",
	"a label without its incarnation":    "SELECT count(*) FROM label l WHERE NOT EXISTS (SELECT 1 FROM incarnation WHERE partition = l.partition AND seq = l.seq)",
	"an open push without its target":    "SELECT count(*) FROM push p WHERE open = 1 AND NOT EXISTS (SELECT 1 FROM incarnation WHERE partition = p.partition AND seq = p.target)",
	"a record without its incarnation":   "SELECT count(*) FROM enforced e WHERE seq > 0 AND NOT EXISTS (SELECT 1 FROM incarnation WHERE partition = e.partition AND seq = e.seq)",
	"a member without its body":          "SELECT count(*) FROM member m WHERE NOT EXISTS (SELECT 1 FROM body WHERE digest = m.digest)",
	"a candidate's entry without a body": "SELECT count(*) FROM candidate_entry e WHERE has_body = 1 AND NOT EXISTS (SELECT 1 FROM body WHERE digest = e.digest)",
	"a body that nothing names":          "SELECT count(*) FROM body b WHERE NOT EXISTS (SELECT 1 FROM member WHERE digest = b.digest) AND NOT EXISTS (SELECT 1 FROM candidate_entry WHERE digest = b.digest)",
	"a budget that no open push holds":   "SELECT count(*) FROM budget WHERE used <> (SELECT count(*) FROM push WHERE open = 1)",
}

// sound: the file is whole, nothing live is gone, every body has its digest,
// every incarnation its membership's (S6, S7), and the audit its chain.
func (w *world) sound(ctx context.Context) error {
	var verdict string
	if err := w.beside.QueryRowContext(ctx, "PRAGMA integrity_check").Scan(&verdict); err != nil || verdict != "ok" {
		return fmt.Errorf("the file is not whole: %s %w", verdict, errors.Join(err))
	}
	for what, query := range live {
		var count int
		if err := w.beside.QueryRowContext(ctx, query).Scan(&count); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if count != 0 {
			return fmt.Errorf("there is %s", what)
		}
	}
	if err := w.bodies(ctx); err != nil {
		return err
	}
	if err := w.store.VerifyAudit(ctx, ""); err != nil {
		return err
	}
	p, err := w.store.Partition(ctx, "shop")
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := w.store.VerifyAudit(ctx, "shop"); err != nil {
		return err
	}
	incarnations, err := w.store.Incarnations(ctx, "shop", 0, 100)
	if err != nil {
		return err
	}
	if p.Head.Sequence > 0 && (len(incarnations) == 0 || incarnations[0].ID != p.Head) {
		return fmt.Errorf("head is %s, which is not the newest incarnation", p.Head)
	}
	for _, i := range incarnations {
		if err := w.membership(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// bodies rehashes all, past the store.
func (w *world) bodies(ctx context.Context) error {
	rows, err := w.beside.QueryContext(ctx, "SELECT digest, bytes FROM body")
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var digest, bytes []byte
		if err := rows.Scan(&digest, &bytes); err != nil {
			return err
		}
		if got := intent.BodyDigest(bytes); string(got[:]) != string(digest) {
			return fmt.Errorf("the body %x hashes to %s", digest, got)
		}
	}
	return rows.Err()
}

// membership reads an incarnation through the store, and recomputes its digest.
func (w *world) membership(ctx context.Context, incarnation intent.Incarnation) error {
	members, err := w.store.Members(ctx, incarnation.ID, store.AssetFilter{Limit: 10_000})
	if err != nil {
		return err
	}
	var buckets [intent.Buckets][]intent.MemberDigest
	for _, m := range members {
		if _, err := w.store.Body(ctx, m.Digest); err != nil {
			return err
		}
		bucket := &buckets[intent.BucketOf(m.Asset)]
		*bucket = append(*bucket, intent.MemberDigest{Asset: m.Asset, Digest: m.Digest})
	}
	var digests [intent.Buckets]intent.Digest
	for i := range buckets {
		digests[i] = intent.BucketDigest(buckets[i])
	}
	if got := intent.MembershipDigest(&digests); got != incarnation.Digest {
		return fmt.Errorf("the membership of %s has the digest %s, not %s", incarnation.ID, got, incarnation.Digest)
	}
	return nil
}
