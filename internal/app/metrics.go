package app

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"lehr.dev/internal/access"
	"lehr.dev/internal/ground/deliveryhistory"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/ground/measure"
	"lehr.dev/internal/prodspec"
	"lehr.dev/internal/store"
)

const (
	// scrapePatience is how long the store may take to answer what a scrape asks.
	scrapePatience = 3 * time.Second
	// mostScrapes are answered at once; others are told to come later.
	mostScrapes = 4
)

// described are all metrics of Lehr's own. Labels are names of partitions, of
// plugins' programs and of what Lehr itself counts by: how many there are is
// bounded, and none names an asset.
var described []*prometheus.Desc

func describe(name, help string, labels ...string) *prometheus.Desc {
	desc := prometheus.NewDesc(name, help, labels, nil)
	described = append(described, desc)
	return desc
}

var (
	metricBuild      = describe("lehr_build_info", "Always 1, for its labels.", "version", "go")
	metricReady      = describe("lehr_ready", "1 while /readyz says ready.")
	metricPartitions = describe("lehr_partitions", "Registered partitions.")
	metricReplicas   = describe("lehr_replicas", "Replicas that share the database; 0 where a file is served.")

	metricStoreUp      = describe("lehr_store_up", "1 if the store answered this scrape.")
	metricStoreBytes   = describe("lehr_store_bytes", "Bytes that the store takes.")
	metricCommit       = describe("lehr_store_commit_duration_seconds", "How long commits took, tries included.")
	metricCommitGroup  = describe("lehr_store_commit_callers", "How many callers' work one commit had.")
	metricCommitFailed = describe("lehr_store_commit_failures_total", "Commits that failed: none of their work is known to be done.")
	metricCommitting   = describe("lehr_store_commit_under_way_seconds", "How long the commit under way takes already; 0: there is none.")

	metricAudit             = describe("lehr_audit_trouble", "1 while the audit cannot be written, and so nothing is changed.")
	metricCheckpointFailing = describe("lehr_audit_checkpoint_failing", "1 while checkpoints of the audit do not arrive.")
	metricCheckpoint        = describe("lehr_audit_checkpoint_timestamp_seconds", "When checkpoints were sent last and arrived.")

	metricCalls   = describe("lehr_api_duration_seconds", "How long calls took, by how they ended; streams until their end.", "method", "code")
	metricStreams = describe("lehr_api_streams", "Open streams: watches, exports.")
	metricSpans   = describe("lehr_trace_spans_total", "Spans of traces: taken by the collector (sent), or lost since it is away or slow (dropped).", "outcome")

	metricHeld     = describe("lehr_partition_held", "1 if it is for this replica to serve.", "partition")
	metricActing   = describe("lehr_partition_acting", "1 if all actors of a partition that this replica serves run.", "partition")
	metricEpoch    = describe("lehr_lease_epoch", "Epoch of the lease; 0: it is not held.", "partition")
	metricStop     = describe("lehr_stop", "1 while a stop is in force, of the partition or of all.", "partition")
	metricSequence = describe("lehr_head_sequence", "Sequence of head.", "partition")
	metricHeadTime = describe("lehr_head_timestamp_seconds", "When head was published.", "partition")

	metricUnserved  = describe("lehr_sources_unserved_seconds", "How long there are sources that are not served; 0: head is what they say.", "partition")
	metricFailing   = describe("lehr_sources_failing", "Sources that cannot be read, and are used as they were.", "partition")
	metricCandidate = describe("lehr_candidate", "1 while the newest sources make a candidate in this state: held or rejected.", "partition", "state")
	metricBuilds    = describe("lehr_build_duration_seconds", "How long builds took, by what they led to.", "partition", "outcome")
	metricRuns      = describe("lehr_generator_runs_total", "Runs of generators: carried out (ran), or found to hold still (kept).", "partition", "how")
	metricCollected = describe("lehr_collected_rows_total", "Rows that nothing needed and were removed.", "partition")

	metricAssets     = describe("lehr_assets", "Assets by state, and those that wait by the first of what they wait for.", "partition", "state", "waiting")
	metricQueue      = describe("lehr_queue_assets", "Assets that have a time to be looked at.", "partition")
	metricStep       = describe("lehr_enforcer_step_seconds", "How long the enforcer is at one step already; 0: it waits.", "partition")
	metricDelay      = describe("lehr_look_delay_seconds", "How long due assets waited for a place with their plugin.", "partition")
	metricDiffs      = describe("lehr_diff_duration_seconds", "How long diffs took, each of a batch.", "partition", "plugin")
	metricBatches    = describe("lehr_diff_assets", "How many assets a diff had; the sum is of looks.", "partition", "plugin")
	metricNoDiff     = describe("lehr_diff_failures_total", "Diffs of which nothing came.", "partition", "plugin")
	metricBreaker    = describe("lehr_plugin_breaker_open", "1 while a plugin fails, and is asked nothing but now and then one diff.", "partition", "plugin")
	metricInARow     = describe("lehr_plugin_failures", "Failures of a plugin in a row, since it answered last.", "partition", "plugin")
	metricHints      = describe("lehr_plugin_hints_total", "Hints of a plugin, by what became of them: taken; foreign, about what it was not asked; flood, more than it may give. All but those taken were dropped.", "plugin", "outcome")
	metricRelied     = describe("lehr_plugin_hints_reliable", "1 while hints of a plugin are relied on: it watches production, and none was lost.", "plugin")
	metricPushes     = describe("lehr_push_duration_seconds", "How long pushes took from admission, by ending.", "partition", "ending")
	metricOpen       = describe("lehr_pushes_open", "Pushes that have no end yet.", "partition")
	metricDoubt      = describe("lehr_pushes_in_doubt", "Open pushes whose end was lost.", "partition")
	metricOldest     = describe("lehr_push_oldest_seconds", "Age of the oldest open push; 0: there is none.", "partition")
	metricUntold     = describe("lehr_notifications_waiting", "Messages to a target that have not arrived yet.", "partition", "target")
	metricDeaf       = describe("lehr_notifications_failing", "1 while what was sent to a target last did not arrive; it is tried again.", "partition", "target")
	metricPromotions = describe("lehr_delivery_promotions", "Promotions of the last 30 days that do not go back.", "partition", "application", "environment")
	metricBadOnes    = describe("lehr_delivery_promotions_failed", "Those promotions whose version was found bad, did not converge or went back while it was there.", "partition", "application", "environment")
	metricLead       = describe("lehr_delivery_lead_time_seconds", "Median time from when a version was made until an environment was good with it, over 30 days; NaN: there was none.", "partition", "application", "environment")
	metricRestore    = describe("lehr_delivery_restore_time_seconds", "Median time from the first sign that a promotion failed until the environment was good again, over 30 days; NaN: there was none.", "partition", "application", "environment")
	metricQueued     = describe("lehr_delivery_queue_seconds", "Median time that versions waited for a constraint, over 30 days; NaN: none did.", "partition", "application", "environment", "constraint")

	metricRefused = describe("lehr_admissions_refused_total", "Admissions that were refused, by reason.", "partition", "reason")
)

// metrics are collected when somebody asks for them.
type metrics struct {
	app *App

	mutex sync.Mutex
	// heads and when they were published.
	heads map[intent.PartitionID]published
}

type published struct {
	id intent.IncarnationID
	at time.Time
}

// newMetrics returns what shows this app's metrics, and those of its process, to a few
// at once.
func (a *App) newMetrics() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		&metrics{app: a, heads: map[intent.PartitionID]published{}},
	)
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: mostScrapes, EnableOpenMetrics: true})
}

// guardMetrics answers who may read all partitions.
func (a *App) guardMetrics(w http.ResponseWriter, r *http.Request) {
	caller, err := access.CallerOf(r.Context())
	if err == nil && !caller.Local {
		err = a.store.Authorize(r.Context(), intent.Viewer, "")
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	a.metricsHandler().ServeHTTP(w, r)
}

// Describe is a Prometheus collector's.
func (m *metrics) Describe(all chan<- *prometheus.Desc) {
	for _, d := range described {
		all <- d
	}
}

// scrape is one collection.
type scrape struct {
	sink chan<- prometheus.Metric
	now  time.Time
}

func (s scrape) gauge(d *prometheus.Desc, value float64, labels ...string) {
	s.sink <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

func (s scrape) flag(d *prometheus.Desc, isSet bool, labels ...string) {
	value := 0.0
	if isSet {
		value = 1
	}
	s.gauge(d, value, labels...)
}

func (s scrape) moment(d *prometheus.Desc, at time.Time, labels ...string) {
	if !at.IsZero() {
		s.gauge(d, float64(at.UnixNano())/float64(time.Second), labels...)
	}
}

func (s scrape) counter(d *prometheus.Desc, c *measure.Counter, labels ...string) {
	s.count(d, uint64(c.Value()), labels...)
}

func (s scrape) count(d *prometheus.Desc, value uint64, labels ...string) {
	s.sink <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value), labels...)
}

func (s scrape) histogram(d *prometheus.Desc, h *measure.Histogram, labels ...string) {
	count, sum, upTo := h.Read()
	s.sink <- prometheus.MustNewConstHistogram(d, count, sum, upTo, labels...)
}

// Collect is a Prometheus collector's.
func (m *metrics) Collect(all chan<- prometheus.Metric) {
	a, s := m.app, scrape{all, m.app.runtime.Now()}
	ctx, cancel := loop.WithTimeout(context.Background(), a.runtime, scrapePatience)
	defer cancel()
	s.gauge(metricBuild, 1, a.options.Version, runtime.Version())
	reasons, _ := a.unready(ctx)
	s.flag(metricReady, len(reasons) == 0)
	s.histogram(metricCommit, &a.measures.Store.Commits)
	s.histogram(metricCommitGroup, &a.measures.Store.Groups)
	s.counter(metricCommitFailed, &a.measures.Store.Failed)
	s.gauge(metricCommitting, a.measures.Store.Step.Since(s.now).Seconds())
	s.flag(metricAudit, a.store.AuditTrouble() != "")
	if a.sender != nil {
		s.flag(metricCheckpointFailing, a.sender.problem() != "")
		s.moment(metricCheckpoint, a.measures.Checkpoint.At())
	}
	for procedure, codes := range a.measures.API.Calls.All() {
		for code, durations := range codes.All() {
			s.histogram(metricCalls, durations, strings.TrimPrefix(procedure, "/"), code)
		}
	}
	s.gauge(metricStreams, float64(a.measures.API.Streams.Load()))
	s.counter(metricSpans, &a.measures.Traces.Sent, "sent")
	s.counter(metricSpans, &a.measures.Traces.Dropped, "dropped")
	for _, hints := range a.pool.hints() {
		s.count(metricHints, hints.counts.Taken, hints.plugin, "taken")
		s.count(metricHints, hints.counts.Foreign, hints.plugin, "foreign")
		s.count(metricHints, hints.counts.Flood, hints.plugin, "flood")
		s.flag(metricRelied, hints.reliable, hints.plugin)
	}
	a.mutex.Lock()
	states := make(map[intent.PartitionID]*state, len(a.states))
	for id, state := range a.states {
		states[id] = state
	}
	a.mutex.Unlock()
	s.gauge(metricPartitions, float64(len(states)))
	for id, state := range states {
		elsewhere := state.elsewhere()
		s.flag(metricHeld, !elsewhere, string(id))
		if !elsewhere {
			m.partition(s, string(id), state)
		}
	}
	err := m.stored(ctx, s, states)
	s.flag(metricStoreUp, err == nil)
}

// partition tells of one that is for this replica to serve.
func (m *metrics) partition(s scrape, id string, state *state) {
	s.flag(metricActing, len(state.failing()) == 0, id)
	s.gauge(metricEpoch, float64(state.epoch.Load()), id)
	s.counter(metricCollected, &state.measure.Collected, id)
	p, e := &state.measure.Pipeline, &state.measure.Enforcer
	s.gauge(metricUnserved, p.Unserved.Since(s.now).Seconds(), id)
	for outcome, durations := range p.Builds.All() {
		s.histogram(metricBuilds, durations, id, outcome)
	}
	s.counter(metricRuns, &p.Ran, id, "ran")
	s.counter(metricRuns, &p.Kept, id, "kept")
	if pipeline := state.pipeline.Load(); pipeline != nil {
		if status := pipeline.Status(); status != nil {
			s.gauge(metricFailing, float64(len(status.Failing)), id)
			for _, candidate := range []prodspec.State{prodspec.Held, prodspec.Rejected} {
				s.flag(metricCandidate, status.State == candidate, id, string(candidate))
			}
		}
	}
	enforcerMetrics(s, id, e)
	deliveryMetrics(s, id, &state.measure.Delivery)
	for name, target := range state.measure.Notifier.Targets.All() {
		s.gauge(metricUntold, float64(target.Waiting.Load()), id, name)
		s.flag(metricDeaf, target.Failing.Load(), id, name)
	}
}

// mostEnvironments of a partition's applications are measured.
const mostEnvironments = 200

// deliveryMetrics tell the figures of a partition's applications.
func deliveryMetrics(s scrape, id string, d *measure.Delivery) {
	seconds := func(t deliveryhistory.Times) float64 {
		if t.Count == 0 {
			return math.NaN()
		}
		return t.Median.Seconds()
	}
	shown := 0
	for application, delivered := range d.Applications.All() {
		for _, f := range delivered.Figures() {
			if shown++; shown > mostEnvironments {
				return
			}
			s.gauge(metricPromotions, float64(f.Promotions), id, application, f.Environment)
			s.gauge(metricBadOnes, float64(f.Failed), id, application, f.Environment)
			s.gauge(metricLead, seconds(f.Lead), id, application, f.Environment)
			s.gauge(metricRestore, seconds(f.Restore), id, application, f.Environment)
			for _, q := range f.Queues {
				s.gauge(metricQueued, seconds(q.Times), id, application, f.Environment, q.Constraint)
			}
		}
	}
}

func enforcerMetrics(s scrape, id string, e *measure.Enforcer) {
	stances, seenAssets := e.Stances.Read()
	for stance, n := range stances {
		s.gauge(metricAssets, float64(n), id, stance.State, stance.Kind)
	}
	s.gauge(metricAssets, float64(max(0, int(e.Assets.Load())-seenAssets)), id, "unseen", "")
	s.gauge(metricQueue, float64(e.Queued.Load()), id)
	s.gauge(metricStep, e.Step.Since(s.now).Seconds(), id)
	s.histogram(metricDelay, &e.Delay, id)
	for name, p := range e.Plugins.All() {
		s.histogram(metricDiffs, &p.Diffs, id, name)
		s.histogram(metricBatches, &p.Batches, id, name)
		s.counter(metricNoDiff, &p.Failed, id, name)
		s.flag(metricBreaker, p.Open.Load(), id, name)
		s.gauge(metricInARow, float64(p.InARow.Load()), id, name)
	}
	for ending, durations := range e.Pushes.Ended.All() {
		s.histogram(metricPushes, durations, id, ending)
	}
	open, doubt, oldest := e.Pushes.Read()
	s.gauge(metricOpen, float64(open), id)
	s.gauge(metricDoubt, float64(doubt), id)
	age := 0.0
	if !oldest.IsZero() {
		age = max(0, s.now.Sub(oldest).Seconds())
	}
	s.gauge(metricOldest, age, id)
	for reason, n := range e.Refused.All() {
		s.counter(metricRefused, n, id, reason)
	}
}

// stored tells what only the store knows.
func (m *metrics) stored(ctx context.Context, s scrape, states map[intent.PartitionID]*state) error {
	a := m.app
	registered, err := a.store.ListPartitions(ctx)
	if err != nil {
		return err
	}
	replicas, err := a.store.Replicas(ctx)
	if err != nil {
		return err
	}
	s.gauge(metricReplicas, float64(len(replicas)))
	if size, err := a.store.Size(ctx); err == nil { // Not every database tells.
		s.gauge(metricStoreBytes, float64(size))
	}
	for _, p := range registered {
		state := states[p.ID]
		if state == nil || state.elsewhere() {
			continue
		}
		s.flag(metricStop, p.Stop != nil, string(p.ID))
		s.gauge(metricSequence, float64(p.Head.Sequence), string(p.ID))
		at, err := m.published(ctx, p)
		if err != nil {
			return err
		}
		s.moment(metricHeadTime, at, string(p.ID))
	}
	return nil
}

// published is when a partition's head was; asked for once of each.
func (m *metrics) published(ctx context.Context, p store.Partition) (time.Time, error) {
	if p.Head.IsZero() {
		return time.Time{}, nil
	}
	m.mutex.Lock()
	cached := m.heads[p.ID]
	m.mutex.Unlock()
	if cached.id == p.Head {
		return cached.at, nil
	}
	head, err := m.app.store.Incarnation(ctx, p.Head)
	if err != nil {
		return time.Time{}, err
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.heads[p.ID] = published{p.Head, head.Created}
	return head.Created, nil
}

// MetricNames lists Lehr's own metrics in order, for what is written of them.
func MetricNames() (names []string) {
	for _, d := range described {
		var name string
		_, _ = fmt.Sscanf(d.String(), "Desc{fqName: %q", &name)
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
