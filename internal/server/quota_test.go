package server_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/gen/lehr/api/v1/apipbconnect"
	"lehr.dev/internal/access"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/quota"
	"lehr.dev/internal/store"
	"lehr.dev/sdk/client"
)

// TestQuotasHold: a viewer has as many tokens kept as the limit says, is told when to ask
// again, and can still revoke; a page of them has an end; what is denied is told in few
// words, however long it was.
func TestQuotasHold(t *testing.T) {
	w := newWorld(t)
	w.must(w.store.SetPolicy(t.Context(), []intent.Grant{{Subject: "user:vera", Role: intent.Viewer}, {Subject: "user:otto", Role: intent.Operator}}, ann))
	vera := w.bear(store.Token{Owner: "vera"})
	most := quota.DefaultLimits().Tokens
	var made []string
	var refusal error
	for range most + 10 {
		response, err := vera.Auth.CreateToken(t.Context(), &apipb.CreateTokenRequest{Description: "one more"})
		if err != nil {
			refusal = err
			break
		}
		made = append(made, response.Token.Id)
	}
	if e, ok := refusal.(*fault.Error); len(made) != most-1 || !ok || e.Kind != fault.Exhausted || e.RetryAfter <= 0 || e.Hint == "" {
		t.Errorf("%d were made, want %d beside the one; then: %+v", len(made), most-1, refusal)
	}
	// Ended ones are kept, too, so that to revoke does not make room for more.
	if _, err := vera.Auth.RevokeToken(t.Context(), &apipb.RevokeTokenRequest{Id: made[0], Reason: "too many"}); err != nil {
		t.Error("to revoke is refused:", err)
	}
	if _, err := vera.Auth.CreateToken(t.Context(), &apipb.CreateTokenRequest{}); !fault.Is(err, fault.Exhausted) {
		t.Error("after one was revoked:", err)
	}
	if _, err := w.bear(store.Token{Owner: "otto"}).Auth.CreateToken(t.Context(), &apipb.CreateTokenRequest{}); err != nil {
		t.Error("another's share:", err)
	}
	seen := map[string]bool{}
	request := &apipb.ListTokensRequest{Limit: 7}
	for {
		page, err := vera.Auth.ListTokens(t.Context(), request)
		w.must(err)
		if len(page.Tokens) > 7 {
			t.Fatalf("a page has %d tokens", len(page.Tokens))
		}
		for _, token := range page.Tokens {
			seen[token.Id] = true
		}
		if request.After = page.Next; request.After == "" {
			break
		}
	}
	if len(seen) != most {
		t.Errorf("%d tokens are listed, want %d", len(seen), most)
	}
	if page, err := vera.Auth.ListTokens(t.Context(), &apipb.ListTokensRequest{}); err != nil || len(page.Tokens) != 100 || page.Next == "" {
		t.Errorf("by default a page has %d tokens, %v", len(page.GetTokens()), err)
	}
	long := strings.Repeat("x", 900_000)
	for what, call := range map[string]func() error{
		"a partition": func() error {
			_, err := vera.Partitions.GetPartition(t.Context(), &apipb.GetPartitionRequest{Id: long})
			return err
		},
		"a call": func() error {
			_, err := vera.Auth.Can(t.Context(), &apipb.CanRequest{Call: long})
			return err
		},
		"a reason": func() error {
			_, err := w.client.Brakes.SetStop(t.Context(), &apipb.SetStopRequest{Reason: long})
			return err
		},
		"a token": func() error {
			_, err := vera.Auth.RevokeToken(t.Context(), &apipb.RevokeTokenRequest{Id: long})
			return err
		},
	} {
		if err := call(); err == nil || len(err.Error()) > 6000 {
			t.Errorf("%s of 900 kB: %d bytes are told: %.100s", what, len(fmt.Sprint(err)), fmt.Sprint(err))
		}
	}
}

// TestStopsAreNeverRefused: who has as many calls and changes as there may be stops all the
// same.
func TestStopsAreNeverRefused(t *testing.T) {
	limits := quota.DefaultLimits()
	limits.Changes, limits.Calls = 1, 1
	w := newWorld(t, func(k *quota.Keeper) { k.Use(limits) })
	w.must(w.store.SetPolicy(t.Context(), []intent.Grant{{Subject: "user:otto", Role: intent.Operator}}, ann))
	otto := w.bear(store.Token{Owner: "otto"})
	if _, err := otto.Auth.CreateToken(t.Context(), &apipb.CreateTokenRequest{}); err != nil {
		t.Fatal(err)
	}
	if _, err := otto.Auth.CreateToken(t.Context(), &apipb.CreateTokenRequest{}); !fault.Is(err, fault.Exhausted) {
		t.Fatal("a second change:", err)
	}
	for range 5 {
		if _, err := otto.Brakes.SetStop(t.Context(), &apipb.SetStopRequest{Partition: "shop", Reason: "all is on fire"}); err != nil {
			t.Error("a stop:", err)
		}
		if _, err := otto.Brakes.SetHold(t.Context(), &apipb.SetHoldRequest{Partition: "shop", Asset: "a", Reason: "all is on fire"}); fault.Is(err, fault.Exhausted) {
			t.Error("a hold:", err)
		}
		if _, err := otto.Approvals.RejectAsset(t.Context(), &apipb.RejectAssetRequest{Partition: "shop", Asset: "a", Reason: "no"}); fault.Is(err, fault.Exhausted) {
			t.Error("a rejection:", err)
		}
	}
}

// overloaded answers as a server, or what stands before it, that has too much to do.
type overloaded struct {
	apipbconnect.UnimplementedPartitionServiceHandler
}

func (overloaded) ListPartitions(context.Context, *apipb.ListPartitionsRequest) (*apipb.ListPartitionsResponse, error) {
	err := connect.NewError(connect.CodeResourceExhausted, fmt.Errorf("too much"))
	detail, _ := connect.NewErrorDetail(&apipb.ErrorDetail{RetryAfterSeconds: 7})
	err.AddDetail(detail)
	return nil, err
}

// TestAnOverloadIsTold as what it is, and not as input that is wrong.
func TestAnOverloadIsTold(t *testing.T) {
	_, handler := apipbconnect.NewPartitionServiceHandler(overloaded{})
	listening := httptest.NewServer(handler)
	defer listening.Close()
	c := client.Dial(listening.URL, "x", ann)
	defer c.Close()
	_, err := c.Partitions.ListPartitions(t.Context(), &apipb.ListPartitionsRequest{})
	if e, ok := err.(*fault.Error); !ok || e.Kind != fault.Exhausted || e.RetryAfter != 7*time.Second {
		t.Errorf("%+v", err)
	}
	// And so by the server itself: the status, and when to ask again.
	limits := quota.DefaultLimits()
	limits.Changes = 1
	w := newWorld(t, func(k *quota.Keeper) { k.Use(limits) })
	w.must(w.store.SetPolicy(t.Context(), []intent.Grant{{Subject: "user:vera", Role: intent.Viewer}}, ann))
	token, bearer := access.Mint(store.Token{Owner: "vera"})
	_, err = w.store.CreateToken(t.Context(), token, 0)
	w.must(err)
	for _, want := range []int{200, 429} {
		request, err := http.NewRequest("POST", w.url+"/lehr.api.v1.AuthService/CreateToken", strings.NewReader("{}"))
		w.must(err)
		request.Header.Set("Authorization", "Bearer "+bearer)
		request.Header.Set("Content-Type", "application/json")
		response, err := http.DefaultClient.Do(request)
		w.must(err)
		response.Body.Close()
		seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
		if response.StatusCode != want || want == 429 && seconds < 1 {
			t.Errorf("%s, Retry-After %q, want %d", response.Status, response.Header.Get("Retry-After"), want)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}
