package definition

import (
	"time"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
)

// mostAtMost and longestPer bound what is counted, and for how long.
const (
	mostAtMost = 1000
	longestPer = 7 * 24 * time.Hour
)

// rateBys are what a rate limit may be counted by, beside a scope.
var rateBys = map[string]intentpb.Rate_By{
	"asset": intentpb.Rate_BY_ASSET, "type": intentpb.Rate_BY_TYPE, "partition": intentpb.Rate_BY_PARTITION,
}

func (p *parser) rate(c *intentpb.Check, fields map[string]*yaml.Node, at string, _ *Definition) {
	const example = "write {at_most: 3, per: 1h, by: asset}"
	rate := &intentpb.Rate{AtMost: p.number(fields["at_most"], at+".at_most", 1)}
	if rate.AtMost > mostAtMost {
		p.at(fields["at_most"], at+".at_most", "%s.at_most is %d, at most %d are counted", at, rate.AtMost, mostAtMost).hint("limit fewer in a shorter time")
	}
	if perNode := fields["per"]; perNode == nil {
		p.at(fields["at_most"], at+".per", "%s.per is missing", at).hint(example)
	} else {
		period := p.duration(perNode, at+".per")
		if period > longestPer {
			p.at(perNode, at+".per", "%s.per is %s, pushes are counted for 7 days", at, period).hint("write at most 7d")
		}
		rate.Per = durationpb.New(period)
	}
	switch byNode, scope := fields["by"], fields["scope"]; {
	case (byNode == nil) == (scope == nil):
		p.at(fields["at_most"], at+".by", "%s needs by or scope, and not both", at).hint("write by: asset, by: type, by: partition, or scope: cluster for each value of that impacted scope")
	case scope != nil:
		rate.By, rate.Scope = intentpb.Rate_BY_SCOPE, p.text(scope, at+".scope")
	default:
		rate.By = choice(p, byNode, at+".by", rateBys, "asset, type or partition")
	}
	c.Kind = &intentpb.Check_Rate{Rate: rate}
}
