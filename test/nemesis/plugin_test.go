package nemesis

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/structpb"

	"lehr.dev/sdk/serve"
)

// What the plugin finds in its environment.
const (
	// targetVariable is where production is reached.
	targetVariable = "LEHR_NEMESIS_TARGET"
	// lifeVariable names the replica's process.
	lifeVariable = "LEHR_NEMESIS_LIFE"
	// shiftVariable is how far its clock is ahead of the machine's, in
	// nanoseconds.
	shiftVariable = "LEHR_NEMESIS_SHIFT"
)

// pluginProgram looks after things of one class: F, C or N.
func pluginProgram(arguments []string) int {
	shift, _ := strconv.ParseInt(os.Getenv(shiftVariable), 10, 64)
	t := things{
		class: serve.Guarantee(arguments[0]), socket: os.Getenv(targetVariable), life: os.Getenv(lifeVariable), shift: time.Duration(shift),
	}
	return serve.Main(serve.Plugin{Name: "nemesis-" + arguments[0], Version: "1", Resources: []serve.Kind{
		serve.For(t, serve.Serving{Guarantee: t.class, LongestEffect: longestEffect, Destructive: []string{`fields["disk"]`}}),
	}})
}

// things are the plugin's side of the target.
type things struct {
	class        serve.Guarantee
	socket, life string
	shift        time.Duration
}

func (t things) ask(ctx context.Context, asked request) (answer response, err error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", t.socket)
	if err != nil {
		return answer, err
	}
	defer conn.Close()
	if err := json.NewEncoder(conn).Encode(asked); err != nil {
		return answer, err
	}
	return answer, json.NewDecoder(conn).Decode(&answer)
}

func (t things) Read(ctx context.Context, assets []serve.Asset[*structpb.Struct]) ([]serve.State[*structpb.Struct], error) {
	var asked request
	for _, asset := range assets {
		asked.Reads = append(asked.Reads, nameOf(asset))
	}
	answer, err := t.ask(ctx, asked)
	if err != nil {
		return nil, err
	}
	states := make([]serve.State[*structpb.Struct], len(assets))
	for i, found := range answer.States {
		states[i] = serve.State[*structpb.Struct]{
			Base: strconv.FormatUint(found.Version, 10), Key: serve.ResourceKey("nemesis:" + nameOf(assets[i])), Health: serve.Health{State: serve.Healthy},
		}
		if !found.Gone {
			states[i].Current = payload(found.Value, found.Disk)
		}
	}
	return states, nil
}

func (things) Resolve(_ context.Context, asset serve.Asset[*structpb.Struct]) (*structpb.Struct, error) {
	return payload(textOf(asset.Payload, "value"), textOf(asset.Payload, "disk")), nil
}

func (t things) Apply(ctx context.Context, change serve.Change[*structpb.Struct], permit serve.Permit) error {
	return t.carry(ctx, change, permit, state{Value: textOf(change.Target, "value"), Disk: textOf(change.Target, "disk")})
}

func (t things) Remove(ctx context.Context, change serve.Change[*structpb.Struct], permit serve.Permit) error {
	return t.carry(ctx, change, permit, state{Gone: true})
}

// carry has as many effects as the push is long; the last makes it so.
func (t things) carry(ctx context.Context, change serve.Change[*structpb.Struct], permit serve.Permit, after state) error {
	steps, pause := work(string(change.Push))
	base, err := strconv.ParseUint(change.State.Base, 10, 64)
	if err != nil {
		return err
	}
	partition, asset, _ := strings.Cut(nameOf(change.Asset), "/")
	for step := range steps {
		if err := permit.Effect(ctx); err != nil {
			return err
		}
		permitted := sinceBoot() - t.shift
		// Once begun it is not cancelled: that is what E is for. Who stands
		// still here comes late.
		time.Sleep(pause)
		answer, err := t.ask(context.WithoutCancel(ctx), request{Base: base, Permitted: permitted, Effect: &effect{
			Partition: partition, Asset: asset, Class: t.class, Push: string(change.Push), Incarnation: uint64(change.Asset.Incarnation.Sequence),
			Plan: change.Plan.Digest().String(), Token: change.Token, Life: t.life, After: after, Last: step == steps-1,
		}})
		switch {
		case err != nil:
			return serve.Retryable(err)
		case answer.Refused != "":
			return fmt.Errorf("%w: %s", serve.ErrStale, answer.Refused)
		}
		base = answer.Version
	}
	return nil
}

// work is how many effects a push takes, and how long each is on its way: most are
// quick, and some outlast a permit.
func work(push string) (steps int, pause time.Duration) {
	const longEvery, long, quick = 8, 18, 3
	hash := fnv.New32a()
	hash.Write([]byte(push))
	sum := hash.Sum32()
	if sum%longEvery == 0 {
		return long, 300 * time.Millisecond
	}
	return 1 + int(sum/longEvery%quick), time.Duration(sum/longEvery%40) * time.Millisecond
}

// nameOf is the thing's name in production.
func nameOf(asset serve.Asset[*structpb.Struct]) string {
	return string(asset.Incarnation.Partition) + "/" + string(asset.ID)
}

func textOf(from *structpb.Struct, name string) string {
	return from.GetFields()[name].GetStringValue()
}

func payload(value, disk string) *structpb.Struct {
	return &structpb.Struct{Fields: map[string]*structpb.Value{
		"value": structpb.NewStringValue(value), "disk": structpb.NewStringValue(disk),
	}}
}
