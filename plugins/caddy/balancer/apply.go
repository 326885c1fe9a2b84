package balancer

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	caddypb "lehr.dev/gen/lehr/caddy/v1"
	"lehr.dev/plugin/serve"
)

// Apply writes the server whole, in one call.
func (Balancers) Apply(ctx context.Context, change serve.Change[*caddypb.Balancer], permit serve.Permit) error {
	seen, err := parseBase(change.State.Base)
	if err != nil {
		return err
	}
	body, err := json.Marshal(render(change.Target, mark(change.Asset.ID, change.Push), seen.shared))
	if err != nil {
		return fmt.Errorf("writing balancer %s as Caddy's configuration: %w", change.Target.Name, err)
	}
	method := http.MethodPatch
	if change.State.Current == nil {
		// Makes what is missing above it; refused when somebody was first.
		method = http.MethodPut
	}
	return compareAndChange(ctx, change.Asset.Payload, seen, permit, method, body)
}

// Remove removes the server, in one call.
func (Balancers) Remove(ctx context.Context, change serve.Change[*caddypb.Balancer], permit serve.Permit) error {
	if change.State.Current == nil {
		return nil
	}
	seen, err := parseBase(change.State.Base)
	if err != nil {
		return err
	}
	return compareAndChange(ctx, change.Asset.Payload, seen, permit, http.MethodDelete, nil)
}

// compareAndChange changes the server if what the change was planned for is
// still there. It asks Caddy for the ETag of the very content that base
// names, and Caddy compares that in the call that changes.
func compareAndChange(ctx context.Context, balancer *caddypb.Balancer, seen base, permit serve.Permit, method string, body []byte) error {
	endpoint, err := parseAdmin(balancer.Admin)
	if err != nil {
		return err
	}
	there, etag, err := endpoint.get(ctx, seen.path)
	switch {
	case refused(err, http.StatusBadRequest, http.StatusNotFound):
		return fmt.Errorf("%w: %w", serve.ErrStale, err)
	case err != nil:
		return serve.Retryable(err)
	case etag == "":
		return fmt.Errorf("the Caddy at %s tells no ETag, so nothing can be bound to what was read: use Caddy 2.6 or later", endpoint.address)
	case !seen.covers(there):
		return fmt.Errorf("%w: the Caddy at %s has another content at %s than the change was planned for", serve.ErrStale, endpoint.address, seen.path)
	}
	if err := permit.Effect(ctx); err != nil {
		return err
	}
	err = endpoint.change(ctx, method, serversPath+balancer.Name, body, etag)
	switch {
	case err == nil:
		return nil
	case refused(err, http.StatusPreconditionFailed, http.StatusConflict, http.StatusNotFound):
		return fmt.Errorf("%w: the Caddy at %s refused the change of server %s: %w", serve.ErrStale, endpoint.address, balancer.Name, err)
	case refused(err, http.StatusBadRequest, http.StatusInternalServerError):
		return fmt.Errorf("the Caddy at %s did not take the server %s, and goes on with what it had: %w", endpoint.address, balancer.Name, err)
	}
	return serve.Retryable(fmt.Errorf("changing server %s of the Caddy at %s: %w", balancer.Name, endpoint.address, err))
}
