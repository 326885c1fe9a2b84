package definition

import (
	"math"
	"regexp"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/external"
)

// absences are what it may mean that a query gives nothing.
var absences = map[string]intentpb.Metric_Absence{
	"broken": intentpb.Metric_ABSENCE_UNSPECIFIED, "pass": intentpb.Metric_ABSENCE_PASS, "wait": intentpb.Metric_ABSENCE_WAIT,
}

const (
	// leastKept and mostKept bound how old an answer may be.
	leastKept, mostKept = 5 * time.Second, time.Hour
	// mostOver is how far back a query may be told to look.
	mostOver = 7 * 24 * time.Hour
)

func (p *parser) metric(c *intentpb.Check, fields map[string]*yaml.Node, at string, _ *Definition) {
	metric := &intentpb.Metric{
		Prometheus: p.monitoring(fields, at, "prometheus"), Query: p.text(fields["query"], at+".query"),
		Labels: p.labels(fields["labels"], at+".labels"), Keep: p.keepDuration(fields["keep"], at+".keep"),
	}
	c.Kind = &intentpb.Check_Query{Query: metric}
	if belowNode := fields["below"]; belowNode != nil {
		metric.Below = new(p.measure(belowNode, at+".below"))
	}
	if aboveNode := fields["above"]; aboveNode != nil {
		metric.Above = new(p.measure(aboveNode, at+".above"))
	}
	if metric.Below == nil && metric.Above == nil {
		p.at(fields["query"], at+".below", "%s has no limit", at).hint("write below: 0.02, above: 3, or both; a recent peak has a headroom instead")
	}
	if overNode := fields["over"]; overNode != nil {
		d := p.duration(overNode, at+".over")
		switch {
		case metric.Below != nil && metric.Above != nil:
			p.at(overNode, at+".over", "%s.over is for one limit, below or above", at).hint("write two checks")
		case d > mostOver:
			p.at(overNode, at+".over", "%s.over is longer than %s", at, mostOver).hint("write 7d, or less")
		}
		metric.Over = durationpb.New(d)
	}
	if absent := fields["absent"]; absent != nil {
		metric.Absent = choice(p, absent, at+".absent", absences, "broken, pass or wait")
	}
}

func (p *parser) peak(c *intentpb.Check, fields map[string]*yaml.Node, at string, _ *Definition) {
	peak := &intentpb.Peak{
		Prometheus: p.monitoring(fields, at, "prometheus"), Headroom: p.measure(fields["headroom"], at+".headroom"),
		Labels: p.labels(fields["labels"], at+".labels"), Keep: p.keepDuration(fields["keep"], at+".keep"),
	}
	c.Kind = &intentpb.Check_Peak{Peak: peak}
	if peak.Headroom < 0 || peak.Headroom == 0 && fields["headroom"].Value == "0" {
		p.at(fields["headroom"], at+".headroom", "%s.headroom must be more than 0", at).hint("write headroom: 1.3 for 30%% more than the recent peak")
	}
	if query := fields["query"]; query == nil {
		p.at(fields["headroom"], at+".query", "%s.query is missing", at).hint("write for example query: 'max_over_time(sum(rate(requests_total[5m]))[1d:])'")
	} else {
		peak.Query = p.text(query, at+".query")
	}
	if serves := p.expression(fields["serves"], at+".serves"); serves != nil {
		peak.Serves = serves.Text
	}
	if dimension := fields["dimension"]; dimension != nil {
		peak.Dimension = p.text(dimension, at+".dimension")
		if peak.Serves != "" {
			p.at(dimension, at+".dimension", "%s says twice what is served", at).hint("remove dimension or serves")
		}
	}
}

func (p *parser) alerts(c *intentpb.Check, fields map[string]*yaml.Node, at string, _ *Definition) {
	alerts := &intentpb.Alerts{
		Alertmanager: p.monitoring(fields, at, "alertmanager"), Matchers: p.matchers(fields["alerts"], at+".alerts"),
		Labels: p.labels(fields["labels"], at+".labels"), Keep: p.keepDuration(fields["keep"], at+".keep"),
	}
	c.Kind = &intentpb.Check_Alerts{Alerts: alerts}
	if silenced := fields["silenced"]; silenced != nil {
		alerts.Silenced = choice(p, silenced, at+".silenced", truths, "true or false")
	}
	if inhibited := fields["inhibited"]; inhibited != nil {
		alerts.Inhibited = choice(p, inhibited, at+".inhibited", truths, "true or false")
	}
}

var truths = map[string]bool{"true": true, "false": false}

// monitoring that a check asks: a URL, or a name of the operator's.
func (p *parser) monitoring(fields map[string]*yaml.Node, at, key string) string {
	node, at := fields[key], at+"."+key
	if node == nil {
		for _, alternative := range []string{"query", "alerts", "headroom"} {
			if node == nil {
				node = fields[alternative]
			}
		}
		p.at(node, at, "%s is missing", at).hint("write %s: \"https://…\", or the name of one that whoever runs the server lists in the file of --external-checks", key)
		return ""
	}
	place := p.text(node, at)
	p.check(node, at, external.CheckPlace(place))
	return place
}

var (
	labelName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
	// matcher of Alertmanager, at the beginning of a text, and what parts two.
	matcher   = regexp.MustCompile(`^\s*([a-zA-Z_][a-zA-Z0-9_]*\s*(?:=~|!~|!=|=)\s*"(?:[^"\\\n]|\\.)*")\s*`)
	separator = regexp.MustCompile(`^,`)
)

// maxMatchers of a check.
const maxMatchers = 20

func (p *parser) matchers(node *yaml.Node, at string) (list []string) {
	text := p.text(node, at)
	for rest := text; rest != ""; {
		match := matcher.FindStringSubmatch(rest)
		if match != nil {
			list, rest = append(list, match[1]), rest[len(match[0]):]
		}
		if match == nil || rest != "" && !separator.MatchString(rest) || rest == "," {
			p.at(node, at, "%s: %.100q is no matcher of labels", at, rest).hint(`write alerts: 'service="web",severity=~"page|ticket"'; =, !=, =~ and !~ are known`)
			return nil
		}
		rest = separator.ReplaceAllString(rest, "")
	}
	if len(list) > maxMatchers {
		p.at(node, at, "%s has %d matchers, at most %d are allowed", at, len(list), maxMatchers).hint("join some by =~")
	}
	return list
}

// labels of what an asset is about, each by an expression.
func (p *parser) labels(node *yaml.Node, at string) (labels map[string]string) {
	p.eachPair(node, at, func(key, value *yaml.Node) {
		if !labelName.MatchString(key.Value) {
			p.at(key, join(at, key.Value), "%q is not the name of a label", key.Value).hint("use a-z, A-Z, 0-9 and _")
		}
		if e := p.expression(value, join(at, key.Value)); e != nil {
			if labels == nil {
				labels = map[string]string{}
			}
			labels[key.Value] = e.Text
		}
	})
	return labels
}

func (p *parser) keepDuration(node *yaml.Node, at string) *durationpb.Duration {
	if node == nil {
		return nil
	}
	d := p.duration(node, at)
	if d > 0 && (d < leastKept || d > mostKept) {
		p.at(node, at, "%s: an answer cannot count for %s", at, d).hint("write 5s to 1h; half of that is how often it is asked")
	}
	return durationpb.New(d)
}

// measure is any finite number.
func (p *parser) measure(node *yaml.Node, at string) float64 {
	n, err := strconv.ParseFloat(node.Value, 64)
	if node.Kind != yaml.ScalarNode || err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
		p.at(node, at, "%s must be a number, is %s", at, describe(node)).hint("write for example 0.02")
		return 0
	}
	return n
}
