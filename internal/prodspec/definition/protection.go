package definition

import (
	"path"
	"time"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	intentpb "lehr.dev/gen/lehr/intent/v1"
	"lehr.dev/internal/external"
)

// protectionKeys are those of a protection, beside who is asked.
var protectionKeys = []string{"for", "timeout", "before", "during", "every", "after"}

// durings are what becomes of a push under way that a protection does not pass.
var durings = map[string]intentpb.Protection_During{"block": intentpb.Protection_DURING_BLOCK, "fail": intentpb.Protection_DURING_FAIL}

const (
	// leastEvery is the shortest pause between two askings.
	leastEvery = time.Second
	// mostAfter is how long after a push a protection may be asked, and its delay.
	mostAfter = 7 * 24 * time.Hour
	// usualKept, usualAsked and usualEvery are for, timeout and every where they are
	// not said.
	usualKept, usualAsked, usualEvery = time.Minute, 4 * time.Second, 15 * time.Second
)

func (p *parser) protection(c *intentpb.Check, fields map[string]*yaml.Node, at string, _ *Definition) {
	protection := &intentpb.Protection{}
	c.Kind = &intentpb.Check_Protection{Protection: protection}
	switch {
	case fields["http"] != nil:
		protection.Ask = &intentpb.Protection_Http{Http: p.askedService(fields["http"], at+".http")}
	case fields["plugin"] != nil:
		protection.Ask = &intentpb.Protection_Plugin{Plugin: p.askedPlugin(fields["plugin"], at+".plugin")}
	default:
		protection.Ask = &intentpb.Protection_Command{Command: p.askedProgram(fields["command"], at+".command")}
	}
	if duringNode := fields["during"]; duringNode != nil {
		protection.During = choice(p, duringNode, at+".during", durings, "block or fail")
	}
	if afterNode := fields["after"]; afterNode != nil {
		protection.After = p.afterPush(afterNode, at+".after")
	}
	p.phases(protection, fields, at)
	p.paces(protection, fields, at)
}

// askedService is the URL, or the name, of a service that is asked.
func (p *parser) askedService(node *yaml.Node, at string) string {
	place := p.text(node, at)
	p.check(node, at, external.CheckPlace(place))
	return place
}

// askedPlugin is the name of a plugin of checks.
func (p *parser) askedPlugin(node *yaml.Node, at string) string {
	name := p.text(node, at)
	if external.IsURL(name) || external.CheckPlace(name) != nil {
		p.at(node, at, "%s: %q is no name", at, name).hint("write the name of one that whoever runs the server lists under plugins, in the file of --external-checks")
	}
	return name
}

// askedProgram is a program that is asked, with its arguments.
func (p *parser) askedProgram(node *yaml.Node, at string) *intentpb.CommandLine {
	line := p.texts(node, at)
	if len(line) > 0 && !path.IsAbs(line[0]) {
		p.at(node, at, "%s: %q is no absolute path", at, line[0]).hint("name the program itself, as whoever runs the server lists it in the file of --external-checks")
	}
	return &intentpb.CommandLine{Line: line}
}

// askedTimeout is how long an answer is waited for.
func (p *parser) askedTimeout(node *yaml.Node, at string) *durationpb.Duration {
	timeout := p.duration(node, at)
	if timeout > mostTimeout {
		p.at(node, at, "%s is longer than %s", at, mostTimeout).hint("write at most 1m")
	}
	return durationpb.New(timeout)
}

// phases says whether it is asked before a push: it is, unless it is asked after it
// only, or is told not to be.
func (p *parser) phases(protection *intentpb.Protection, fields map[string]*yaml.Node, at string) {
	protection.Before = protection.During != intentpb.Protection_DURING_UNSPECIFIED || protection.After == nil
	beforeNode := fields["before"]
	if beforeNode == nil {
		return
	}
	value := choice(p, beforeNode, at+".before", truths, "true or false")
	switch {
	case value || !protection.Before:
		protection.Before = value
	case fields["during"] != nil:
		p.at(beforeNode, at+".before", "%s is asked during a push, and so before it too", at).hint("remove before: false; else a push that was stopped would begin again and again")
	default:
		p.at(beforeNode, at+".before", "%s would never be asked", at).hint("remove before: false, or write after: {duration: 10m}")
	}
}

// paces are how often it is asked, and how long answers are waited for and count.
func (p *parser) paces(protection *intentpb.Protection, fields map[string]*yaml.Node, at string) {
	keep, timeout, every := usualKept, usualAsked, usualEvery
	if node := fields["for"]; node != nil {
		protection.Keep = p.keepDuration(node, at+".for")
		keep = protection.Keep.AsDuration()
	}
	if node := fields["timeout"]; node != nil {
		protection.Timeout = p.askedTimeout(node, at+".timeout")
		timeout = protection.Timeout.AsDuration()
	}
	if node := fields["every"]; node != nil {
		every = p.duration(node, at+".every")
		protection.Every = durationpb.New(every)
		switch {
		case protection.During == intentpb.Protection_DURING_UNSPECIFIED && protection.After == nil:
			p.at(node, at+".every", "%s.every is for during and after", at).hint("remove it; before a push it is asked each half of for")
		case every > 0 && every < leastEvery:
			p.at(node, at+".every", "%s.every is shorter than %s", at, leastEvery).hint("write at least 1s")
		}
	}
	again := keep / 2
	if protection.During != intentpb.Protection_DURING_UNSPECIFIED || protection.After != nil {
		again = every
	}
	if keep > 0 && timeout+again >= keep {
		node := fields["http"]
		for _, key := range []string{"command", "plugin", "for", "timeout", "every"} {
			if fields[key] != nil {
				node = fields[key]
			}
		}
		p.at(node, at+".for", "%s: an answer counts for %s, and the next one may take %s", at, keep, timeout+again).hint("let for be longer than every and timeout together")
	}
}

func (p *parser) afterPush(node *yaml.Node, at string) *intentpb.AfterPush {
	result := &intentpb.AfterPush{}
	fields := p.fields(node, at, []string{"delay", "duration"})
	read := func(key string) *durationpb.Duration {
		if fields[key] == nil {
			return nil
		}
		d := p.duration(fields[key], at+"."+key)
		if d > mostAfter {
			p.at(fields[key], at+"."+key, "%s.%s is longer than %s", at, key, mostAfter).hint("write 7d, or less")
		}
		return durationpb.New(d)
	}
	result.Delay, result.Duration = read("delay"), read("duration")
	if len(fields) == 0 && node.Kind == yaml.MappingNode {
		p.at(node, at, "%s says not when", at).hint("write after: {delay: 1m, duration: 10m}")
	}
	return result
}
