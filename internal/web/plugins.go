package web

import (
	"context"

	"google.golang.org/protobuf/types/known/durationpb"

	apipb "lehr.dev/gen/lehr/api/v1"
)

// pluginsView is the plugins of a partition.
type pluginsView struct {
	*apipb.ListPluginsResponse
	Command string
}

// IsBad reports whether a plugin is not asked, or does not answer.
func (pluginsView) IsBad(p *apipb.PluginStatus) bool { return p.BreakerOpen || p.Problem != "" }

// Class is what the class of a guarantee means.
func (pluginsView) Class(guarantee string) string {
	return map[string]string{"F": "fenced", "C": "compares and sets", "N": "no guard of its own"}[guarantee]
}

// Length is a time for people; none: empty.
func (pluginsView) Length(d *durationpb.Duration) string {
	if d == nil {
		return ""
	}
	return d.AsDuration().String()
}

// showPlugins shows the plugins that a partition's policy binds: what they are, what they promise, and how they answer.
func showPlugins(ctx context.Context, r *reader, at address) (page, error) {
	pageData, err := partitionPage(ctx, r, at, "Plugins of "+at.partition)
	if err != nil {
		return page{}, err
	}
	response, err := r.Server.ListPlugins(ctx, &apipb.ListPluginsRequest{Partition: at.partition})
	if err != nil {
		return page{}, err
	}
	pageData.Parts = []part{makePart("plugins", "plugins", pluginsView{response, r.command(at.partition, "get", "plugins")})}
	return pageData, nil
}

// notificationsView is what is told of a partition, and how that arrives.
type notificationsView struct {
	*apipb.ListNotificationsResponse
	Command, Rehearse string
}

// showNotifications shows the causes that a partition tells of, and how deliveries to its targets go.
func showNotifications(ctx context.Context, r *reader, at address) (page, error) {
	pageData, err := partitionPage(ctx, r, at, "Notifications of "+at.partition)
	if err != nil {
		return page{}, err
	}
	response, err := r.Reports.ListNotifications(ctx, &apipb.ListNotificationsRequest{Partition: at.partition})
	if err != nil {
		return page{}, err
	}
	view := notificationsView{response, r.command(at.partition, "get", "notifications"), r.command(at.partition, "notify", "--dry-run", "--since", "24h")}
	pageData.Parts = []part{makePart("targets", "notification-targets", view), makePart("open", "notifications-open", view)}
	return pageData, nil
}
