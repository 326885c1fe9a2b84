package web

import (
	"context"
	"slices"

	apipb "lehr.dev/gen/lehr/api/v1"
)

// changelogKind is the page of what one version has and another has not, between environments or versions.
const changelogKind = "changelog"

// changelogForm chooses the application's two sides: an environment for what it has, or a version.
type changelogForm struct {
	Action, Application, From, To string
	// Names can be chosen from: the environments, then the newest versions.
	Names   []string
	Command string
}

// changelogView is what comes and what goes away.
type changelogView struct {
	*apipb.CompareVersionsResponse
	FromLink, ToLink string
	Rows             []changelogVersion
}

type changelogVersion struct {
	*apipb.DeliveredVersion
	Link string
}

func changelogAddress(partition, application, from, to string) string {
	return deliveryAddress(partition, changelogKind, "", application, "from", from, "to", to)
}

// showChangelog shows what an address compares, and asks for the two sides.
func showChangelog(ctx context.Context, r *reader, at address) (page, error) {
	pageData, err := partitionPage(ctx, r, at, "Change log")
	if err != nil {
		return page{}, err
	}
	pageData.Fixed, pageData.Form = true, true
	application := at.query.Get("application")
	pageData.Title = "Change log of " + application
	pageData.Back = crumb{"delivery of " + application, deliveryAddress(at.partition, "delivery", "", application)}
	versions, err := r.Deliveries.ListVersions(ctx, &apipb.ListVersionsRequest{Partition: at.partition, Application: application, Limit: versionsShown})
	if err != nil {
		return page{}, err
	}
	form := changelogForm{Action: address{kind: changelogKind, partition: at.partition}.String(), Application: application, From: at.query.Get("from"), To: at.query.Get("to"), Names: slices.Clone(versions.Environments)}
	for _, v := range versions.Versions {
		form.Names = append(form.Names, v.Version.GetName())
	}
	if form.From == "" || form.To == "" {
		pageData.Parts = []part{makePart("sides", "changelog-form", form)}
		return pageData, nil
	}
	form.Command = r.command(at.partition, "delivery", "changes", form.From, form.To, "--application", application)
	pageData.Parts = []part{makePart("sides", "changelog-form", form)}
	response, err := r.Deliveries.CompareVersions(ctx, &apipb.CompareVersionsRequest{Partition: at.partition, Application: application, From: form.From, To: form.To})
	if err != nil {
		pageData.Parts = append(pageData.Parts, problem("changes", err))
		return pageData, nil
	}
	view := changelogView{CompareVersionsResponse: response, FromLink: versionLink(at.partition, application, response.From), ToLink: versionLink(at.partition, application, response.To)}
	for _, v := range response.Versions {
		view.Rows = append(view.Rows, changelogVersion{v, versionLink(at.partition, application, v.Version)})
	}
	pageData.Parts = append(pageData.Parts, makePart("changes", "changelog", view))
	return pageData, nil
}
