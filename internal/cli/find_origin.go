package cli

import (
	"context"
	"encoding/json"
	"strings"

	apipb "lehr.dev/gen/lehr/api/v1"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/kubekind"
)

// foundAsset is one that was looked for, where it comes from, and what decides about it.
type foundAsset struct {
	hit
	// Incarnation that the asset follows, and Since when its content is as it is.
	Incarnation string `json:"incarnation"`
	Since       string `json:"since"`
	File        string `json:"file,omitempty"`
	Line        int32  `json:"line,omitempty"`
	// Revision of the source, and Commits that made the content what it is.
	Revision string   `json:"revision,omitempty"`
	Commits  []commit `json:"commits,omitempty"`
	// Pinned says by what the asset follows another incarnation than head; Rollout is the
	// name of the rollout that holds the pin.
	Pinned  string `json:"pinned,omitempty"`
	Rollout string `json:"rollout,omitempty"`

	blame *apipb.BlameAssetResponse
}

// commit that changed a file.
type commit struct {
	Source   string `json:"source"`
	Revision string `json:"revision"`
	Author   string `json:"author,omitempty"`
	Subject  string `json:"subject,omitempty"`
}

// readOrigin reads where an asset comes from, in the incarnation that it follows.
func (f *finder) readOrigin(ctx context.Context, h hit) (foundAsset, error) {
	o := foundAsset{hit: h, Incarnation: h.head}
	pins, err := f.client.Brakes.ListPins(ctx, &apipb.ListPinsRequest{Partition: h.Partition})
	if err != nil {
		return o, err
	}
	for _, pin := range pins.Pins {
		if pin.Asset != h.Asset || pin.Expired {
			continue
		}
		o.Incarnation, o.Pinned = pin.Incarnation, pin.Reason
		if name, ok := strings.CutPrefix(pin.Holder.GetName(), intent.RolloutPrefix); ok {
			o.Rollout = name
		}
	}
	o.blame, err = f.client.Assets.BlameAsset(ctx, &apipb.BlameAssetRequest{Partition: h.Partition, Asset: h.Asset, Incarnation: o.Incarnation})
	if err != nil {
		return o, err
	}
	o.Since, o.File, o.Line = o.blame.Since, o.blame.Made.GetFile(), o.blame.Made.GetLine()
	o.Revision = o.blame.Made.GetSource().GetRevision()
	line, places := madeBy(o.blame)
	if line != nil {
		places = append(places, line)
	}
	for _, place := range places {
		changed := place.Changed
		o.Commits = append(o.Commits, commit{place.Source.GetSource(), changed.Revision, changed.Commit.GetAuthor(), changed.Commit.GetSubject()})
	}
	return o, nil
}

func (f *finder) printOrigin(o foundAsset) {
	follows := o.Incarnation
	if o.Pinned != "" {
		follows += ", by a pin: " + o.Pinned
	}
	fields(f.Out, "object", o.String(), "cluster", o.Cluster, "partition", o.Partition, "asset", o.Asset, "state", o.State,
		"follows", follows, "rollout", o.Rollout, "unchanged since", changeTime(o.blame), "generator", o.blame.Generator, "made at", placed(o.blame.Made))
	f.printChangedBy(o.blame)
}

// learnKinds reads which kinds the partitions define.
func (f *finder) learnKinds(ctx context.Context) error {
	var defined []kubekind.Kind
	err := f.eachObject(ctx, "Object.kind", "CustomResourceDefinition", func(_ hit, content map[string]any) bool {
		text, _ := content["json"].(string)
		var definition map[string]any
		if json.Unmarshal([]byte(text), &definition) != nil {
			return true // It is too large for an asset; its kind is found by its own name.
		}
		if kind, ok := kubekind.Define(definition); ok {
			defined = append(defined, kind)
		}
		return true
	})
	f.table = kubekind.NewTable(defined...)
	return err
}

// findOwners asks the cluster who owns an object, and returns the assets of the first owner that
// is one.
func (f *finder) findOwners(ctx context.Context, kinds []kubekind.Kind, name string) (hits []hit, owners []LiveObject, err error) {
	if f.local.Owners == nil {
		return nil, nil, fault.New(fault.Invalid, "this program asks no cluster").WithHint("leave --owners out")
	}
	owners, err = f.local.Owners(ctx, OwnerQuery{Kubeconfig: f.flags.kubeconfig, Context: f.flags.context, Kinds: kinds, Namespace: f.flags.namespace, Name: name})
	if err != nil {
		return nil, nil, err
	}
	for _, owner := range owners {
		kind := []kubekind.Kind{{Name: owner.Kind, Group: owner.Group}}
		if hits, err = f.findNamed(ctx, owner.Kind, kind, owner.Namespace, owner.Name); err != nil || len(hits) > 0 {
			return hits, owners, err
		}
	}
	return nil, owners, nil
}
