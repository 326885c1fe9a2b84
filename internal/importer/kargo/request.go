package kargo

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"lehr.dev/internal/ground/secrecy"
	"lehr.dev/internal/importer/adapters"
)

// requestKeys are those of a request whose status alone counts.
var requestKeys = []string{"method", "url", "headers", "body", "timeout"}

// readRequest makes the line of a program of a step that sends one request. A step that judges or keeps
// the answer, or that says what only a promotion knows, has none.
func (p *process) readRequest(s *step) []string {
	if s.uses != "http" || s.config.Kind != yaml.MappingNode {
		return nil
	}
	method, url := "GET", ""
	var rest []string
	var taken, secrets []*yaml.Node
	for i := 0; i+1 < len(s.config.Content); i += 2 {
		key, value := s.config.Content[i].Value, s.config.Content[i+1]
		if !slices.Contains(requestKeys, key) {
			return nil
		}
		if key == "headers" {
			for _, header := range value.Content {
				text, ok := p.requestText(s, child(header, "value"))
				if _, isSecret := secrecy.Field(attribute(header, "name"), text); !ok || isSecret {
					secrets = append(secrets, header)
					continue
				}
				taken = append(taken, header)
				rest = append(rest, "--header", attribute(header, "name")+"="+text)
			}
			continue
		}
		text, ok := p.requestText(s, value)
		if _, isSecret := secrecy.Field(key, text); !ok || isSecret {
			return nil
		}
		taken = append(taken, value)
		switch key {
		case "method":
			method = text
		case "url":
			url = text
		case "timeout":
			seconds, ok := strings.CutSuffix(text, "s")
			if !ok || strings.Trim(seconds, "0123456789") != "" {
				return nil
			}
			rest = append(rest, "--timeout", seconds)
		case "body":
			rest = append(rest, "--body", text)
		}
	}
	if url == "" {
		return nil
	}
	p.keep(taken...)
	for _, header := range secrets {
		p.leave(header, "a header of the step "+s.title(), "no secret is copied, and what is known at a promotion only is no header: write it into /etc/lehr/send-request.json, as programs/send-request says", header)
	}
	p.programs.Add(adapters.SendRequest)
	return adapters.SendRequest.Command(append([]string{"--method", method, "--url", url}, rest...)...)
}

// requestText is a text of a request, with {version} and {digest} for what the program is told. Of a Stage
// with several artifacts each application has a version of its own, so none of them can be named.
func (p *process) requestText(s *step, node *yaml.Node) (string, bool) {
	text, err := s.resolveAt(node)
	if err != nil {
		return "", false
	}
	artifacts, isTold := 0, true
	for _, q := range p.stage.requests {
		if q.warehouse != nil {
			artifacts += len(q.warehouse.artifacts)
		}
	}
	text = marks.ReplaceAllStringFunc(text, func(mark string) string {
		told, ok := s.reference(mark)
		isTold = isTold && ok && artifacts == 1
		return "{" + told.part + "}"
	})
	return text, isTold && text != ""
}
