package balancer

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	caddypb "lehr.dev/gen/lehr/caddy/v1"
	"lehr.dev/sdk/serve"
)

// write is one change of a server, bound to what it was planned for.
type write struct {
	endpoint admin
	name     string
	method   string
	body     []byte
	// id is the server's after the change; empty: there is none then.
	id     string
	seen   base
	permit serve.Permit
}

// Apply writes the server whole, in one call.
func (Balancers) Apply(ctx context.Context, change serve.Change[*caddypb.Balancer], permit serve.Permit) error {
	w, err := prepare(change, permit)
	if err != nil {
		return err
	}
	w.id = mark(change.Asset.ID, change.Push)
	if w.body, err = json.Marshal(render(change.Target, w.id, w.seen.shared)); err != nil {
		return fmt.Errorf("writing balancer %s as Caddy's configuration: %w", w.name, err)
	}
	w.method = http.MethodPatch
	if change.State.Current == nil {
		// Makes what is missing above it; refused when somebody was first.
		w.method = http.MethodPut
	}
	return w.carryOut(ctx)
}

// Remove removes the server, in one call.
func (Balancers) Remove(ctx context.Context, change serve.Change[*caddypb.Balancer], permit serve.Permit) error {
	if change.State.Current == nil {
		return nil
	}
	w, err := prepare(change, permit)
	if err != nil {
		return err
	}
	w.method = http.MethodDelete
	return w.carryOut(ctx)
}

func prepare(change serve.Change[*caddypb.Balancer], permit serve.Permit) (write, error) {
	w := write{name: change.Asset.Payload.Name, permit: permit}
	var err error
	if w.endpoint, err = parseAdmin(change.Asset.Payload.Admin); err != nil {
		return w, err
	}
	w.seen, err = parseBase(change.State.Base)
	return w, err
}

// carryOut asks Caddy for the ETag of the very content that the base names.
// Caddy compares it in the call that changes. So a call whose answer was lost
// can be made again: it comes about once.
func (w write) carryOut(ctx context.Context) error {
	for attempt := 1; ; attempt++ {
		err := w.once(ctx)
		switch {
		case err == nil, attempt > 1 && w.isDone(ctx):
			return nil
		case !broken(err) || attempt == attempts:
			return err
		}
	}
}

func (w write) once(ctx context.Context) error {
	etag, err := w.compare(ctx)
	if err != nil {
		return err
	}
	if err := w.permit.Effect(ctx); err != nil {
		return err
	}
	return w.explain(w.endpoint.change(ctx, w.method, serversPath+w.name, w.body, etag))
}

// compare returns the ETag of what the change was planned for.
func (w write) compare(ctx context.Context) (etag string, err error) {
	there, etag, err := w.endpoint.get(ctx, w.seen.path)
	switch {
	case refused(err, http.StatusBadRequest, http.StatusNotFound):
		return "", fmt.Errorf("%w: %w", serve.ErrStale, err)
	case err != nil:
		return "", serve.Retryable(err)
	case etag == "":
		return "", fmt.Errorf("the Caddy at %s tells no ETag, so nothing can be bound to what was read: use a newer Caddy, such as lehr-caddy run", w.endpoint.address)
	case !w.seen.covers(there):
		return "", fmt.Errorf("%w: the Caddy at %s has another content at %s than the change was planned for", serve.ErrStale, w.endpoint.address, w.seen.path)
	}
	return etag, nil
}

// isDone reports whether a call whose answer was lost came about.
func (w write) isDone(ctx context.Context) bool {
	there, _, err := w.endpoint.get(ctx, serversPath+w.name)
	if err != nil || w.id == "" {
		return err == nil && strings.TrimSpace(string(there)) == "null"
	}
	var now server
	return json.Unmarshal(there, &now) == nil && now.ID == w.id
}

// explain says how the call ended.
func (w write) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case refused(err, http.StatusPreconditionFailed, http.StatusConflict, http.StatusNotFound):
		return fmt.Errorf("%w: the Caddy at %s refused the change of server %s: %w", serve.ErrStale, w.endpoint.address, w.name, err)
	case refused(err, http.StatusBadRequest, http.StatusInternalServerError):
		return fmt.Errorf("the Caddy at %s did not take the change of server %s, and goes on with what it had: %w", w.endpoint.address, w.name, err)
	}
	return serve.Retryable(fmt.Errorf("changing server %s of the Caddy at %s: %w", w.name, w.endpoint.address, err))
}
