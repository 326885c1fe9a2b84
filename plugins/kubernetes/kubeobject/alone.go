package kubeobject

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"lehr.dev/plugins/kubernetes/clusterfile"
	"lehr.dev/plugins/kubernetes/objectdiff"
	"lehr.dev/sdk/serve"
)

// reasonNotAsked says why objects of a kind are compared with intent alone; empty: the cluster
// is asked what it would make of them.
func reasonNotAsked(cluster clusterfile.Cluster, kind schema.GroupKind) string {
	name := nameKind(kind)
	switch {
	case cluster.Observe:
		return "compared with intent alone: the cluster is listed with observe"
	case cluster.Compare[name] == clusterfile.CompareSchema:
		return "compared with intent alone, without what the cluster would make of it: it is listed with compare: schema for " + name
	}
	return ""
}

// nameKind is a kind as the list of clusters names it: Kind.group, and the core's without a dot.
func nameKind(kind schema.GroupKind) string {
	if kind.Group == "" {
		return kind.Kind
	}
	return kind.Kind + "." + kind.Group
}

// planAlone compares with intent, without asking the server what it would make of it: a dry
// run needs the right to write, and a webhook may answer none. What Lehr set before and
// intent does not name any more is removed by a push, so it is a change, too; what the server
// puts in its place is not known.
func (l *look) planAlone(ctx context.Context) (err error) {
	managers := l.managers()
	if l.sending, l.unmanaged, err = l.sent(l.live, managers); err != nil {
		return err
	}
	changes := objectdiff.Named(l.live.Object, l.sending.Object)
	if !l.observed {
		dropped, err := objectdiff.Dropped(l.live, l.sending.Object, managers)
		if err != nil {
			return err
		}
		changes = append(changes, dropped...)
	}
	owners, err := objectdiff.ReadOwners(l.live, managers)
	if err != nil {
		return err
	}
	for _, change := range changes {
		change.Writer = owners.Writers(change.Path)
		field := l.shown(change)
		field.Reason = l.alone
		if note := l.autoscalerNote(ctx, field.Path); note != "" {
			field.Reason = strings.TrimPrefix(field.Reason+"; "+note, "; ")
		}
		l.plan.Changes = append(l.plan.Changes, field)
	}
	slices.SortStableFunc(l.plan.Changes, func(a, b serve.FieldChange) int { return cmp.Compare(a.Path, b.Path) })
	if len(l.plan.Changes) > 0 {
		l.plan.Action = serve.ActionUpdate
		l.plan = serve.Bound(l.plan)
	}
	return nil
}
