package cli

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/sdk/client"
)

func listAssets(ctx context.Context, s *session, c *client.Client, q query) (listing, error) {
	if q.usedBy != "" {
		return listUses(ctx, s, c, q)
	}
	result := listing{header: []string{"ASSET", "TYPE", "STATE", "SINCE"}}
	if s.wide() {
		result.header = append(result.header, "DIGEST", "EFFECTIVE")
	}
	request := &apipb.ListAssetsRequest{
		Partition: q.partition, Prefix: q.prefix, Type: q.kind, RefersTo: q.refersTo, Filter: q.filter, Content: s.json(),
	}
	request.Field, request.Value = fieldAndValue(q.field)
	asOf, err := s.asOf(q)
	if err != nil {
		return result, err
	}
	request.At, request.Incarnation, request.Label = asOf.time, asOf.incarnation, asOf.label
	more, err := pages(q.limit, func(most int32) (int, bool, error) {
		request.Limit = most
		response, err := c.Assets.ListAssets(ctx, request)
		if err != nil {
			return 0, false, err
		}
		for _, a := range response.Assets {
			row := []string{a.Id, lastName(a.Type), a.State, a.Since}
			if s.wide() {
				row = append(row, brief(a.Digest), brief(a.Effective))
				row[1] = a.Type
			}
			result.add(a, row...)
		}
		// Later pages are of the same incarnation.
		request.After, request.Incarnation, request.At, request.Label = response.Next, response.Incarnation, nil, ""
		return len(response.Assets), response.Next != "", nil
	})
	result.more = more
	return result, err
}

// listUses lists the assets that refer to one, also through others: each once, by the
// shortest way to it.
func listUses(ctx context.Context, s *session, c *client.Client, q query) (listing, error) {
	result := listing{header: []string{"ASSET", "STEPS", "REFERS TO", "BY"}}
	if q.prefix+q.kind+q.field+q.refersTo+q.filter != "" {
		return result, fault.New(fault.Invalid, "--uses lists all that refer to the asset, and is not combined with another choice").
			WithHint("leave out --prefix, --type, --field, --refers-to and --filter")
	}
	asOf, err := s.asOf(q)
	if err != nil {
		return result, err
	}
	a, err := c.Assets.GetAsset(ctx, &apipb.GetAssetRequest{
		Partition: q.partition, Asset: q.usedBy, Incarnation: asOf.incarnation, At: asOf.time, Label: asOf.label, Uses: true,
	})
	if err != nil {
		return result, err
	}
	behind := []string{a.Asset.Id} // By depth.
	for _, use := range a.Uses {
		behind = append(behind[:use.Depth], usedName(use))
		if use.Again {
			continue
		}
		if q.limit > 0 && len(result.rows) == q.limit {
			result.more = true
			return result, nil
		}
		result.add(use, usedName(use), strconv.Itoa(int(use.Depth)), behind[use.Depth-1], strings.Join(use.Fields, ", "))
	}
	result.more = a.MoreUses
	return result, nil
}

// usedName is an asset that refers to another one, with its partition where that is another one.
func usedName(use *apipb.Use) string {
	if use.Partition == "" {
		return use.Asset
	}
	return use.Partition + "//" + use.Asset
}

// fieldAndValue cuts PATH=VALUE; the key of a map may hold an equals sign.
func fieldAndValue(text string) (field, value string) {
	field, value, _ = strings.Cut(text, "=")
	if !strings.Contains(field, "[") {
		return field, value
	}
	if key, value, ok := strings.Cut(text, "]="); ok {
		return key + "]", value
	}
	return text, ""
}

func listPartitions(ctx context.Context, s *session, c *client.Client, q query) (listing, error) {
	result := listing{header: []string{"PARTITION", "HEAD", "MODE", "ASSETS", "STATES", "NOTE"}}
	if s.wide() {
		result.header = append(result.header, "OWNER", "DEFINITION", "REPLICA", "EPOCH")
	}
	response, err := c.Partitions.ListPartitions(ctx, &apipb.ListPartitionsRequest{})
	if err != nil {
		return result, err
	}
	problems, turns, whole := problemsOf(ctx, c)
	for _, problem := range whole {
		fmt.Fprintf(s.Err, "The server: %s\n", plain(problem))
	}
	for _, p := range response.Partitions {
		if q.partition != "" && q.partition != p.Id {
			continue
		}
		row := []string{p.Id, p.Head, p.Mode, fmt.Sprint(p.Assets), states(p.States), partitionNote(p, problems[p.Id], turns[p.Id])}
		if s.wide() {
			row = append(row, p.Owner, p.Definition, p.Replica, fmt.Sprint(p.Epoch))
		}
		result.add(p, row...)
	}
	if len(result.rows) == 0 && q.partition != "" {
		_, err = c.Partitions.GetPartition(ctx, &apipb.GetPartitionRequest{Id: q.partition})
	}
	return result, err
}

// partitionNote says what is out of the ordinary.
func partitionNote(p *apipb.Partition, problem, turn string) string {
	var notes []string
	if p.Stop != nil {
		notes = append(notes, "stopped by "+p.Stop.Owner.GetName())
	}
	if p.BlockedBy != nil {
		notes = append(notes, "newest sources "+p.BlockedBy.State)
	}
	if p.Orphans > 0 {
		notes = append(notes, count(int(p.Orphans), "orphan"))
	}
	for _, r := range p.Covered {
		if r.Failing != nil {
			notes = append(notes, "source "+r.Source+" cannot be read since "+r.Failing.Since.AsTime().UTC().Format(time.RFC3339))
		}
	}
	if turn != "" {
		notes = append(notes, "newer sources "+turn)
	}
	if problem != "" {
		notes = append(notes, "not all of it works: "+problem)
	}
	return strings.Join(notes, ", ")
}

// problemsOf says what does not work in the server, by partition and as a
// whole, and which builds wait for their turn. A server that does not tell has
// none to tell of.
func problemsOf(ctx context.Context, c *client.Client) (problems, turns map[string]string, whole []string) {
	problems, turns = map[string]string{}, map[string]string{}
	response, err := c.Server.GetServer(ctx, serverRequest)
	if err != nil {
		return problems, turns, nil
	}
	for _, health := range response.Partitions {
		if !health.Acting {
			problems[health.Partition] = health.Problem
		}
		turns[health.Partition] = health.Waiting
	}
	return problems, turns, response.Problems
}

// states renders counts by state, in the order of the names.
func states(counts map[string]int64) string {
	var parts []string
	for _, state := range slices.Sorted(maps.Keys(counts)) {
		if counts[state] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[state], state))
		}
	}
	return strings.Join(parts, ", ")
}

func listIncarnations(ctx context.Context, s *session, c *client.Client, q query) (listing, error) {
	result := listing{header: []string{"INCARNATION", "STATE", "ASSETS", "ADDED", "CHANGED", "REMOVED", "AGE"}}
	if s.wide() {
		result.header = append(result.header, "AUTHOR", "DIGEST", "SOURCES", "COMMITS", "LABELS")
	}
	add := func(i *apipb.Incarnation) {
		row := []string{i.Id, i.State, fmt.Sprint(i.Count), fmt.Sprint(i.Added), fmt.Sprint(i.Changed), fmt.Sprint(i.Removed), s.age(i.Created)}
		if s.wide() {
			row = append(row, i.Author.GetName(), brief(i.Digest), sources(i.Sources), commits(i.Sources), labels(i.Labels))
		}
		result.add(i, row...)
	}
	if q.at != "" || q.label != "" {
		asOf, err := s.asOf(q)
		if err != nil {
			return result, err
		}
		response, err := c.Incarnations.GetIncarnation(ctx, &apipb.GetIncarnationRequest{
			Id: cmp.Or(asOf.incarnation, q.partition), At: asOf.time, Label: asOf.label, Changes: 1,
		})
		if err != nil {
			return result, err
		}
		add(response.Incarnation)
		return result, nil
	}
	s.tellBlocked(ctx, c, q.partition)
	request := &apipb.ListIncarnationsRequest{Partition: q.partition}
	more, err := pages(q.limit, func(most int32) (int, bool, error) {
		request.Limit = most
		response, err := c.Incarnations.ListIncarnations(ctx, request)
		if err != nil {
			return 0, false, err
		}
		for _, i := range response.Incarnations {
			add(i)
		}
		request.Before = response.Next
		return len(response.Incarnations), response.Next != 0, nil
	})
	result.more = more
	return result, err
}

// tellBlocked says that a candidate waits to be the next incarnation, or was
// refused: a list of what is served does not.
func (s *session) tellBlocked(ctx context.Context, c *client.Client, partition string) {
	response, err := c.Partitions.GetPartition(ctx, &apipb.GetPartitionRequest{Id: partition})
	if err == nil && response.Partition.BlockedBy != nil {
		fmt.Fprintf(s.Err, "The newest sources are %s: lehr describe candidate\n", plain(response.Partition.BlockedBy.State))
	}
}

// labels renders them in the order of their keys.
func labels(all map[string]string) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(all)) {
		parts = append(parts, key+"="+all[key])
	}
	return strings.Join(parts, " ")
}

func sources(revisions []*apipb.SourceRevision) string {
	var parts []string
	for _, r := range revisions {
		parts = append(parts, r.Source+"@"+intent.ShortRevision(r.Revision))
	}
	return strings.Join(parts, " ")
}

// commits tells who made those that sources are at, and why.
func commits(revisions []*apipb.SourceRevision) string {
	var parts []string
	for _, r := range revisions {
		if r.Commit == nil {
			continue
		}
		if part := r.Commit.Author + ": " + r.Commit.Subject; !slices.Contains(parts, part) {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, "; ")
}

func listCandidates(ctx context.Context, s *session, c *client.Client, q query) (listing, error) {
	result := listing{header: []string{"CANDIDATE", "STATE", "BASE", "ADDED", "CHANGED", "REMOVED", "AGE", "FIRST FINDING"}}
	response, err := c.Candidates.ListCandidates(ctx, &apipb.ListCandidatesRequest{Partition: q.partition, Limit: int32(min(q.limit, 1000))})
	if err != nil {
		return result, err
	}
	for _, candidate := range response.Candidates {
		first := ""
		if len(candidate.Findings) > 0 {
			first = inLine(candidate.Findings[0])
		}
		result.add(candidate, candidate.Id, candidate.State, candidate.Base, fmt.Sprint(candidate.Added),
			fmt.Sprint(candidate.Changed), fmt.Sprint(candidate.Removed), s.age(candidate.Created), first)
	}
	return result, nil
}

func listReports(ctx context.Context, s *session, c *client.Client, q query) (listing, error) {
	result := listing{header: []string{"ASSET", "STATE", "TARGET", "ACTION", "AGE", "WAITS FOR"}}
	if s.wide() {
		result.header = append(result.header, "HEALTH", "PLAN", "RESOURCE", "PUSH", "NEXT")
	}
	request := &apipb.ListReportsRequest{Partition: q.partition, Prefix: q.prefix, State: q.state, Group: q.group}
	more, err := pages(q.limit, func(most int32) (int, bool, error) {
		request.Limit = most
		response, err := c.Reports.ListReports(ctx, request)
		if err != nil {
			return 0, false, err
		}
		for _, r := range response.Reports {
			waiting := ""
			if len(r.Waiting) > 0 {
				waiting = r.Waiting[0].Kind + ": " + r.Waiting[0].Reason
			}
			if more := len(r.Waiting) - 1; more > 0 {
				waiting += fmt.Sprintf(" (and %d more)", more)
			}
			if waiting == "" && r.Health.GetState() == string(intent.Unhealthy) {
				waiting = "nothing; it is unhealthy: " + r.Health.Reason
			}
			row := []string{r.Asset, r.State, r.Target, r.Plan.GetAction(), s.age(r.At), waiting}
			if s.wide() {
				row = append(row, r.Health.GetState(), brief(r.PlanDigest), r.ResourceKey, r.Push, s.remaining(r.Next))
			}
			result.add(r, row...)
		}
		request.After = response.Next
		return len(response.Reports), response.Next != "", nil
	})
	result.more = more
	return result, err
}

func listPushes(ctx context.Context, s *session, c *client.Client, q query) (listing, error) {
	result := listing{header: []string{"PUSH", "ASSET", "TARGET", "ENDING", "AGE", "TOOK", "REASON"}}
	response, err := c.Journal.ListPushes(ctx, &apipb.ListPushesRequest{Partition: q.partition, Asset: q.asset, Limit: int32(min(q.limit, 1000))})
	if err != nil {
		return result, err
	}
	for _, p := range response.Pushes {
		duration := ""
		if p.Ended != nil {
			duration = p.Ended.AsTime().Sub(p.Admitted.AsTime()).Round(1e6).String()
		}
		result.add(p, p.Push, p.Asset, p.Target, ending(p), s.age(p.Admitted), duration, p.Reason)
	}
	return result, nil
}

func ending(p *apipb.Push) string {
	switch {
	case p.Ending != "":
		return p.Ending
	case p.Doubt:
		return "in doubt"
	default:
		return "under way"
	}
}

// othersText says how many others a finding stands for; empty: none.
func othersText(f *apipb.Finding) string { return plain(intent.OthersText(int(f.Alike), f.Examples)) }

// inLine is a finding in one line.
func inLine(f *apipb.Finding) string {
	text := location(f) + f.Message
	if f.Alike > 0 {
		text += fmt.Sprintf(" (%s)", intent.OthersText(int(f.Alike), nil))
	}
	return text
}

// location is the place that a finding names, as "file:line: field: ".
func location(f *apipb.Finding) string {
	place := f.File
	if f.Line > 0 {
		place = fmt.Sprintf("%s:%d", place, f.Line)
		if f.Column > 0 {
			place = fmt.Sprintf("%s:%d", place, f.Column)
		}
	}
	if place == "" {
		place = f.Asset
	}
	if place != "" {
		place += ": "
	}
	if f.Field != "" && !strings.Contains(f.Message, f.Field) {
		place += f.Field + ": "
	}
	return place
}

// listWindows lists when checks that are calendars let pushes begin, in their
// zones. A limit is that of each; the usual one leaves it to the server.
func listWindows(ctx context.Context, s *session, c *client.Client, q query) (listing, error) {
	result := listing{header: []string{"CHECK", "STATE", "OPENS", "CLOSES", "ZONE", "REASON"}}
	request := &apipb.ListWindowsRequest{Partition: q.partition, Asset: q.asset}
	if q.limit < usualLimit {
		request.Limit = int32(q.limit)
	}
	response, err := c.Partitions.ListWindows(ctx, request)
	if err != nil {
		return result, err
	}
	for _, w := range response.Windows {
		zone, err := time.LoadLocation(w.Zone)
		if err != nil {
			zone = time.UTC
		}
		moment := func(at *timestamppb.Timestamp) string {
			if at == nil {
				return "-"
			}
			return at.AsTime().In(zone).Format("Mon 2006-01-02 15:04 MST")
		}
		result.add(w, w.Check, w.State, moment(w.From), moment(w.Until), w.Zone, w.Reason)
	}
	return result, nil
}
