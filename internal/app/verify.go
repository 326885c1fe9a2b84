package app

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"

	"lehr.dev/internal/annealing/delivery"
	"lehr.dev/internal/annealing/strategist/sampling"
	"lehr.dev/internal/external"
	"lehr.dev/internal/ground/fault"
	"lehr.dev/internal/ground/intent"
	"lehr.dev/internal/ground/loop"
	"lehr.dev/internal/ground/validation"
)

// verifies is who runs the verifications of a partition's environments; nil: nobody, as where
// what lies outside is replaced.
func (a *App) verifies(partition intent.PartitionID, runtime loop.Runtime) func(context.Context, delivery.Verifying) (delivery.Finding, error) {
	if a.options.Parts.Verify != nil {
		return a.options.Parts.Verify
	}
	if a.options.Parts.Outside != nil || a.options.Parts.Plugins != nil {
		return nil
	}
	run, analyse := verifier(a.options.ExternalChecks), analyser(a.samples(partition), runtime)
	return func(ctx context.Context, v delivery.Verifying) (delivery.Finding, error) {
		if v.Analysis != nil {
			return analyse(ctx, v)
		}
		return run(ctx, v)
	}
}

// analyser has the judge look, as often as the validation says, until it finds what changed good or
// bad. An analysis that is inconclusive in the end, or without samples, gives no result.
func analyser(sampler *sampling.Sampler, runtime loop.Runtime) func(context.Context, delivery.Verifying) (delivery.Finding, error) {
	return func(ctx context.Context, v delivery.Verifying) (delivery.Finding, error) {
		a := v.Analysis
		last := "nobody has looked yet"
		for {
			assessed, err := assess(ctx, sampler, judgedChange{
				title: fmt.Sprintf("%s in the environment %s of %s", v.Version.Name, v.Environment, v.Application), validation: a.Validation, began: a.Began, changed: a.Changed,
				subject: sampling.Subject{Experiment: sampling.Part(a.Experiment), Control: sampling.Part(a.Control)}, now: runtime.Now(),
			})
			switch {
			case err != nil:
				return delivery.Finding{}, err
			case assessed.Result == string(validation.Bad), assessed.Result == string(validation.Good):
				return delivery.Finding{Good: assessed.Result == string(validation.Good), Reason: external.Shown(assessed.Reason)}, nil
			case assessed.Next.IsZero():
				return delivery.Finding{}, fault.New(fault.Unavailable, "the analysis is %s: %s", assessed.Result, external.Shown(assessed.Reason))
			}
			last = external.Shown(assessed.Reason)
			if err := runtime.Wait(ctx, max(time.Second, assessed.Next.Sub(runtime.Now())), nil); err != nil {
				return delivery.Finding{}, fault.New(fault.Unavailable, "the analysis came to no end: %s", last)
			}
		}
	}
}

// verifier runs programs and asks services, as far as the operator's file lets both the
// partition that defines a verification and that of the environment.
func verifier(file string) func(context.Context, delivery.Verifying) (delivery.Finding, error) {
	return func(ctx context.Context, v delivery.Verifying) (delivery.Finding, error) {
		policy, err := external.ReadPolicy(file)
		if err != nil {
			return delivery.Finding{}, err
		}
		body, err := verificationBody(v)
		if err != nil {
			return delivery.Finding{}, err
		}
		partitions := slices.Compact([]intent.PartitionID{v.Home, v.Partition})
		if line := v.Spec.GetCommand().GetLine(); len(line) > 0 {
			for _, partition := range partitions {
				if err := policy.MayRun(partition, line[0]); err != nil {
					return delivery.Finding{}, err
				}
			}
			return verifyByCommand(ctx, line, body)
		}
		var request external.Request
		for _, partition := range partitions {
			if request, err = policy.Place(partition, external.Verification, v.Spec.GetHttp()); err != nil {
				return delivery.Finding{}, err
			}
		}
		request.JSON = body
		return verifyByHTTP(ctx, request)
	}
}

// verificationRequest is what a program gets as its input, and a service as a request.
type verificationRequest struct {
	Verification string    `json:"verification"`
	Partition    string    `json:"partition"`
	Home         string    `json:"home"`
	Application  string    `json:"application"`
	Environment  string    `json:"environment"`
	Version      string    `json:"version"`
	Digest       string    `json:"digest,omitempty"`
	Content      string    `json:"content"`
	Assets       []string  `json:"assets"`
	Until        time.Time `json:"until"`
}

func verificationBody(v delivery.Verifying) (string, error) {
	r := verificationRequest{
		Verification: v.Name, Partition: string(v.Partition), Home: string(v.Home), Application: v.Application, Environment: v.Environment,
		Version: v.Version.Name, Digest: v.Version.Digest, Content: v.Content.String(), Assets: []string{}, Until: v.Until.UTC(),
	}
	for _, asset := range v.Assets {
		r.Assets = append(r.Assets, string(asset))
	}
	text, err := json.Marshal(r)
	return string(text), err
}

// verifyByCommand is good by the exit code 0, and bad by another. A program that does not exit by
// itself says nothing.
func verifyByCommand(ctx context.Context, line []string, body string) (delivery.Finding, error) {
	ran, err := external.Run(ctx, line, body)
	if err != nil {
		return delivery.Finding{}, err
	}
	return delivery.Finding{Good: ran.Exit == 0, Reason: external.Shown(cmp.Or(ran.Complaint, ran.Text))}, nil
}

// verifyByHTTP is good by a status of 2xx. One that says that nobody answers now says nothing.
func verifyByHTTP(ctx context.Context, request external.Request) (delivery.Finding, error) {
	status, text, err := external.Fetch(ctx, request)
	switch {
	case status == http.StatusInternalServerError: // The service's own word, and Fetch's error.
	case err != nil:
		return delivery.Finding{}, err
	case status >= 300 && status < 400:
		return delivery.Finding{}, fault.New(fault.Unavailable, "it answered with status %d, and redirects are not followed", status)
	}
	good := status >= 200 && status < 300
	reason := external.Shown(text)
	if !good {
		reason = http.StatusText(status) + ": " + reason
	}
	return delivery.Finding{Good: good, Reason: reason}, nil
}
