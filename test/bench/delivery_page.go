package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
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
	"lehr.dev/internal/web"
	"lehr.dev/sdk/client"
)

var deliveryPerson = intent.Actor{Name: "ann", Origin: "bench"}

// matrixPage is how many versions a page of the matrix has.
const matrixPage = 50

// measureDeliveryPage answers a page of the matrix of 10 000 versions in 200 environments, each of which had
// 100 of them, from a store: as the CLI asks for it, and as a browser sees it.
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
	return measureBoard(ctx, running.Handler())
}

// measureBoard has the page written that people see: the environments, and the matrix.
func measureBoard(ctx context.Context, api http.Handler) error {
	options := web.DefaultOptions(client.InProcess(api))
	options.Viewer = func(context.Context) web.Viewer { return web.Viewer{Base: "/"} }
	site := web.New(options).Handler()
	var written []float64
	for round := range deliveryRounds + 1 {
		answer := httptest.NewRecorder()
		start := time.Now()
		site.ServeHTTP(answer, httptest.NewRequestWithContext(ctx, http.MethodGet, "/partition/shop/delivery", http.NoBody))
		took := milliseconds(time.Since(start))
		cells := strings.Count(answer.Body.String(), "<td")
		if answer.Code != http.StatusOK || cells < matrixPage*deliveryEnvironments {
			return fmt.Errorf("the page answered %d with %d cells", answer.Code, cells)
		}
		if round > 0 {
			written = append(written, took)
		}
	}
	machine.figure("delivery_board_10000_versions_200_environments", median(written), "ms", matrixPage, byComputing)
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
	if _, err = s.Publish(ctx, lease, intent.Incarnation{
		ID: intent.IncarnationID{Partition: "shop", Sequence: 1}, Count: len(entries), Author: deliveryPerson, Created: began, Schema: set.Digest(), Policy: entries[0].Member.Digest,
	}); err != nil {
		return err
	}
	return storeHistory(ctx, s, lease, entries[1].Member.Effective)
}

// storeHistory gives each environment the versions that it had, and says of each that it was good.
func storeHistory(ctx context.Context, s *sqlite.Store, lease store.Lease, content intent.Digest) error {
	for stay := range deliveryStays {
		partition, err := s.Partition(ctx, "shop")
		if err != nil {
			return err
		}
		step := store.PromotionStep{Home: "shop", Application: "web", Revision: partition.Revision, HomeRevision: partition.Revision}
		for i := range deliveryEnvironments {
			r := deliveryRelease(stay * 10)
			if stay == deliveryStays-1 {
				r = deliveryRelease(i) // Its field holds it.
			}
			record := intent.DeliveryRecord{Kind: intent.DeliveryPromotion, Environment: fmt.Sprintf("e%d", i), Version: r, Why: "approved"}
			step.Records = append(step.Records, record)
			record.Kind, record.Why, record.Good, record.Content = intent.DeliveryStanding, "", true, content
			step.Records = append(step.Records, record)
		}
		if err := s.Promote(ctx, lease, step); err != nil {
			return err
		}
	}
	return nil
}
