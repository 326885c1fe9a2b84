package server

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	apipb "lehr.dev/gen/lehr/api/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/annealing/explain"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/store"
)

const (
	// maxFollowed bounds how many reports beyond those asked for one answer reads.
	maxFollowed = 500
	// maxRolled bounds how many members that wait are followed to their causes.
	maxRolled = 1000
	// maxNamed of a cause's assets are named.
	maxNamed = 10
	// mostPinned of a group's pins are told.
	mostPinned = 100
)

// What the name in a request for why means.
const (
	subjectAsset     = "asset"
	subjectGroup     = "group"
	subjectPartition = "partition"
)

// Why reads what package explain needs, and puts its answer into a message.
func (s *Server) Why(ctx context.Context, request *apipb.WhyRequest) (*apipb.WhyResponse, error) {
	partition, err := s.registered(ctx, request.Partition)
	if err != nil {
		return nil, err
	}
	if request.At != nil {
		return s.whyThen(ctx, partition, request)
	}
	facts, err := s.whyFacts(ctx, partition)
	if err != nil {
		return nil, err
	}
	switch request.Subject {
	case "":
		if request.Asset == "" {
			return s.whyPartition(ctx, partition, facts)
		}
		return s.whyNamed(ctx, partition, request.Asset, facts)
	case subjectAsset:
		return s.whyAsset(ctx, partition, request.Asset, facts)
	case subjectGroup:
		groups, err := s.groupsNamed(ctx, partition, request.Asset)
		if err != nil {
			return nil, err
		}
		if len(groups) == 0 {
			return nil, noGroup(partition, request.Asset)
		}
		return s.whyGroup(ctx, partition, request.Asset, groups, facts)
	case subjectPartition:
		return s.whyPartition(ctx, partition, facts)
	default:
		return nil, noSubject(request.Subject)
	}
}

func noSubject(subject string) error {
	return fault.New(fault.Invalid, "%.100q is nothing that there is a why for", subject).WithHint("there are: asset, group, partition")
}

// isAbsent: no asset of that name is there, and only what concerns all is said of it.
func isAbsent(response *apipb.WhyResponse) bool {
	return response.Report == nil && slices.ContainsFunc(response.Reasons, func(r *apipb.Reason) bool {
		return r.Kind == explain.KindNoAsset || r.Kind == explain.KindNoHead
	})
}

// whyNamed answers for the asset of that name, else the group, else the partition.
func (s *Server) whyNamed(ctx context.Context, partition store.Partition, name string, facts explain.Facts) (*apipb.WhyResponse, error) {
	response, err := s.whyAsset(ctx, partition, name, facts)
	if err != nil && !fault.Is(err, fault.NotFound) && !fault.Is(err, fault.Invalid) {
		return nil, err
	}
	groups, failed := s.groupsNamed(ctx, partition, name)
	switch {
	case failed != nil:
		return nil, failed
	case err == nil && isAbsent(response) && len(groups) > 0:
		return s.whyGroup(ctx, partition, name, groups, facts)
	case err == nil && isAbsent(response) && name == string(partition.ID):
		return s.whyPartition(ctx, partition, facts)
	case err == nil && len(groups) > 0:
		response.Also = []string{subjectGroup}
		return response, nil
	case err == nil:
		return response, nil
	case len(groups) > 0:
		return s.whyGroup(ctx, partition, name, groups, facts)
	case name == string(partition.ID):
		return s.whyPartition(ctx, partition, facts)
	default:
		return nil, err
	}
}

// whyFacts reads what concerns the whole partition.
func (s *Server) whyFacts(ctx context.Context, partition store.Partition) (facts explain.Facts, err error) {
	facts = explain.Facts{
		Partition: partition.ID, Head: partition.Head, Covered: partition.Covered, Now: s.runtime.Now(), Sweep: s.sweep,
		Reports: map[intent.AssetID]intent.Report{}, After: map[intent.AssetID][]intent.AssetID{},
		Members: map[intent.AssetID]intent.Member{}, Owners: map[intent.AssetID]string{}, Pins: map[intent.AssetID][]intent.Pin{},
	}
	if facts.Stop, err = s.stopOf(ctx, partition.ID); err != nil {
		return facts, err
	}
	if facts.Blocked, err = s.blocked(ctx, partition.ID); err != nil {
		return facts, err
	}
	policy, err := s.policy(ctx, partition.Head)
	if err != nil {
		return facts, err
	}
	facts.Owner = policy.GetOwner()
	runs, err := s.store.Rollouts(ctx, partition.ID, store.RolloutFilter{Newest: true, Limit: mostPage})
	if err != nil {
		return facts, err
	}
	facts.Rollouts = map[string]intent.Rollout{}
	for _, run := range runs {
		facts.Rollouts[run.Name] = run
		if run.State.Open() && facts.Holds == nil {
			if facts.Holds, err = s.holds(ctx, partition.ID); err != nil {
				return facts, err
			}
		}
	}
	facts.Before = map[string][]string{}
	for _, rollout := range policy.GetRollouts() {
		facts.Before[rollout.Name] = rollout.After
	}
	for _, health := range s.health() {
		if health.Partition == partition.ID {
			facts.Turn = health.Waiting
			if !health.Acting {
				facts.Problem = health.problem(partition)
			}
		}
	}
	return facts, nil
}

func (s *Server) holds(ctx context.Context, partition intent.PartitionID) (map[intent.AssetID]intent.Hold, error) {
	holds := map[intent.AssetID]intent.Hold{}
	list, err := s.store.Holds(ctx, partition)
	for _, hold := range list {
		holds[hold.Asset] = hold
	}
	return holds, err
}

func (s *Server) whyAsset(ctx context.Context, partition store.Partition, name string, facts explain.Facts) (*apipb.WhyResponse, error) {
	asset, err := intent.ParseAssetID(name)
	if err != nil {
		return nil, err
	}
	facts.Asset = asset
	if facts.Fields, err = s.fieldsFor(ctx, partition, facts.Rollouts, asset); err != nil {
		return nil, err
	}
	roots := []intent.AssetID{asset}
	for _, rollout := range slices.Sorted(maps.Keys(facts.Fields)) {
		roots = append(roots, facts.Follow(rollout)...)
	}
	if err := s.follow(ctx, &facts, roots...); err != nil {
		return nil, err
	}
	if err := s.readApproval(ctx, &facts); err != nil {
		return nil, err
	}
	if err := s.readGeneration(ctx, &facts); err != nil {
		return nil, err
	}
	if err := s.readPreview(ctx, partition, &facts); err != nil {
		return nil, err
	}
	answer := explain.Explain(facts)
	if answer.Root.Kind == explain.KindNoAsset && answer.State == "" {
		return nil, s.suggestNearest(ctx, s.stored(partition.Head), asset, fault.New(fault.NotFound, "%s", answer.Summary).WithHint("%s", answer.Root.Hint))
	}
	return toWhy(facts, answer), nil
}

// toWhy is the answer for one asset.
func toWhy(facts explain.Facts, answer explain.Answer) *apipb.WhyResponse {
	state := answer.State
	if state == "" && !facts.Past {
		state = intent.StateUnseen
	}
	response := &apipb.WhyResponse{
		Partition: string(facts.Partition), Asset: string(facts.Asset), Subject: subjectAsset, State: string(state),
		Summary: answer.Summary, Hint: answer.Root.Hint, Reasons: convertEach(answer.Reasons, toReason), Root: toRoot(answer.Root),
		Standing: toStanding(answer.Standing),
	}
	if report, ok := facts.Reports[facts.Asset]; ok {
		response.Report = toReport(report)
	}
	return response
}

// readApproval reads what was approved, and who may approve, where somebody's approval
// is waited for.
func (s *Server) readApproval(ctx context.Context, facts *explain.Facts) error {
	if !slices.ContainsFunc(slices.Collect(maps.Values(facts.Reports)), func(r intent.Report) bool {
		return slices.ContainsFunc(r.Waiting, func(w intent.WaitingOn) bool { return w.Kind == intent.WaitApproval })
	}) {
		return nil
	}
	consents, err := s.store.Consents(ctx, facts.Partition)
	if err != nil {
		return err
	}
	facts.Approvals = consents.Approvals
	facts.Approvers, err = s.approvers(ctx, facts.Partition, facts.Now)
	return err
}

// approvers are who may approve.
func (s *Server) approvers(ctx context.Context, partition intent.PartitionID, now time.Time) (list []string, err error) {
	grants, err := s.store.Grants(ctx)
	for _, g := range grants {
		if !g.Role.Includes(intent.Approver) || g.Partition != "" && g.Partition != partition {
			continue
		}
		name := strings.TrimPrefix(g.Subject, intent.UserPrefix)
		if g.Settling(now) {
			name += " (from " + g.Since.Add(store.ApproverSettles).UTC().Format(time.DateTime) + " UTC on)"
		}
		list = append(list, name)
	}
	slices.Sort(list)
	list = slices.Compact(list)
	if excess := len(list) - mostApprovers; excess > 0 {
		list = append(list[:mostApprovers], fmt.Sprintf("%d more", excess))
	}
	return list, err
}

// mostApprovers are named.
const mostApprovers = 10

// readOther reads who stopped another partition, if the caller may read that one.
func (s *Server) readOther(ctx context.Context, facts *explain.Facts, partition intent.PartitionID) error {
	visible, err := s.visible(ctx)
	if err != nil || partition == "" || !visible(partition) {
		return err
	}
	stop, err := s.stopOf(ctx, partition)
	if err != nil || stop == nil {
		return err
	}
	if facts.Others == nil {
		facts.Others = map[intent.PartitionID]intent.Stop{}
	}
	facts.Others[partition] = *stop
	return nil
}

// follow reads the reports of assets and of all that they wait on, level by level.
func (s *Server) follow(ctx context.Context, facts *explain.Facts, roots ...intent.AssetID) error {
	visited := map[intent.AssetID]bool{}
	next := roots
	if err := s.readPins(ctx, facts, roots); err != nil {
		return err
	}
	for _, asset := range roots {
		visited[asset] = true
	}
	for read := 0; len(next) > 0 && read <= maxFollowed; {
		asset := next[0]
		next = next[1:]
		report, ok := facts.Reports[asset]
		if !ok {
			read++
			followed, err := s.readFollowed(ctx, facts, asset)
			if err != nil {
				return err
			}
			if followed == nil {
				continue
			}
			report = *followed
		}
		if err := s.readPins(ctx, facts, []intent.AssetID{asset}); err != nil {
			return err
		}
		var err error
		if facts.After[asset], err = s.orderDependencies(ctx, facts.Head, report); err != nil {
			return err
		}
		blockers := slices.Clone(facts.After[asset])
		if rollout := facts.KeptBy(asset); rollout != "" {
			blockers = append(blockers, facts.Follow(rollout)...)
		}
		for _, waiting := range report.Waiting {
			blockers = append(blockers, waiting.Blockers...)
			if waiting.Kind == intent.WaitPartition && !facts.Past {
				if err := s.readOther(ctx, facts, waiting.Partition); err != nil {
					return err
				}
			}
			if waiting.Kind == intent.WaitBudget {
				if err := s.readTaken(ctx, facts); err != nil {
					return err
				}
				blockers = append(blockers, facts.Taken[waiting.Scope]...)
			}
		}
		for _, blocker := range blockers {
			if !visited[blocker] {
				visited[blocker] = true
				next = append(next, blocker)
			}
		}
	}
	return nil
}

// readPins reads the pins of those assets whose pins were not read yet. What is past had others.
func (s *Server) readPins(ctx context.Context, facts *explain.Facts, assets []intent.AssetID) error {
	var unread []intent.AssetID
	for _, asset := range assets {
		if _, ok := facts.Pins[asset]; !ok && !facts.Past {
			facts.Pins[asset] = nil
			unread = append(unread, asset)
		}
	}
	if len(unread) == 0 {
		return nil
	}
	pins, err := s.store.PinsOf(ctx, facts.Partition, unread...)
	for _, pin := range pins {
		facts.Pins[pin.Asset] = append(facts.Pins[pin.Asset], pin)
	}
	return err
}

// readTaken reads, once, whose pushes take the places of budgets.
func (s *Server) readTaken(ctx context.Context, facts *explain.Facts) error {
	if facts.Taken != nil {
		return nil
	}
	facts.Taken = map[string][]intent.AssetID{}
	open, err := s.store.OpenPushes(ctx, facts.Partition)
	for _, push := range open {
		for _, scope := range push.Budgets {
			if len(facts.Taken[scope]) < maxNamed {
				facts.Taken[scope] = append(facts.Taken[scope], push.Asset)
			}
		}
	}
	return err
}

// readFollowed reads what is known of one asset; nil: nothing was reported yet.
func (s *Server) readFollowed(ctx context.Context, facts *explain.Facts, asset intent.AssetID) (*intent.Report, error) {
	if err := s.readMember(ctx, facts, asset); err != nil {
		return nil, err
	}
	read := s.report
	if facts.Past {
		read = func(ctx context.Context, partition intent.PartitionID, asset intent.AssetID) (*intent.Report, error) {
			return s.reportThen(ctx, partition, asset, facts.Now)
		}
	}
	report, err := read(ctx, facts.Partition, asset)
	if report != nil {
		facts.Reports[asset] = *report
	}
	return report, err
}

// orderDependencies lists what an asset comes after, if its difference is unknown.
func (s *Server) orderDependencies(ctx context.Context, head intent.IncarnationID, report intent.Report) ([]intent.AssetID, error) {
	unknown := slices.ContainsFunc(report.Waiting, func(w intent.WaitingOn) bool { return w.Kind == intent.WaitUnknown })
	if !unknown || head.IsZero() {
		return nil, nil
	}
	dependencies := &intentpb.Dependencies{}
	if _, err := s.addon(ctx, head, report.Asset, dependencies); err != nil {
		return nil, err
	}
	var assets []intent.AssetID
	for _, dependency := range dependencies.Dependencies {
		if dependency.Rule == intentpb.Dependency_RULE_ORDER {
			assets = append(assets, intent.AssetID(dependency.On))
		}
	}
	return assets, nil
}

// addon reads an addon of an asset, and its place; nothing when it is not there.
func (s *Server) addon(ctx context.Context, head intent.IncarnationID, asset intent.AssetID, targets ...proto.Message) (member intent.Member, err error) {
	member, body, err := s.store.Content(ctx, head, asset)
	if fault.Is(err, fault.NotFound) {
		return intent.Member{}, nil
	}
	if err != nil {
		return member, err
	}
	decoded, err := schema.Decode(body)
	if err != nil {
		return member, err
	}
	for _, addon := range targets {
		if _, err := schema.Addon(decoded, addon); err != nil {
			return member, err
		}
	}
	return member, nil
}

// readMember reads the asset's place in head, and its owner.
func (s *Server) readMember(ctx context.Context, facts *explain.Facts, asset intent.AssetID) error {
	if facts.Head.IsZero() {
		return nil
	}
	owner := &intentpb.Owner{}
	member, err := s.addon(ctx, facts.Head, asset, owner)
	if err == nil && member.Asset != "" {
		facts.Members[asset] = member
		if owner.Owner != "" {
			facts.Owners[asset] = owner.Owner
		}
	}
	return err
}

func toReason(r explain.Reason) *apipb.Reason {
	return &apipb.Reason{
		Kind: r.Kind, Asset: string(r.Asset), Text: r.Text, Hint: r.Hint, Owner: r.Owner,
		Since: toTime(r.Since), Until: toTime(r.Until), Responsible: r.Responsible, Next: toTime(r.Next),
		Findings: convertEach(r.Findings, toFinding), Causes: convertEach(r.Causes, toReason), Partition: string(r.Partition),
	}
}

// toRoot is the end of a chain alone.
func toRoot(r explain.Reason) *apipb.Reason {
	r.Causes = nil
	return toReason(r)
}

func toStanding(s explain.Standing) *apipb.Standing {
	return &apipb.Standing{
		Desired: toIncarnationID(s.Desired), Target: toIncarnationID(s.Target), TargetBy: s.By,
		Current: string(s.Current), Differs: s.Differs, At: toTime(s.At),
	}
}
