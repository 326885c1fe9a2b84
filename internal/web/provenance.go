package web

import (
	"context"
	"maps"
	"slices"

	apipb "lehr.dev/gen/lehr/api/v1"
)

// provenanceView is where an asset comes from, or one of its fields: stage by stage, the
// nearest first.
type provenanceView struct {
	Partition, Asset, Field string
	Stages                  []*apipb.BlameAssetResponse
}

// fieldsView are the fields of an asset, each with a link to where it comes from.
type fieldsView struct {
	Fields []provenanceField
	Hidden int
}

type provenanceField struct{ Path, Value, Link string }

// showProvenance is where an asset, or the field that the address names, comes from: the
// generator, files, lines and commits. It reads history, and so is not followed.
func showProvenance(ctx context.Context, r *reader, at address) (page, error) {
	field := at.query.Get("field")
	title := "Where " + at.name + " comes from"
	if field != "" {
		title = "Where " + field + " of " + at.name + " comes from"
	}
	pageData, err := partitionPage(ctx, r, at, title)
	if err != nil {
		return page{}, err
	}
	pageData.Fixed = true
	pageData.Back = crumb{at.name, link(at.partition, "asset", at.name)}
	if field != "" {
		pageData.Back = crumb{"where " + at.name + " comes from", provenanceLink(at.partition, at.name, "")}
	}
	content, err := r.Assets.GetAsset(ctx, &apipb.GetAssetRequest{Partition: at.partition, Asset: at.name})
	if err != nil {
		return page{}, err
	}
	response, err := r.Assets.BlameAsset(ctx, &apipb.BlameAssetRequest{Partition: at.partition, Asset: at.name, Field: field})
	if err != nil {
		pageData.Parts = append(pageData.Parts, problem("provenance", err))
	} else {
		view := provenanceView{Partition: at.partition, Asset: at.name, Field: field}
		for stage := response; stage != nil; stage = stage.From {
			view.Stages = append(view.Stages, stage)
		}
		pageData.Parts = append(pageData.Parts, makePart("provenance", "provenance", view))
	}
	flat := flattenContent(content)
	fields := fieldsView{}
	for _, path := range slices.Sorted(maps.Keys(flat)) {
		fields.Fields = append(fields.Fields, provenanceField{path, flat[path], provenanceLink(at.partition, at.name, path)})
	}
	if len(fields.Fields) > fieldsShown {
		fields.Hidden = len(fields.Fields) - fieldsShown
		fields.Fields = fields.Fields[:fieldsShown]
	}
	words := []string{"blame", at.name}
	if field != "" {
		words = append(words, field)
	}
	pageData.Parts = append(pageData.Parts, makePart("fields", "provenance-fields", fields),
		makePart("commands", "commands", []advice{{"See it in a terminal", r.command(at.partition, words...)}}))
	return pageData, nil
}
