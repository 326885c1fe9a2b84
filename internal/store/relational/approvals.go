package relational

import (
	"context"
	"fmt"
	"slices"
	"time"

	"lehr.dev/internal/ground/audit"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// Approve allows one push of one plan, as far as one person goes. Approving
// again what was used allows one more.
func (s *Store) Approve(ctx context.Context, approval intent.Approval) error {
	attempt := fmt.Sprintf("approving a push of %q in %q", approval.Asset, approval.Partition)
	if err := bound(attempt, approval.By, approval.Effective, approval.Plan); err != nil {
		return err
	}
	if err := s.mustServe(attempt); err != nil {
		return err
	}
	return s.write(ctx, attempt, func(t *transaction) error {
		if err := t.authorize(intent.Approver, approval.Partition); err != nil {
			return err
		}
		if err := mustRegister(t, attempt, approval.Partition); err != nil {
			return err
		}
		if approval.Created.IsZero() {
			approval.Created = t.now
		}
		_, err := t.exec(`INSERT INTO approval (partition, asset, effective, plan, approver, origin, alone, reason, created, ends, used_by)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, '')
			ON CONFLICT (partition, asset, effective, plan, approver) DO UPDATE SET origin = excluded.origin, alone = excluded.alone,
			reason = excluded.reason, created = excluded.created, ends = excluded.ends, used_by = ''`,
			string(approval.Partition), string(approval.Asset), approval.Effective[:], approval.Plan[:],
			approval.By.Name, approval.By.Origin, flag(approval.Alone), approval.Reason, stamp(approval.Created), stamp(approval.Until))
		if err != nil {
			return err
		}
		t.audit(approval.Partition, t.now, approval.By, "approve", string(approval.Asset),
			audit.Approved{Plan: approval.Plan.Short(), Content: approval.Effective.Short(), Until: approval.Until}.String()).because(approval.Reason)
		return t.bump(approval.Partition)
	})
}

// bound refuses what names nobody, or nothing that it is said of.
func bound(attempt string, actor intent.Actor, digests ...intent.Digest) error {
	if actor.Name == "" {
		return fault.New(fault.Invalid, "%s: it names nobody", attempt)
	}
	for _, digest := range digests {
		if digest.IsZero() {
			return fault.New(fault.Invalid, "%s: it names no effective digest or no plan", attempt)
		}
	}
	return nil
}

// Reject blocks one plan, whoever approves it.
func (s *Store) Reject(ctx context.Context, r intent.Rejection) error {
	attempt := fmt.Sprintf("rejecting a push of %q in %q", r.Asset, r.Partition)
	if err := bound(attempt, r.By, r.Effective, r.Plan); err != nil {
		return err
	}
	return s.write(ctx, attempt, func(t *transaction) error {
		if err := t.authorize(intent.Approver, r.Partition); err != nil {
			return err
		}
		if err := mustRegister(t, attempt, r.Partition); err != nil {
			return err
		}
		if r.Created.IsZero() {
			r.Created = t.now
		}
		_, err := t.exec(`INSERT INTO rejection (partition, asset, effective, plan, rejecter, origin, reason, created, ends)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
			ON CONFLICT (partition, asset, effective, plan, rejecter) DO UPDATE SET origin = excluded.origin,
			reason = excluded.reason, created = excluded.created, ends = excluded.ends`,
			string(r.Partition), string(r.Asset), r.Effective[:], r.Plan[:], r.By.Name, r.By.Origin, r.Reason, stamp(r.Created), stamp(r.Until))
		if err != nil {
			return err
		}
		t.audit(r.Partition, t.now, r.By, "reject", string(r.Asset),
			fmt.Sprintf("plan %s of content %s", r.Plan.Short(), r.Effective.Short())).because(r.Reason)
		return t.bump(r.Partition)
	})
}

// Withdraw takes a person's rejections of an asset's plans back.
func (s *Store) Withdraw(ctx context.Context, partition intent.PartitionID, asset intent.AssetID, rejecter, reason string, actor intent.Actor) error {
	attempt := fmt.Sprintf("taking back what %s rejected of %q in %q", rejecter, asset, partition)
	return s.write(ctx, attempt, func(t *transaction) error {
		role := intent.Operator
		if rejecter == actor.Name {
			role = intent.Approver
		}
		if err := t.authorize(role, partition); err != nil {
			return err
		}
		removed, err := t.exec("DELETE FROM rejection WHERE partition = $1 AND asset = $2 AND rejecter = $3", string(partition), string(asset), rejecter)
		if err != nil {
			return err
		}
		if removed == 0 {
			return fault.New(fault.NotFound, "%s: there is nothing", attempt).WithHint("lehr get approvals lists rejections, with who gave them")
		}
		t.audit(partition, t.now, actor, "withdraw", string(asset), "the rejection by "+rejecter).because(reason)
		return t.bump(partition)
	})
}

// Override lets one check of one content pass until a time.
func (s *Store) Override(ctx context.Context, o intent.Override) error {
	attempt := fmt.Sprintf("overriding the check %q of %q in %q", o.Check, o.Asset, o.Partition)
	if err := bound(attempt, o.By, o.Effective); err != nil {
		return err
	}
	switch {
	case o.Check == "":
		return fault.New(fault.Invalid, "%s: it names no check", attempt)
	case o.Until.IsZero():
		return fault.New(fault.Invalid, "%s: it would never end", attempt)
	case o.Reason == "":
		return fault.New(fault.Invalid, "%s: it has no reason", attempt)
	}
	if err := s.mustServe(attempt); err != nil {
		return err
	}
	return s.write(ctx, attempt, func(t *transaction) error {
		if err := t.authorize(intent.Operator, o.Partition); err != nil {
			return err
		}
		if err := mustRegister(t, attempt, o.Partition); err != nil {
			return err
		}
		if o.Created.IsZero() {
			o.Created = t.now
		}
		_, err := t.exec(`INSERT INTO override (partition, asset, effective, kind, owner, origin, reason, created, ends)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
			ON CONFLICT (partition, asset, effective, kind) DO UPDATE SET owner = excluded.owner, origin = excluded.origin,
			reason = excluded.reason, created = excluded.created, ends = excluded.ends`,
			string(o.Partition), string(o.Asset), o.Effective[:], o.Check, o.By.Name, o.By.Origin, o.Reason, stamp(o.Created), stamp(o.Until))
		if err != nil {
			return err
		}
		t.audit(o.Partition, t.now, o.By, "override", string(o.Asset), fmt.Sprintf("check %s of content %s until %s",
			o.Check, o.Effective.Short(), o.Until.UTC().Format(time.RFC3339))).because(o.Reason)
		return t.bump(o.Partition)
	})
}

// Consents lists approvals that were not used, rejections and overrides, as of
// one moment.
func (s *Store) Consents(ctx context.Context, partition intent.PartitionID) (c store.Consents, err error) {
	err = s.read(ctx, fmt.Sprintf("listing the approvals of %q", partition), func(q querier) error {
		if c.Approvals, err = scanApprovals(q, partition, "used_by = ''"); err != nil {
			return err
		}
		if c.Rejections, err = scanRejections(q, partition, "1 = 1"); err != nil {
			return err
		}
		c.Overrides, err = scanOverrides(q, partition, "1 = 1")
		return err
	})
	return c, err
}

// ofPlan and ofContent choose what is said of one admission, whose values
// begin at the second argument.
const (
	ofContent = "asset = $2 AND effective = $3"
	ofPlan    = ofContent + " AND plan = $4"
)

func scanApprovals(q querier, partition intent.PartitionID, condition string, arguments ...any) (list []intent.Approval, err error) {
	err = q.queryEach(`SELECT asset, effective, plan, approver, origin, alone, reason, created, ends
		FROM approval WHERE partition = $1 AND `+condition+` ORDER BY asset, created, approver`, append([]any{string(partition)}, arguments...), func(row scanner) error {
		a := intent.Approval{Partition: partition}
		var created, ends int64
		err := row.Scan(&a.Asset, digestColumn{&a.Effective}, digestColumn{&a.Plan}, &a.By.Name, &a.By.Origin, &a.Alone, &a.Reason, &created, &ends)
		a.Created, a.Until = unstamp(created), unstamp(ends)
		list = append(list, a)
		return err
	})
	return list, err
}

// hasRejections reports whether any plan of the partition is rejected.
func hasRejections(q querier, partition intent.PartitionID) (bool, error) {
	var one int
	return q.one("SELECT 1 FROM rejection WHERE partition = $1 LIMIT 1", []any{string(partition)}, &one)
}

func scanRejections(q querier, partition intent.PartitionID, condition string, arguments ...any) (list []intent.Rejection, err error) {
	err = q.queryEach(`SELECT asset, effective, plan, rejecter, origin, reason, created, ends
		FROM rejection WHERE partition = $1 AND `+condition+` ORDER BY asset, created, rejecter`, append([]any{string(partition)}, arguments...), func(row scanner) error {
		r := intent.Rejection{Partition: partition}
		var created, ends int64
		err := row.Scan(&r.Asset, digestColumn{&r.Effective}, digestColumn{&r.Plan}, &r.By.Name, &r.By.Origin, &r.Reason, &created, &ends)
		r.Created, r.Until = unstamp(created), unstamp(ends)
		list = append(list, r)
		return err
	})
	return list, err
}

func scanOverrides(q querier, partition intent.PartitionID, condition string, arguments ...any) (list []intent.Override, err error) {
	err = q.queryEach("SELECT "+overrideColumns+` FROM override WHERE partition = $1 AND `+condition+` ORDER BY asset, kind`, append([]any{string(partition)}, arguments...), func(row scanner) error {
		o, err := scanOverride(row, partition)
		list = append(list, o)
		return err
	})
	return list, err
}

const overrideColumns = "asset, effective, kind, owner, origin, reason, created, ends"

func scanOverride(row scanner, partition intent.PartitionID) (intent.Override, error) {
	o := intent.Override{Partition: partition}
	var created, ends int64
	err := row.Scan(&o.Asset, digestColumn{&o.Effective}, &o.Check, &o.By.Name, &o.By.Origin, &o.Reason, &created, &ends)
	o.Created, o.Until = unstamp(created), unstamp(ends)
	return o, err
}

// Authors names who changed the asset since it was enforced last.
func (s *Store) Authors(ctx context.Context, target intent.IncarnationID, asset intent.AssetID, now time.Time) (names []string, err error) {
	err = s.read(ctx, fmt.Sprintf("finding who changed %q", asset), func(q querier) error {
		names, err = authorsOf(q, target, asset, now)
		return err
	})
	return names, err
}

// authorsOf names who published what the target has of an asset and the last
// enforced content had not, and who pinned it to the target.
func authorsOf(q querier, target intent.IncarnationID, asset intent.AssetID, now time.Time) (names []string, err error) {
	// CROSS JOIN, for SQLite then begins with the few rows of the asset.
	err = q.queryEach(`SELECT a.person FROM member m CROSS JOIN authorship a
			WHERE m.partition = $1 AND a.partition = $1 AND a.seq = m.from_seq AND m.asset = $2 AND m.from_seq <= $3
			AND m.from_seq > coalesce((SELECT seq FROM enforced WHERE partition = $1 AND asset = $2 AND carried = 0), 0)
		UNION SELECT holder FROM pin WHERE partition = $1 AND asset = $2 AND seq = $3 AND origin <> $5 AND (ends = 0 OR ends > $4)
		ORDER BY 1`,
		[]any{string(target.Partition), string(asset), int64(target.Sequence), stamp(now), intent.ServerOrigin}, func(row scanner) error {
			var name string
			err := row.Scan(&name)
			names = append(names, name)
			return err
		})
	return names, err
}

// useApprovals counts the approvals of an admission as they are in this very
// transaction, and consumes those that count where they are enough (S9).
func useApprovals(t *transaction, partition intent.PartitionID, a store.Admission) (intent.Consent, error) {
	approvals, err := scanApprovals(t, partition, ofPlan+" AND used_by = ''", string(a.Asset), a.Effective[:], a.Plan[:])
	if err != nil {
		return intent.Consent{}, err
	}
	authors, err := authorsOf(t, a.Target, a.Asset, a.At)
	if err != nil {
		return intent.Consent{}, err
	}
	consent := a.Quorum.Consent(authors, approvals, a.At)
	if !consent.Reached() {
		return consent, nil
	}
	for _, approval := range approvals {
		if !slices.Contains(consent.Approved, approval.By.Name) {
			continue
		}
		if _, err := t.exec("UPDATE approval SET used_by = $6 WHERE partition = $1 AND asset = $2 AND effective = $3 AND plan = $4 AND approver = $5",
			string(partition), string(approval.Asset), approval.Effective[:], approval.Plan[:], approval.By.Name, string(a.Push)); err != nil {
			return consent, err
		}
	}
	return consent, nil
}

// outgrown chooses what was said of assets whose content an incarnation
// changes or removes.
func outgrown(table string) string {
	return `EXISTS (SELECT 1 FROM member m WHERE m.partition = ` + table + `.partition AND m.asset = ` + table + `.asset AND (m.from_seq = $2 OR m.to_seq = $2))
		AND NOT EXISTS (SELECT 1 FROM member m WHERE m.partition = ` + table + `.partition AND m.asset = ` + table + `.asset
			AND m.from_seq <= $2 AND m.to_seq > $2 AND m.effective = ` + table + `.effective)`
}

// voidConsents forgets what was said of assets whose content this incarnation
// changes or removes, but the approvals that were used: it was said of what was
// asked then, and does not come back with it (S9).
func voidConsents(t *transaction, incarnation *intent.Incarnation) error {
	partition, next := incarnation.ID.Partition, int64(incarnation.ID.Sequence)
	unused := "used_by = '' AND " + outgrown("approval")
	approvals, err := scanApprovals(t, partition, unused, next)
	if err != nil {
		return err
	}
	rejections, err := scanRejections(t, partition, outgrown("rejection"), next)
	if err != nil {
		return err
	}
	overrides, err := scanOverrides(t, partition, outgrown("override"), next)
	if err != nil {
		return err
	}
	forget := func(table, condition string, void int) error {
		if void == 0 {
			return nil
		}
		_, err := t.exec("DELETE FROM "+table+" WHERE partition = $1 AND "+condition, string(partition), next)
		return err
	}
	void := func(asset intent.AssetID, format string, arguments ...any) {
		t.audit(partition, t.now, incarnation.Author, "void", string(asset),
			fmt.Sprintf(format, arguments...)+": "+incarnation.ID.String()+" changes the asset")
	}
	for _, a := range approvals {
		void(a.Asset, "%s", audit.Approved{By: a.By.Name, Plan: a.Plan.Short(), Content: a.Effective.Short()}.Void())
	}
	for _, r := range rejections {
		void(r.Asset, "the rejection by %s of plan %s of content %s", r.By.Name, r.Plan.Short(), r.Effective.Short())
	}
	for _, o := range overrides {
		void(o.Asset, "the override by %s of check %s of content %s", o.By.Name, o.Check, o.Effective.Short())
	}
	if err := forget("approval", unused, len(approvals)); err != nil {
		return err
	}
	if err := forget("rejection", outgrown("rejection"), len(rejections)); err != nil {
		return err
	}
	return forget("override", outgrown("override"), len(overrides))
}
