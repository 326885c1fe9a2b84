package kubeobject

import (
	"context"
	"strings"

	"lehr.dev/plugins/kubernetes/workload"
	"lehr.dev/sdk/secret"
)

const (
	// maxPods that are read to find the worst.
	maxPods = 50
	// linesOfCrash and linesOfRun of a log are shown: why a container ended, and what a Job did.
	linesOfCrash, linesOfRun = 1, 10
	// maxWrote bytes of them are shown, the last.
	maxWrote = 1000
)

// readHealth says how the object fares, with what its pods, their logs and its events say.
// Of a kind for which the list of clusters has an expression, that says it. Whoever may not read one of these still hears what the others say.
func (l *look) readHealth(ctx context.Context) {
	if rule := l.connection.health[nameKind(l.kind().GroupKind())]; rule != nil {
		l.health = rule.Judge(l.live.Object)
		return
	}
	var found workload.Evidence
	if selector, ok := workload.NeedsPods(l.live); ok {
		l.connection.watches.FollowPods(ctx, l.payload.Namespace, selector, l.seenKey().asset)
		found = l.readEvidence(ctx, selector)
	}
	l.health = workload.Health(l.live, found)
}

func (l *look) readEvidence(ctx context.Context, selector string) (found workload.Evidence) {
	server, namespace := l.connection.server, l.payload.Namespace
	pods, _ := server.Pods(ctx, namespace, selector, maxPods)
	lines := linesOfCrash
	run, isRun := workload.RunOf(l.live)
	if isRun && run.Ended {
		found.Container, _ = workload.LastEnded(pods)
		lines = linesOfRun
	} else {
		found.Container, _ = workload.Worst(l.live, pods)
	}
	if found.Container.Ended {
		found.Wrote, _ = server.LastLines(ctx, namespace, found.Container.Pod, found.Container.Name, lines, found.Container.Previous)
		found.Wrote = shownLog(found.Wrote)
	}
	if found.Container.Pod == "" && !(isRun && run.Ended) {
		found.Warning, _ = server.LastWarning(ctx, namespace, l.live.GetUID())
	}
	return found
}

// shownLog is the end of a log, without what looks like a secret.
func shownLog(text string) string {
	text = strings.TrimSpace(secret.RedactLikely(text))
	if len(text) > maxWrote {
		text = "…" + strings.ToValidUTF8(text[len(text)-maxWrote:], "")
	}
	return text
}
