package kubewatch

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"lehr.dev/plugins/kubernetes/kubeapi"
)

const (
	// mostFollowed assets have their pods followed; what is beyond is looked at by its cadence.
	mostFollowed = 1000
	// leastHintPause is how often at most pods hint an asset: a rollout writes many at once.
	leastHintPause = time.Second
)

// followedPods are those of an asset whose workload is not well, or has not ended: they say why.
type followedPods struct {
	namespace string
	selector  labels.Selector
	askedAt   time.Time
	// hintedAt is when they hinted the asset at last; isLate says that they have something new to
	// tell since.
	hintedAt time.Time
	isLate   bool
}

// FollowPods has an asset hinted when a pod is written that labels select in a namespace. It is
// called with each look that reads pods, and before; what was not asked about for 30 min is
// followed no more. One watch serves a namespace.
func (s *Set) FollowPods(ctx context.Context, namespace, selector string, asset Asset) {
	parsed, err := labels.Parse(selector)
	if err != nil {
		return
	}
	place, err := s.server.Find(ctx, kubeapi.PodKind, namespace)
	if err != nil {
		return
	}
	s.mutex.Lock()
	if s.ctx == nil || s.pods[asset] == nil && len(s.pods) >= mostFollowed {
		s.mutex.Unlock()
		return
	}
	followed := s.pods[asset]
	if followed == nil {
		followed = &followedPods{}
		s.pods[asset] = followed
	}
	followed.namespace, followed.selector, followed.askedAt = namespace, parsed, time.Now()
	g := s.use(place, Object{Kind: kubeapi.PodKind, Namespace: namespace})
	s.mutex.Unlock()
	if g != nil {
		s.await(ctx, []*group{g})
	}
}

// podChanged hints the assets that a pod is of. Nil labels: they are not known.
func (s *Set) podChanged(namespace string, of labels.Set) {
	s.mutex.Lock()
	var hinted []Asset
	now := time.Now()
	for asset, followed := range s.pods {
		switch {
		case followed.namespace != namespace || of != nil && !followed.selector.Matches(of):
		case now.Sub(followed.hintedAt) < leastHintPause:
			followed.isLate = true
		default:
			followed.hintedAt = now
			hinted = append(hinted, asset)
		}
	}
	s.mutex.Unlock()
	for _, asset := range hinted {
		s.hint(asset)
	}
}

// tickPods returns the assets that their pods have something new to tell of, and forgets those
// that nobody asks about. The mutex is held.
func (s *Set) tickPods(now time.Time) (hinted []Asset) {
	for asset, followed := range s.pods {
		switch {
		case now.Sub(followed.askedAt) > unusedLimit:
			delete(s.pods, asset)
		case followed.isLate && now.Sub(followed.hintedAt) >= leastHintPause:
			followed.isLate, followed.hintedAt = false, now
			hinted = append(hinted, asset)
		}
	}
	return hinted
}
