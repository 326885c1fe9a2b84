package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/protobuf/proto"

	apipb "lehr.dev/gen/lehr/api/v1"
	commandpb "lehr.dev/gen/lehr/command/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/app"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/schema"
	"lehr.dev/internal/store"
	"lehr.dev/internal/store/sqlite"
	"lehr.dev/sdk/client"
)

var deliveryPerson = intent.Actor{Name: "ann", Origin: "bench"}

// matrixPage is how many versions a page of the matrix has.
const matrixPage = 50

// measureDeliveryPage answers a page of the matrix of 10 000 versions in 200 environments, from a
// store, as the page and the CLI ask for it.
func measureDeliveryPage(ctx context.Context) (err error) {
	folder, err := os.MkdirTemp("", "lehr-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	log := slog.New(slog.DiscardHandler)
	file, err := sqlite.Open(ctx, sqlite.Options{Path: filepath.Join(folder, "lehr.db"), Log: log})
	if err != nil {
		return err
	}
	defer file.Close()
	if err := storeDelivery(ctx, file); err != nil {
		return err
	}
	options := app.DefaultOptions()
	options.Store, options.Listen, options.Log = "", "", log
	options.Parts.Store, options.Parts.WithoutDelivery = file, true
	running, err := app.New(options)
	if err != nil {
		return err
	}
	if err := running.Start(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, running.Stop(ctx)) }()
	deliveries := client.InProcess(running.Handler()).Deliveries
	var answered []float64
	for round := range deliveryRounds + 1 {
		start := time.Now()
		page, err := deliveries.ListVersions(ctx, &apipb.ListVersionsRequest{Partition: "shop", Application: "web", Limit: matrixPage})
		if err != nil {
			return err
		}
		if len(page.Versions) != matrixPage || len(page.Environments) != deliveryEnvironments || len(page.Versions[0].Standings) != deliveryEnvironments {
			return fmt.Errorf("a page of %d versions in %d environments", len(page.Versions), len(page.Environments))
		}
		if round > 0 { // The first reads what does not change.
			answered = append(answered, milliseconds(time.Since(start)))
		}
	}
	machine.figure("delivery_page_10000_versions_200_environments", median(answered), "ms", matrixPage, byComputing)
	return nil
}

// storeDelivery publishes the application, with an asset for all of its environments, and its versions.
func storeDelivery(ctx context.Context, s *sqlite.Store) error {
	if err := s.AddPartition(ctx, "shop", "/nowhere/lehr.yaml", "a bench", deliveryPerson); err != nil {
		return err
	}
	lease, err := s.Acquire(ctx, "shop", "bench")
	if err != nil {
		return err
	}
	began := time.Date(2026, 1, 5, 8, 0, 0, 0, time.UTC)
	var versions []intent.Version
	for _, v := range deliveryCatalogue(began) {
		versions = append(versions, intent.Version{VersionName: intent.VersionName{Name: v.Name, Digest: v.Digest}, Commit: v.Commit, Created: v.Created})
	}
	if err := s.SaveVersions(ctx, lease, "images", versions); err != nil {
		return err
	}
	fields := "{"
	for i := range deliveryEnvironments {
		if i > 0 {
			fields += ","
		}
		fields += fmt.Sprintf("%q:%q", fmt.Sprintf("e%d", i), deliveryRelease(i).Name)
	}
	if _, err := s.CreateDocument(ctx, "shop", "knobs", []byte(fields+"}"), "begun", deliveryPerson); err != nil {
		return err
	}
	set := schema.Builtin()
	var entries []store.Entry
	for _, made := range []struct {
		id      intent.AssetID
		payload proto.Message
	}{
		{intent.PolicyAsset, &intentpb.Policy{Deliveries: []*intentpb.Delivery{deliveryApplication()}}},
		{"web/all", &commandpb.Command{Diff: []string{"true"}, Push: []string{"true"}}},
	} {
		payload, err := set.Pack(made.payload)
		if err != nil {
			return err
		}
		body, digest, err := set.Encode(intent.Asset{ID: made.id, Payload: payload})
		if err != nil {
			return err
		}
		entries = append(entries, store.Entry{Asset: made.id, Body: body, Member: intent.Member{Asset: made.id, Type: payload.Type, Digest: digest, Effective: digest}})
	}
	if err := s.Stage(ctx, lease, intent.IncarnationID{}, entries); err != nil {
		return err
	}
	_, err = s.Publish(ctx, lease, intent.Incarnation{
		ID: intent.IncarnationID{Partition: "shop", Sequence: 1}, Count: len(entries), Author: deliveryPerson, Created: began, Schema: set.Digest(), Policy: entries[0].Member.Digest,
	})
	return err
}
