package server_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/app"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/prodspec/generate"
)

// TestGRPC asks a real app with another library's client, on the port that all
// others use.
func TestGRPC(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("lehr.yaml", "lehr: v1\npartition: shop\nowner: ann@example.com\nmode: \"off\"\nsources:\n  s: {dir: ., files: [n.yaml]}\ngenerate:\n  g: {starlark: g.star, from: [s]}\n")
	write("g.star", `
def generate(ctx):
    return [asset("job/%d" % i, lehr.process.v1.Job(name = "job/%d" % i, binary = "/b", replicas = n)) for i, n in enumerate(yaml("n.yaml"))]
`)
	write("n.yaml", "[1, 2, 3]")
	options := app.DefaultOptions()
	options.Store = filepath.Join(folder, "store", "lehr.db")
	options.Register = map[intent.PartitionID]string{"shop": filepath.Join(folder, "lehr.yaml")}
	options.Log = slog.New(slog.DiscardHandler)
	options.Parts.Runner = generate.InProcess{Limits: generate.DefaultLimits()}
	running, err := app.New(options)
	if err != nil {
		t.Fatal(err)
	}
	if err := running.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = running.Stop(context.Background()) })

	address := running.Address()
	dialled, err := grpc.NewClient("passthrough:///"+strings.TrimPrefix(address.URL, "http://"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer dialled.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+address.Token)

	watch, err := dialled.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/lehr.api.v1.AssetService/WatchAssets")
	if err != nil {
		t.Fatal(err)
	}
	if err := watch.SendMsg(&apipb.WatchAssetsRequest{Partition: "shop", Filter: `type == "Job" && payload.replicas >= 2`}); err != nil {
		t.Fatal(err)
	}
	if err := watch.CloseSend(); err != nil {
		t.Fatal(err)
	}
	next := func() *apipb.WatchAssetsResponse {
		t.Helper()
		event := new(apipb.WatchAssetsResponse)
		if err := watch.RecvMsg(event); err != nil {
			t.Fatal(err)
		}
		return event
	}
	if first := next(); !first.Reset_ || !first.Complete || len(first.Assets) != 2 {
		t.Errorf("the watch begins with %v", first)
	}
	list := new(apipb.ListAssetsResponse)
	if err := dialled.Invoke(ctx, "/lehr.api.v1.AssetService/ListAssets", &apipb.ListAssetsRequest{Partition: "shop", Filter: `payload.replicas == 3`}, list); err != nil {
		t.Fatal(err)
	}
	if len(list.Assets) != 1 || list.Assets[0].Id != "job/2" {
		t.Errorf("listed: %v", list)
	}
	write("n.yaml", "[5, 2, 3]")
	if then := next(); then.Reset_ || len(then.Assets) != 1 || then.Assets[0].Id != "job/0" {
		t.Errorf("then comes %v", then)
	}

	err = dialled.Invoke(ctx, "/lehr.api.v1.AssetService/ListAssets", &apipb.ListAssetsRequest{Partition: "shop", Filter: `type == "Jbo"`}, list)
	answer := status.Convert(err)
	if answer.Code() != codes.InvalidArgument || len(answer.Details()) != 1 || !strings.Contains(answer.Details()[0].(*apipb.ErrorDetail).Hint, "lehr.process.v1.Job") {
		t.Errorf("a mistake is %v, details %v", err, answer.Details())
	}
	stranger := metadata.NewOutgoingContext(ctx, metadata.Pairs("authorization", "Bearer guess"))
	if err := dialled.Invoke(stranger, "/lehr.api.v1.AssetService/ListAssets", &apipb.ListAssetsRequest{Partition: "shop"}, list); status.Code(err) != codes.Unauthenticated {
		t.Errorf("a stranger is answered %v", err)
	}
}
