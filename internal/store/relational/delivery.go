package relational

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"lehr.dev/internal/ground/document"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/store"
)

// SaveVersions says what a source lists now.
func (s *Store) SaveVersions(ctx context.Context, lease store.Lease, source string, listed []intent.Version) error {
	attempt := fmt.Sprintf("keeping %d versions of the source %s of %q", len(listed), source, lease.Partition)
	return s.act(ctx, attempt, lease, func(t *transaction, _ standing) error {
		known := map[intent.VersionName]intent.Version{}
		previous, err := versionsOf(t, lease.Partition, source)
		if err != nil {
			return err
		}
		for _, v := range previous {
			known[v.VersionName] = v
		}
		changed := false
		for _, v := range listed {
			earlier, ok := known[v.VersionName]
			delete(known, v.VersionName)
			v.Seen, v.Gone = t.now.UTC(), earlier.Gone
			if ok {
				v.Seen = earlier.Seen
			}
			if ok && v == earlier && earlier.Gone.IsZero() {
				continue
			}
			v.Gone, changed = unstamp(0), true
			if err := saveVersion(t, lease.Partition, source, v); err != nil {
				return err
			}
		}
		for _, v := range previous {
			if _, missing := known[v.VersionName]; !missing || !v.Gone.IsZero() {
				continue
			}
			v.Gone, changed = t.now.UTC(), true
			if err := saveVersion(t, lease.Partition, source, v); err != nil {
				return err
			}
		}
		if !changed {
			return nil
		}
		if err := touchVersions(t, lease.Partition, source); err != nil {
			return err
		}
		return t.tell(lease.Partition)
	})
}

// touchVersions gives a source's versions another revision: a count, and the time. A database that went back
// to an earlier state counts again, but at another time.
func touchVersions(t *transaction, partition intent.PartitionID, source string) error {
	var revision string
	if _, err := t.one("SELECT revision FROM version_source WHERE partition = $1 AND source = $2", []any{string(partition), source}, &revision); err != nil {
		return err
	}
	count, _, _ := strings.Cut(revision, "-")
	number, _ := strconv.ParseUint(count, 10, 64) // Zero: this is the first.
	_, err := t.exec(`INSERT INTO version_source (partition, source, revision) VALUES ($1, $2, $3)
		ON CONFLICT (partition, source) DO UPDATE SET revision = excluded.revision`,
		string(partition), source, fmt.Sprintf("%d-%d", number+1, stamp(t.now)))
	return err
}

// VersionsRevision tells one state of a source's versions from another.
func (s *Store) VersionsRevision(ctx context.Context, partition intent.PartitionID, source string) (revision string, err error) {
	err = s.read(ctx, fmt.Sprintf("reading the revision of the versions of the source %s of %q", source, partition), func(q querier) error {
		_, err := q.one("SELECT revision FROM version_source WHERE partition = $1 AND source = $2", []any{string(partition), source}, &revision)
		return err
	})
	return revision, err
}

func saveVersion(t *transaction, partition intent.PartitionID, source string, v intent.Version) error {
	record, err := encode(v)
	if err != nil {
		return err
	}
	_, err = t.exec(`INSERT INTO version (partition, source, name, digest, gone, record) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (partition, source, name, digest) DO UPDATE SET gone = excluded.gone, record = excluded.record`,
		string(partition), source, v.Name, v.Digest, stamp(v.Gone), record)
	return err
}

func versionsOf(q querier, partition intent.PartitionID, source string) (list []intent.Version, err error) {
	err = q.queryEach("SELECT record FROM version WHERE partition = $1 AND source = $2 ORDER BY name, CASE WHEN gone = 0 THEN 1 ELSE 0 END, gone, digest",
		[]any{string(partition), source}, func(row scanner) error {
			var v intent.Version
			err := decodeRow(row, "version", &v)
			list = append(list, v)
			return err
		})
	return list, err
}

// Versions that a source lists or listed.
func (s *Store) Versions(ctx context.Context, partition intent.PartitionID, source string) (list []intent.Version, err error) {
	err = s.read(ctx, fmt.Sprintf("listing the versions of the source %s of %q", source, partition), func(q querier) error {
		list, err = versionsOf(q, partition, source)
		return err
	})
	return list, err
}

// RecordDelivery keeps what somebody hands in.
func (s *Store) RecordDelivery(ctx context.Context, record intent.DeliveryRecord, may store.DeliveryAuthority) (intent.DeliveryRecord, error) {
	attempt := fmt.Sprintf("keeping the %s on the application %q of %q", record.Kind, record.Application, record.Partition)
	if !record.Kind.Said() || len(may.AnyOf) == 0 {
		return record, fault.New(fault.Invalid, "%s: nobody can hand that in", attempt)
	}
	err := s.write(ctx, attempt, func(t *transaction) error {
		roles, err := t.authorizeAny(may.AnyOf, may.Partition)
		if err != nil {
			return err
		}
		if err := mustRegister(t, attempt, record.Partition); err != nil {
			return err
		}
		if may.Said != nil {
			if err := mustHaveSaid(t, attempt, record.Partition, record.Application, *may.Said); err != nil {
				return err
			}
		}
		if record.Roles = nil; record.Kind == intent.DeliveryVote {
			record.Roles = roles
		}
		if record.Kind == intent.DeliveryRelease {
			if err := numberRelease(t, &record); err != nil {
				return err
			}
		}
		t.audit(record.Partition, t.now, record.By, "delivery-"+verbOf(record), record.Application, detailOf(record)).because(record.Reason)
		if record.At.IsZero() {
			record.At = t.now.UTC()
		}
		if err := addDelivery(t, &record); err != nil {
			return err
		}
		if err := tellReleased(t, record); err != nil {
			return err
		}
		if may.Partition != record.Partition && may.Partition != "" {
			if err := t.tell(may.Partition); err != nil {
				return err
			}
		}
		return t.tell(record.Partition)
	})
	return record, err
}

// authorizeAny returns the roles that the caller has in the partition, if one of those named is
// among them.
func (t *transaction) authorizeAny(anyOf []intent.Role, partition intent.PartitionID) (roles []intent.Role, err error) {
	if t.caller == nil {
		return intent.Roles(), nil
	}
	authority, err := readAuthority(t, *t.caller, t.now)
	if err != nil {
		return nil, err
	}
	roles = rolesIn(authority, partition)
	if slices.ContainsFunc(anyOf, func(role intent.Role) bool { return slices.Contains(roles, role) }) {
		return roles, nil
	}
	_, err = authority.Check(anyOf[0], partition)
	return nil, err
}

func verbOf(r intent.DeliveryRecord) string {
	switch {
	case r.Kind == intent.DeliveryAct:
		return r.Act
	case r.Kind == intent.DeliveryVote && r.Good:
		return "approve"
	case r.Kind == intent.DeliveryVote:
		return "reject"
	}
	return string(r.Kind)
}

func detailOf(r intent.DeliveryRecord) string {
	text := ""
	add := func(label, value string) {
		if value != "" {
			if text != "" {
				text += ", "
			}
			text += label + value
		}
	}
	if r.Release > 0 {
		add("release ", strconv.Itoa(r.Release))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Versions)) {
		if r.Kind == intent.DeliveryRelease {
			add(name+" ", r.Versions[name].Name)
		}
	}
	add("environment ", r.Environment)
	add("version ", r.Version.Name)
	add("", r.Version.Digest)
	add("constraint ", r.Constraint)
	if r.Kind == intent.DeliveryResult {
		add("", map[bool]string{true: "good", false: "bad"}[r.Good])
	}
	return text
}

// mustHaveSaid is Conflict where people or programs said something after a row.
func mustHaveSaid(t *transaction, attempt string, partition intent.PartitionID, application string, said uint64) error {
	var last uint64
	values := []any{string(partition), application}
	for _, kind := range intent.SaidKinds() {
		values = append(values, string(kind))
	}
	if _, err := t.one("SELECT coalesce(max(number), 0) FROM delivery WHERE partition = $1 AND application = $2 AND kind IN ($3, $4, $5, $6)", values, &last); err != nil {
		return err
	}
	if last != said {
		return fault.New(fault.Conflict, "%s: somebody said something of it meanwhile", attempt).WithHint("look at it again")
	}
	return nil
}

// mustRest is Conflict where rows were added to what a step rests on.
func mustRest(t *transaction, attempt string, rests []store.DeliveryRest) error {
	for _, rest := range rests {
		var last uint64
		if _, err := t.one("SELECT coalesce(max(number), 0) FROM delivery WHERE partition = $1 AND application = $2", []any{string(rest.Partition), rest.Application}, &last); err != nil {
			return err
		}
		if last != rest.Number {
			return fault.New(fault.Conflict, "%s: %s/%s changed since it was decided", attempt, rest.Partition, rest.Application)
		}
	}
	return nil
}

// numberRelease gives a release the next number of its line. Rows of releases are never collected.
func numberRelease(t *transaction, r *intent.DeliveryRecord) error {
	var count int
	if _, err := t.one("SELECT count(*) FROM delivery WHERE partition = $1 AND application = $2 AND kind = $3",
		[]any{string(r.Partition), r.Application, string(intent.DeliveryRelease)}, &count); err != nil {
		return err
	}
	r.Release = count + 1
	return nil
}

// tellReleased tells the partitions of a release's applications.
func tellReleased(t *transaction, r intent.DeliveryRecord) error {
	told := map[string]bool{string(r.Partition): true}
	for _, name := range slices.Sorted(maps.Keys(r.Versions)) {
		partition, _, _ := strings.Cut(name, "/")
		if told[partition] {
			continue
		}
		told[partition] = true
		if err := t.tell(intent.PartitionID(partition)); err != nil {
			return err
		}
	}
	return nil
}

// addDelivery gives a row its number and stores it.
func addDelivery(t *transaction, r *intent.DeliveryRecord) error {
	if _, err := t.one("SELECT coalesce(max(number), 0) + 1 FROM delivery WHERE partition = $1", []any{string(r.Partition)}, &r.Number); err != nil {
		return err
	}
	text, err := encode(*r)
	if err != nil {
		return err
	}
	_, err = t.exec("INSERT INTO delivery (partition, number, application, kind, environment, version, digest, created, record) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
		string(r.Partition), int64(r.Number), r.Application, string(r.Kind), r.Environment, r.Version.Name, r.Version.Digest, stamp(t.now), text)
	return err
}

// Promote carries a step out.
func (s *Store) Promote(ctx context.Context, lease store.Lease, step store.PromotionStep) error {
	attempt := fmt.Sprintf("delivering the application %q of %q", step.Application, step.Home)
	rests := func(t *transaction, revision uint64) error {
		if revision != step.Revision {
			return fault.New(fault.Conflict, "%s: head, a pin, an order or a stop changed since it was decided: revision %d is now %d", attempt, step.Revision, revision)
		}
		var home uint64
		ok, err := t.one("SELECT revision FROM partitions WHERE id = $1 AND registered = 1", []any{string(step.Home)}, &home)
		if err != nil {
			return err
		}
		if !ok || home != step.HomeRevision {
			return fault.New(fault.Conflict, "%s: the partition %q changed since it was decided", attempt, step.Home)
		}
		if err := mustRest(t, attempt, step.Rests); err != nil {
			return err
		}
		return mustHaveSaid(t, attempt, step.Home, step.Application, step.Said)
	}
	add := func(t *transaction, revision string) error {
		for _, r := range step.Records {
			r.Partition, r.Application, r.At = step.Home, step.Application, t.now.UTC()
			if r.Kind == intent.DeliveryPromotion && step.Edit != nil {
				r.Revision = revision
			}
			if err := addDelivery(t, &r); err != nil {
				return err
			}
		}
		if err := verify(t, attempt, lease, step); err != nil {
			return err
		}
		return t.tell(step.Home)
	}
	if step.Edit == nil {
		return s.act(ctx, attempt, lease, func(t *transaction, now standing) error {
			if err := rests(t, now.revision); err != nil {
				return err
			}
			return add(t, "")
		})
	}
	c := changing{store: s, partition: lease.Partition, name: step.Document, actor: intent.DeliveryHolder(step.Home, step.Application), lease: &lease, revision: step.Revision}
	c.rests = func(t *transaction) error { return rests(t, step.Revision) }
	c.then = func(t *transaction, result document.Document) error { return add(t, result.Revision.ID) }
	_, err := c.edit(ctx, *step.Edit)
	return err
}

// DeliveryRecords lists rows of an application, or of all.
func (s *Store) DeliveryRecords(ctx context.Context, partition intent.PartitionID, filter store.DeliveryFilter) (list []intent.DeliveryRecord, err error) {
	err = s.read(ctx, fmt.Sprintf("listing the delivery of the application %q of %q", filter.Application, partition), func(q querier) error {
		query, values := "SELECT record FROM delivery WHERE partition = $1 AND number > $2", []any{string(partition), int64(filter.After), pageSize(filter.Limit)}
		if filter.Application != "" {
			query, values = query+" AND application = $4", append(values, filter.Application)
		}
		if query += " ORDER BY number"; filter.Newest {
			query += " DESC"
		}
		return q.queryEach(query+" LIMIT $3 + 0", values, func(row scanner) error {
			var r intent.DeliveryRecord
			err := decodeRow(row, "row of a delivery", &r)
			list = append(list, r)
			return err
		})
	})
	return list, err
}

// deliveries goes over rows about versions that no source lists any more, as long as something
// else came to the environment since; then over those versions. What people asked stays: a pin
// or a mark holds until another word.
func (c *collection) deliveries(t *transaction, _ standing) (int64, error) {
	rows, err := t.exec(`DELETE FROM delivery WHERE partition = $1 AND number IN (
		SELECT d.number FROM delivery d WHERE d.partition = $1 AND d.created < $2 AND d.kind <> $4 AND d.version <> ''
		AND NOT EXISTS (SELECT 1 FROM version v WHERE v.partition = $1 AND v.name = d.version AND v.digest = d.digest AND v.gone = 0)
		AND d.number < (SELECT coalesce(max(newer.number), 0) FROM delivery newer
			WHERE newer.partition = $1 AND newer.application = d.application AND newer.environment = d.environment AND newer.kind = $5)
		LIMIT $3 + 0)`,
		string(c.lease.Partition), c.forgotten(), chunk, string(intent.DeliveryAct), string(intent.DeliveryPromotion))
	if err != nil || rows > 0 {
		return rows, err
	}
	if rows, err = t.exec(`DELETE FROM version WHERE partition = $1 AND gone > 0 AND gone < $2
		AND NOT EXISTS (SELECT 1 FROM delivery d WHERE d.partition = $1 AND d.version = version.name AND d.digest = version.digest)`,
		string(c.lease.Partition), c.forgotten()); err != nil || rows == 0 {
		return rows, err
	}
	var sources []string
	if err := t.queryEach("SELECT source FROM version_source WHERE partition = $1", []any{string(c.lease.Partition)}, func(row scanner) error {
		var source string
		err := row.Scan(&source)
		sources = append(sources, source)
		return err
	}); err != nil {
		return rows, err
	}
	for _, source := range sources {
		if err := touchVersions(t, c.lease.Partition, source); err != nil {
			return rows, err
		}
	}
	return rows, nil
}
