package server_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/access"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/quota"
	"lehr.dev/internal/store"
	"lehr.dev/test/detector"
)

// caller is one of those who try every call.
type caller struct {
	name, bearer string
	// counts: the credential does.
	local, counts bool
	// granted to its owner; an empty role: nothing is. place "" is all.
	granted intent.Role
	place   string
	// limits of the token; empty: none.
	onlyAs, onlyIn string
}

// may is a rule of its own, from what the contract's comments say.
func (c caller) may(said *apipb.Access, target string) bool {
	needed := map[apipb.Role]string{
		apipb.Role_ROLE_VIEWER: "viewer", apipb.Role_ROLE_EDITOR: "editor", apipb.Role_ROLE_APPROVER: "approver",
		apipb.Role_ROLE_OPERATOR: "operator", apipb.Role_ROLE_ADMIN: "admin",
	}[said.Role]
	includes := func(role string) bool { return role != "" && (role == needed || role == "admin" || needed == "viewer") }
	switch said.Scope {
	case apipb.Scope_SCOPE_PUBLIC:
		return true
	case apipb.Scope_SCOPE_OWN:
		return c.counts
	case apipb.Scope_SCOPE_ALL:
		target = ""
	}
	return c.local || c.counts && includes(string(c.granted)) && (c.place == "" || c.place == target) &&
		(c.onlyAs == "" || includes(c.onlyAs)) && (c.onlyIn == "" || c.onlyIn == target)
}

// callers are one of each grant, each limit of it, and each kind of credential.
func (w *world) callers(launch string) (all []caller) {
	w.Helper()
	var grants []intent.Grant
	mint := func(owner string, change func(*store.Token)) string {
		token, bearer := access.Mint(store.Token{Owner: owner})
		if change != nil {
			change(&token)
		}
		_, err := w.store.CreateToken(w.Context(), token, 0)
		w.must(err)
		return bearer
	}
	add := func(c caller, change func(*store.Token)) {
		owner := fmt.Sprintf("%s-%s", c.granted, c.place)
		c.name, c.bearer, c.counts = owner+" "+c.name, mint(owner, change), true
		all = append(all, c)
	}
	for _, role := range append(intent.Roles(), "") {
		for _, place := range []string{"shop", "theatre", ""} {
			c := caller{granted: role, place: place}
			if role != "" {
				grants = append(grants, intent.Grant{Subject: fmt.Sprintf("user:%s-%s", role, place), Role: role, Partition: intent.PartitionID(place)})
			}
			add(c, nil)
			c.name = "by login"
			add(c, func(n *store.Token) { n.Kind = store.TokenByLogin })
			for _, only := range intent.Roles() {
				narrow := c
				narrow.name, narrow.onlyAs = "only as "+string(only), string(only)
				add(narrow, func(n *store.Token) { n.Roles = []intent.Role{only} })
			}
			for _, only := range []string{"shop", "theatre"} {
				narrow := c
				narrow.name, narrow.onlyIn = "only in "+only, only
				add(narrow, func(n *store.Token) { n.Partitions = []intent.PartitionID{intent.PartitionID(only)} })
			}
			narrow := c
			narrow.name, narrow.onlyAs, narrow.onlyIn = "only as operator in shop", "operator", "shop"
			add(narrow, func(n *store.Token) {
				n.Roles, n.Partitions = []intent.Role{intent.Operator}, []intent.PartitionID{"shop"}
			})
		}
	}
	w.must(w.store.SetPolicy(w.Context(), grants, ann))
	good := mint("admin-", nil)
	id, _, err := access.ParseBearer(good)
	w.must(err)
	revoked := mint("admin-", nil)
	revokedID, _, err := access.ParseBearer(revoked)
	w.must(err)
	_, err = w.store.RevokeToken(w.Context(), revokedID, "")
	w.must(err)
	end := time.Now().Add(time.Second)
	ended := mint("admin-", func(n *store.Token) { n.Until = end })
	time.Sleep(time.Until(end)) // Tokens end by the clock, and by nothing else.
	for name, bearer := range map[string]string{
		"ended": ended, "revoked": revoked, "forged": "lehr_" + id + "_AAAAAAAAAAAAAAAAAAAAAAAAAA", "cut short": good[:len(good)-1],
		"unknown": "lehr_aaaaaaaaaaaa_AAAAAAAAAAAAAAAAAAAAAAAAAA", "malformed": "lehr_" + id, "another's launch token": access.NewToken(),
		"its hash": "lehr_" + id + "_" + fmt.Sprintf("%x", []byte(id)), "nothing": "",
	} {
		all = append(all, caller{name: name, bearer: bearer, granted: intent.Admin})
	}
	return append(all, caller{name: "local", bearer: launch, local: true, counts: true})
}

// TestMatrix: every call, to a partition, another and all, by every caller, is
// let through or denied as its annotation says. A call that is new is asked
// for as soon as it is in the contract.
func TestMatrix(t *testing.T) {
	detector.SkipSequential(t)
	limits := quota.DefaultLimits()
	limits.Changes = 100_000 // Each person makes every change by every token of theirs.
	w := newWorld(t, func(k *quota.Keeper) { k.Use(limits) })
	w.publish(0, w.command("db", "x"))
	callers := w.callers(w.launch)
	if testing.Short() { // One of each kind will do.
		const few = 80
		callers = append(callers[:few:few], callers[len(callers)-10:]...)
	}
	began, cells, allowed := time.Now(), 0, 0
	for _, method := range methods() {
		said, _ := proto.GetExtension(method.Options(), apipb.E_Access).(*apipb.Access)
		if said == nil {
			t.Errorf("%s does not say who may call it", method.FullName())
			continue
		}
		targets := []string{"shop", "theatre", ""}
		if said.Scope != apipb.Scope_SCOPE_PARTITION {
			targets = targets[:1]
		}
		for _, target := range targets {
			body := requestOf(method, said, target)
			for _, c := range callers {
				cells++
				code := w.call(method, body, c.bearer)
				want := c.may(said, target)
				if want {
					allowed++
				}
				if let := code != "permission_denied" && code != "unauthenticated"; let != want {
					t.Errorf("%s of %q by %s: %s, want it let through: %v", method.FullName(), target, c.name, code, want)
				}
				if !c.counts && !want && code != "unauthenticated" {
					t.Errorf("%s of %q by %s: %s, and nobody has said who they are", method.FullName(), target, c.name, code)
				}
			}
		}
	}
	t.Logf("%d cells, %d of them allowed, in %s", cells, allowed, time.Since(began))
	if cells < 5000 || allowed < 500 {
		t.Errorf("only %d cells, %d of them allowed", cells, allowed)
	}
}

func methods() (all []protoreflect.MethodDescriptor) {
	protoregistry.GlobalFiles.RangeFilesByPackage("lehr.api.v1", func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for j := range methods.Len() {
				all = append(all, methods.Get(j))
			}
		}
		return true
	})
	return all
}

// requestOf makes a request that names the partition, and nothing else.
func requestOf(method protoreflect.MethodDescriptor, said *apipb.Access, target string) []byte {
	request := dynamicpb.NewMessage(method.Input())
	if said.Scope == apipb.Scope_SCOPE_PARTITION {
		name := protoreflect.Name(said.Field)
		if name == "" {
			name = "partition"
		}
		request.Set(method.Input().Fields().ByName(name), protoreflect.ValueOfString(target))
	}
	body, err := protojson.Marshal(request)
	if err != nil {
		panic(err)
	}
	return body
}

// call returns the code of the error that is answered; "" for none.
func (w *world) call(method protoreflect.MethodDescriptor, body []byte, bearer string) string {
	w.Helper()
	kind := "application/json"
	if method.IsStreamingServer() {
		kind = "application/connect+json"
		frame := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body)))
		body = append(frame, body...)
	}
	ctx, cancel := context.WithCancel(w.Context())
	defer cancel() // A stream that is let through goes on.
	address := fmt.Sprintf("%s/%s/%s", w.url, method.Parent().FullName(), method.Name())
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	w.must(err)
	request.Header.Set("Content-Type", kind)
	if bearer != "" {
		request.Header.Set("Authorization", "Bearer "+bearer)
	}
	answer, err := http.DefaultClient.Do(request)
	w.must(err)
	defer answer.Body.Close()
	return w.codeOf(method, answer)
}

func (w *world) codeOf(method protoreflect.MethodDescriptor, answer *http.Response) string {
	var said struct {
		Code  string
		Error struct{ Code string }
	}
	if !method.IsStreamingServer() {
		text, err := io.ReadAll(answer.Body)
		w.must(err)
		w.must(json.Unmarshal(text, &said))
		return said.Code
	}
	var head [5]byte
	_, err := io.ReadFull(answer.Body, head[:])
	w.must(err)
	if head[0]&2 == 0 {
		return ""
	}
	text := make([]byte, binary.BigEndian.Uint32(head[1:]))
	_, err = io.ReadFull(answer.Body, text)
	w.must(err)
	w.must(json.Unmarshal(text, &said))
	return said.Error.Code
}

// What lists more than one partition tells only of those that the caller may
// read, and nothing tells whether a partition is there that they may not.
func TestListsTellOnlyWhatMayBeRead(t *testing.T) {
	w := newWorld(t)
	w.must(w.store.AddPartition(t.Context(), "theatre", "/theatre/lehr.yaml", "", ann))
	for _, partition := range []intent.PartitionID{"shop", "theatre", ""} {
		w.must(w.store.SetStop(t.Context(), intent.Stop{Partition: partition, Owner: ann, Reason: "a try"}))
	}
	w.must(w.store.SetPolicy(t.Context(), []intent.Grant{{Subject: "group:shoppers", Role: intent.Viewer, Partition: "shop"}}, ann))
	c := w.bear(store.Token{Owner: "bob", Groups: []string{"shoppers"}})
	partitions, err := c.Partitions.ListPartitions(t.Context(), &apipb.ListPartitionsRequest{})
	w.must(err)
	stops, err := c.Brakes.ListStops(t.Context(), &apipb.ListStopsRequest{})
	w.must(err)
	about, err := c.Server.GetServer(t.Context(), &apipb.GetServerRequest{})
	w.must(err)
	if len(partitions.Partitions) != 1 || len(stops.Stops) != 2 || len(about.Stops) != 2 || about.Store != "" {
		t.Errorf("told of %v, %v, %v", partitions, stops, about)
	}
	for _, text := range []string{partitions.String(), stops.String(), about.String()} {
		if strings.Contains(text, "theatre") {
			t.Errorf("told of the theatre: %s", text)
		}
	}
	_, there := c.Partitions.GetPartition(t.Context(), &apipb.GetPartitionRequest{Id: "theatre"})
	_, missing := c.Partitions.GetPartition(t.Context(), &apipb.GetPartitionRequest{Id: "missing"})
	if there == nil || missing == nil || strings.ReplaceAll(there.Error(), "theatre", "missing") != missing.Error() {
		t.Errorf("one that is there is told from one that is not:\n%v\n%v", there, missing)
	}
	whole, err := w.client.Server.GetServer(t.Context(), &apipb.GetServerRequest{})
	w.must(err)
	if len(whole.Stops) != 3 || whole.Store != "memory" {
		t.Errorf("the local user is told %v", whole)
	}
}

// A watch ends soon after its caller may not read it any more.
func TestAWatchEndsWithItsAuthority(t *testing.T) {
	viewer := intent.Grant{Subject: "user:bob", Role: intent.Viewer, Partition: "shop"}
	for name, take := range map[string]func(w *world, token store.Token) error{
		"revoked": func(w *world, token store.Token) error {
			_, err := w.store.RevokeToken(w.Context(), token.ID, "lost")
			return err
		},
		"the grant is gone": func(w *world, _ store.Token) error { return w.store.SetPolicy(w.Context(), nil, ann) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.publish(0, w.command("db", "x"))
			w.must(w.store.SetPolicy(t.Context(), []intent.Grant{viewer}, ann))
			c := w.bear(store.Token{Owner: "bob"})
			reports, err := c.Reports.WatchReports(t.Context(), &apipb.WatchReportsRequest{Partition: "shop"})
			w.must(err)
			assets, err := c.Assets.WatchAssets(t.Context(), &apipb.WatchAssetsRequest{Partition: "shop"})
			w.must(err)
			if !reports.Receive() || !assets.Receive() {
				t.Fatalf("the watches said nothing: %v, %v", reports.Err(), assets.Err())
			}
			tokens, err := w.store.Tokens(t.Context())
			w.must(err)
			w.must(take(w, tokens[0]))
			taken := time.Now()
			for reports.Receive() {
			}
			for assets.Receive() {
			}
			t.Logf("they ended %s after", time.Since(taken))
			for _, err := range []error{reports.Err(), assets.Err()} {
				if err == nil || !strings.Contains(err.Error(), "permission_denied") {
					t.Errorf("a watch ended with %v", err)
				}
			}
		})
	}
}

// The audit says who it was, by which token, and where from.
func TestTheAuditSaysByWhichToken(t *testing.T) {
	w := newWorld(t)
	w.must(w.store.SetPolicy(t.Context(), []intent.Grant{{Subject: "user:bob", Role: intent.Operator}}, ann))
	c := w.bear(store.Token{Owner: "bob"})
	who, err := c.Auth.WhoAmI(t.Context(), &apipb.WhoAmIRequest{})
	w.must(err)
	if who.Name != "bob" || who.By != "token" || len(who.Grants) != 1 || who.Until == nil {
		t.Errorf("it is %v", who)
	}
	_, err = c.Brakes.SetStop(t.Context(), &apipb.SetStopRequest{Partition: "shop", Reason: "a try"})
	w.must(err)
	audit, err := c.Audit.ListAudit(t.Context(), &apipb.ListAuditRequest{Partition: "shop"})
	w.must(err)
	last := audit.Records[len(audit.Records)-1]
	if last.Verb != "stop" || last.By.Name != "bob" || last.Token != who.Token || !strings.HasPrefix(last.From, "127.0.0.1:") {
		t.Errorf("the audit says %v", last)
	}
	w.must(w.store.VerifyAudit(t.Context(), "shop"))
}
