package kubewatch

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"lehr.dev/plugins/kubernetes/kubeapi"
)

const (
	// Holds is how long a prediction holds at most while all is watched that it rests on.
	Holds = 6 * time.Hour
	// holdsUnwatched is it where the identity may not watch some of that.
	holdsUnwatched = 10 * time.Minute
	// settles is how long the server's own admission may take to notice what was changed.
	settles = 10 * time.Second
	// absentPause is the pause before a kind is looked for again that the server does not have.
	absentPause = 10 * time.Minute
)

// identityName is the namespace whose UID names the cluster.
const identityName = "kube-system"

var (
	namespaces  = schema.GroupKind{Kind: "Namespace"}
	limitRanges = schema.GroupKind{Kind: "LimitRange"}
	definitions = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
)

const admissionGroup = "admissionregistration.k8s.io"

// mutating are the kinds any object of which may change any other object when it is written.
var mutating = []schema.GroupKind{
	{Group: admissionGroup, Kind: "MutatingWebhookConfiguration"},
	{Group: admissionGroup, Kind: "MutatingAdmissionPolicy"},
}

// admission are the kinds any object of which may change what the server makes of any other.
var admission = append(slices.Clone(mutating), []schema.GroupKind{
	{Group: admissionGroup, Kind: "ValidatingWebhookConfiguration"},
	{Group: admissionGroup, Kind: "MutatingAdmissionPolicyBinding"},
	{Group: admissionGroup, Kind: "ValidatingAdmissionPolicy"},
	{Group: admissionGroup, Kind: "ValidatingAdmissionPolicyBinding"},
}...)

// basisKinds are all that is followed for the basis.
var basisKinds = append(slices.Clone(admission), namespaces, limitRanges, definitions)

// versionsOf a kind of the basis, in the order in which they are looked for. An older minor has a kind
// of admission in an earlier version alone: MutatingAdmissionPolicy came as v1 with 1.36.
func versionsOf(kind schema.GroupKind) []string {
	if kind.Group == admissionGroup {
		return []string{"v1", "v1beta1", "v1alpha1"}
	}
	return []string{"v1"}
}

// basis is what predictions rest on beside the object itself.
type basis struct {
	groups map[schema.GroupKind]*group
	// identity follows the one namespace that names the cluster.
	identity *group
	// absent are kinds that the server does not have, version is what it says it is. The
	// Set's mutex guards both.
	absent  map[schema.GroupKind]bool
	version string
}

func (b *basis) all() []*group { return append(slices.Collect(maps.Values(b.groups)), b.identity) }

// startBasis watches it. The Set's mutex is held.
func (s *Set) startBasis() *basis {
	b := &basis{groups: map[schema.GroupKind]*group{}, absent: map[schema.GroupKind]bool{}}
	for _, kind := range basisKinds {
		g := s.begin(kubeapi.Selection{}, func(string, string, map[string]string) {})
		g.watch.noted = func(err error) { s.noted(Object{}, g, err) }
		b.groups[kind] = g
		go s.keep(s.ctx, b, kind, g, func(ctx context.Context) (kubeapi.Selection, bool, error) {
			return s.server.SelectAll(ctx, kind, versionsOf(kind)...)
		})
	}
	b.identity = s.begin(kubeapi.Selection{}, func(string, string, map[string]string) {})
	b.identity.watch.listed = func(ctx context.Context) error { return s.readVersion(ctx, b) }
	b.identity.watch.noted = func(err error) {
		item, _, _ := b.identity.watch.Find("", identityName)
		s.server.ConfirmUID(string(item.UID))
		s.noted(Object{}, b.identity, err)
	}
	go s.keep(s.ctx, b, namespaces, b.identity, func(ctx context.Context) (kubeapi.Selection, bool, error) {
		place, err := s.server.Find(ctx, namespaces.WithVersion("v1"), "")
		return place.Select(identityName), place.Served, err
	})
	return b
}

// readVersion asks what the server is, after each time that it may have been replaced.
func (s *Set) readVersion(ctx context.Context, b *basis) error {
	version, err := s.server.Version(ctx)
	if err != nil {
		return err
	}
	s.mutex.Lock()
	b.version = version
	s.mutex.Unlock()
	return nil
}

// keep watches a kind of the basis for as long as the server has it.
func (s *Set) keep(ctx context.Context, b *basis, kind schema.GroupKind, g *group, find func(context.Context) (kubeapi.Selection, bool, error)) {
	for failures := 1; ctx.Err() == nil; failures++ {
		selection, ok, err := find(ctx)
		s.mutex.Lock()
		b.absent[kind] = err == nil && !ok
		s.mutex.Unlock()
		pause := absentPause
		switch {
		case err != nil:
			g.watch.lose(err)
			pause = retryPause(err, failures)
		case !ok:
			g.watch.lose(errors.New("the server has no such kind"))
		default:
			g.watch.selection = selection
			g.watch.run(ctx)
			s.server.Forget(selection.Resource.GroupVersion())
			failures, pause = 0, leastRetry
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// Basis names what the server's predictions of a kind rest on in a namespace, beside the
// object: while it stays the same they hold for so long. 0: it is not known now.
func (s *Set) Basis(resource schema.GroupResource, namespace string) (text string, holds time.Duration) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	b := s.basis
	if b == nil {
		return "", 0
	}
	holds = Holds
	for _, kind := range basisKinds {
		if b.absent[kind] {
			continue
		}
		watch := b.groups[kind].watch
		part, ok := watch.scope(kind, resource, namespace)
		if !ok && watch.isRefused() {
			holds = holdsUnwatched
			continue
		}
		if !ok {
			return "", 0
		}
		text += kind.Kind + "=" + part + ";"
	}
	switch live, _ := b.identity.watch.state(); {
	case live:
		text += b.version
	case b.identity.watch.isRefused():
		holds = holdsUnwatched
	default:
		return "", 0
	}
	return text, holds
}

// MayMutate reports whether something in the cluster, beside the API server itself, may change objects
// when they are written; also where that is not known now.
func (s *Set) MayMutate() bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.basis == nil {
		return true
	}
	for _, kind := range mutating {
		if !s.basis.absent[kind] && !s.basis.groups[kind].watch.isEmpty() {
			return true
		}
	}
	return false
}

// isEmpty reports whether it is known that there are no objects.
func (w *Watch) isEmpty() bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.live && len(w.items) == 0
}

// scope is what of a kind of the basis counts for a resource and namespace; ok is false
// where that is not known now, or has just been changed.
func (w *Watch) scope(kind schema.GroupKind, resource schema.GroupResource, namespace string) (text string, ok bool) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if !w.live || time.Since(w.toldAt) > quietLimit+settles {
		return "", false
	}
	switch kind {
	case namespaces:
		return fmt.Sprint(w.items[types.NamespacedName{Name: namespace}]), true
	case definitions:
		item, ok := w.items[types.NamespacedName{Name: resource.String()}]
		return fmt.Sprint(item.UID, item.generation), !ok || time.Since(w.revisedAt) > settles
	case limitRanges:
		var parts []string
		for name, item := range w.items {
			if name.Namespace == namespace {
				parts = append(parts, fmt.Sprint(name.Name, item))
			}
		}
		slices.Sort(parts)
		return strings.Join(parts, ","), true
	}
	return fmt.Sprint(w.revision), time.Since(w.revisedAt) > settles
}

// isRefused reports whether the identity may not watch this, or there is too much of it.
func (w *Watch) isRefused() bool {
	_, failure := w.state()
	return apierrors.IsForbidden(failure) || errors.Is(failure, errTooMany)
}
