package server

import (
	"context"
	"path"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	apipb "lehr.dev/gen/lehr/api/v1"
	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/measure"
)

// AskedPlugin is a plugin that this process asks.
type AskedPlugin struct {
	// Name, Version and Types are what it says of itself; Problem is why it says nothing.
	Name, Version string
	Types         []ServedType
	Problem       error
	// Measure is how it answered; nil: nothing was asked of it yet.
	Measure *measure.Plugin
}

// ServedType is what a plugin says of a payload type.
type ServedType struct {
	Type intent.TypeName
	// Guarantee is its class: F, C or N.
	Guarantee string
	// LongestEffect is the longest one that it cannot cancel, and Cadence how old an answer may be that nobody asked for.
	LongestEffect, Cadence time.Duration
}

// ListPlugins lists the plugins that head's policy binds, and how they answer in this process.
func (s *Server) ListPlugins(ctx context.Context, request *apipb.ListPluginsRequest) (*apipb.ListPluginsResponse, error) {
	partition, err := s.registered(ctx, request.Partition)
	if err != nil {
		return nil, err
	}
	policy, err := s.policy(ctx, partition.Head)
	if err != nil {
		return nil, err
	}
	response := &apipb.ListPluginsResponse{Asked: s.asksPlugins(partition.ID)}
	if !response.Asked {
		response.Replica = partition.Replica
	}
	listed := map[string]*apipb.PluginStatus{}
	types := map[string][]ServedType{}
	for _, binding := range policy.GetPlugins() {
		key := strings.Join(append([]string{binding.Dial}, binding.Run...), "\x00")
		status := listed[key]
		if status == nil {
			status = &apipb.PluginStatus{Program: programOf(binding)}
			listed[key] = status
			response.Plugins = append(response.Plugins, status)
			if response.Asked {
				asked := s.plugin(partition.ID, binding)
				fillPlugin(status, asked)
				types[key] = asked.Types
			}
		}
		status.Types = append(status.Types, servedType(binding.Type, types[key]))
	}
	return response, nil
}

// asksPlugins reports whether this process acts for a partition, and so asks its plugins.
func (s *Server) asksPlugins(partition intent.PartitionID) bool {
	if s.plugin == nil {
		return false
	}
	for _, h := range s.health() {
		if h.Partition == partition {
			return h.Acting
		}
	}
	return false
}

// programOf is a plugin's program without folder and arguments, or its address.
func programOf(binding *intentpb.PluginBinding) string {
	if len(binding.Run) > 0 {
		return path.Base(binding.Run[0])
	}
	return strings.TrimPrefix(binding.Dial, "https://")
}

func servedType(name string, types []ServedType) *apipb.ServedType {
	served := &apipb.ServedType{Type: name}
	for _, t := range types {
		if string(t.Type) == name {
			served.Guarantee, served.LongestEffect = t.Guarantee, durationpb.New(t.LongestEffect)
			if t.Cadence > 0 {
				served.Cadence = durationpb.New(t.Cadence)
			}
		}
	}
	return served
}

// fillPlugin says how a plugin answers.
func fillPlugin(status *apipb.PluginStatus, asked AskedPlugin) {
	status.Name, status.Version = asked.Name, asked.Version
	if asked.Problem != nil {
		status.Problem = asked.Problem.Error()
	}
	m := asked.Measure
	if m == nil {
		return
	}
	status.BreakerOpen, status.Failures, status.FailedLooks = m.Open.Load(), m.InARow.Load(), int64(m.Failed.Value())
	if reason := m.Reason.Load(); reason != nil && status.BreakerOpen {
		status.Problem = *reason
	}
	count, _, _ := m.Diffs.Read()
	status.Looks = int64(count)
	status.Median, status.P99 = quantile(&m.Diffs, 0.5), quantile(&m.Diffs, 0.99)
}

func quantile(h *measure.Histogram, share float64) *durationpb.Duration {
	seconds, ok := h.Quantile(share)
	if !ok {
		return nil
	}
	return durationpb.New(time.Duration(seconds * float64(time.Second)))
}
